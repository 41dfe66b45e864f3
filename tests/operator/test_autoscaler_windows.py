"""Rules that look back: stabilization, history after a restart, policies."""

from dataclasses import replace

from octavo_operator.autoscaler.types import AutoscalerState, AutoscalingSpec, Point, ScaleDownSpec, ScaleUpSpec
from octavo_operator.autoscaler.window import HORIZON_SECONDS, extreme, push_high, push_low
from tests.operator.autoscaler_fakes import IDLE, QUICK, Service, engine

FULL = engine(used=900, prompt_tokens=900)


def test_a_window_gives_the_extreme_of_its_points_and_keeps_only_those_that_can_still_matter() -> None:
    highs: tuple[Point, ...] = ()
    lows: tuple[Point, ...] = ()
    for at, value in enumerate([3.0, 5.0, 1.0, 4.0, 2.0]):
        highs = push_high(highs, at, value)
        lows = push_low(lows, at, value)
    assert [point.value for point in highs] == [5, 4, 2]
    assert [point.value for point in lows] == [1, 2]
    assert extreme(highs, 4, 3, default=0) == 5
    assert extreme(highs, 4, 2.5, default=0) == 4
    assert extreme(lows, 4, 1, default=0) == 2
    assert extreme((), 4, 1, default=7) == 7
    assert push_high(highs, 4 + HORIZON_SECONDS, 0.0)[0].value == 2


def test_shrinking_waits_for_a_whole_window_of_low_need() -> None:
    service = Service(replicas=2)
    service.look_for(60, IDLE, engine(used=750))
    last_load = service.now
    decision = service.look_until_moved(IDLE, IDLE)
    assert service.now - last_load > QUICK.scale_down.stabilization_seconds
    assert service.now - last_load <= QUICK.scale_down.stabilization_seconds + 10
    assert decision.reason == "Shrinking from 2 to 1: kvCacheUtilization needs 0.00 replicas"


def test_a_short_peak_within_the_window_holds_the_number() -> None:
    service = Service(replicas=3)
    for _ in range(20):
        service.look_for(20, IDLE, IDLE, IDLE)
        decision = service.look(*[engine(used=700)] * 3)
    assert decision.desired == 3


def test_shrinking_goes_to_the_highest_need_of_its_window() -> None:
    spec = replace(QUICK, scale_down=ScaleDownSpec(stabilization_seconds=30, max_pods=10, period_seconds=5))
    service = Service(spec, replicas=5)
    service.look_for(40, *[engine(used=700)] * 5)
    service.look_for(20, *[engine(used=300)] * 5)
    decision = service.look_until_moved(*[IDLE] * 5)
    assert decision.desired == 3
    assert decision.limited_by == ("ScaleDownStabilization",)


def test_growth_does_not_wait_for_the_window_of_shrinking() -> None:
    service = Service()
    service.look(IDLE)
    assert service.look(FULL).desired == 3


def test_growth_waits_for_its_own_window_if_it_has_one() -> None:
    service = Service(replace(QUICK, scale_up=ScaleUpSpec(stabilization_seconds=20)))
    service.look(IDLE)
    start = service.now
    service.look_until_moved(FULL)
    assert 20 < service.now - start <= 30


def test_a_dip_within_the_window_of_growth_starts_it_anew() -> None:
    service = Service(replace(QUICK, scale_up=ScaleUpSpec(stabilization_seconds=20)))
    for _ in range(5):
        service.look_for(15, FULL)
        assert service.look(engine(used=100)).desired == 1


def test_after_a_restart_nothing_shrinks_before_a_whole_window_was_seen() -> None:
    service = Service(replicas=2)
    service.look_for(300, IDLE, engine(used=750))
    service.restart()
    start = service.now
    decision = service.look(IDLE, IDLE)
    assert decision.limited_by == ("ScaleDownStabilization",)
    assert "is not known for the last 30 s yet" in decision.reason
    service.look_until_moved(IDLE, IDLE)
    assert service.now - start >= 30


def test_a_gap_in_looking_counts_as_a_restart() -> None:
    service = Service(replicas=2)
    service.look_for(60, IDLE, engine(used=750))
    assert service.look(IDLE, IDLE, after=300).desired == 2
    assert service.look(IDLE, IDLE, after=-3600).desired == 2


def test_an_outage_of_the_metrics_counts_as_need_for_what_there_is() -> None:
    service = Service(replicas=2)
    service.look_for(60, engine(used=500), engine(used=500))
    service.look_for(60, None, None)
    end_of_outage = service.now
    service.look_until_moved(IDLE, IDLE)
    assert service.now - end_of_outage > 30


def test_after_the_clock_was_set_back_shrinking_waits_for_one_window_only() -> None:
    service = Service(replicas=2)
    service.look_for(60, IDLE, IDLE)
    service.replicas = 2
    service.look(IDLE, IDLE, after=-3600)
    set_back = service.now
    service.look_until_moved(IDLE, IDLE)
    assert service.now - set_back == 30


def test_a_time_with_too_few_answers_counts_as_need_for_what_there_is() -> None:
    service = Service(replicas=3)
    service.look_for(60, IDLE, None, None)
    end_of_outage = service.now
    service.look_until_moved(IDLE, IDLE, IDLE)
    assert service.now - end_of_outage > 30


def test_the_memory_stays_small() -> None:
    service = Service(replicas=2)
    for i in range(2000):
        service.look(engine(used=i % 7 * 100), engine(used=i % 11 * 90))
    assert len(service.state.highs) + len(service.state.lows) < 30


def test_growth_is_limited_by_percent_or_pods_whichever_is_more() -> None:
    spec = AutoscalingSpec(max_replicas=100, scale_up=ScaleUpSpec(max_percent=100, max_pods=4, period_seconds=15))
    service = Service(spec)
    service.look(IDLE)
    numbers = []
    for _ in range(8):
        decision = service.look(engine(used=1000, prompt_tokens=50_000))
        numbers.append(decision.desired)
    assert numbers == [5, 5, 5, 10, 10, 10, 20, 20]
    assert "ScaleUpPolicy" in decision.limited_by
    assert "at most 20 are allowed 15 s after 10" in decision.reason


def test_shrinking_is_limited_by_pods_per_period() -> None:
    spec = replace(QUICK, scale_down=ScaleDownSpec(stabilization_seconds=30, max_pods=1, period_seconds=20))
    service = Service(spec, replicas=5)
    service.look_for(30, *[IDLE] * 5)
    numbers = [service.look(*[IDLE] * 5).desired for _ in range(11)]
    assert numbers == [4, 4, 4, 4, 3, 3, 3, 3, 2, 2, 2]


def test_the_pace_of_growth_does_not_count_what_was_just_taken_away() -> None:
    service = Service(replace(QUICK, max_replicas=100), replicas=10)
    service.look(*[IDLE] * 10)
    service.replicas = 5
    assert service.look(*[FULL] * 5, engine(prompt_tokens=50_000)).desired == 10


def test_the_pace_of_shrinking_does_not_count_what_was_just_added() -> None:
    spec = replace(QUICK, scale_down=ScaleDownSpec(stabilization_seconds=0, max_pods=1, period_seconds=60))
    service = Service(replace(spec, min_replicas=2), replicas=2)
    service.look(IDLE, IDLE)
    service.replicas = 5
    assert service.look(*[IDLE] * 5).desired == 4


def test_a_fresh_state_is_what_a_new_operator_starts_from() -> None:
    assert Service().state == AutoscalerState()
