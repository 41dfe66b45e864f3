"""Which replicas leave, which come back, and when a Deployment shrinks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo_operator.drain import SETTLE_SECONDS, UNREADY_SECONDS, DrainStep, choose_victims, plan_drain
from octavo_operator.observed import Pod, Revision
from tests.operator.builders import NOW, crashing, draining, pod, revision, starting, unschedulable

TIMEOUT = 120.0


def plan(of: Revision, wanted: int, **num_requests: int) -> DrainStep:
    return plan_drain(of, wanted, num_requests, TIMEOUT, NOW)


def names(pods: tuple[Pod, ...]) -> list[str]:
    return [pod.name for pod in pods]


def test_nothing_to_do_changes_nothing() -> None:
    assert plan(revision("new", pod("a"), pod("b")), 2) == DrainStep(2)


def test_growth_is_immediate() -> None:
    assert plan(revision("new", pod("a")), 3) == DrainStep(3)


def test_shrinking_takes_the_victim_out_of_the_service_first() -> None:
    step = plan(revision("new", pod("a"), pod("b")), 1, a=3, b=1)
    assert (step.replicas, names(step.start)) == (2, ["b"])


def test_a_victim_with_requests_keeps_its_replica() -> None:
    step = plan(revision("new", pod("a"), draining("b")), 1, b=2)
    assert step == DrainStep(2)


def test_a_victim_that_was_not_heard_of_keeps_its_replica() -> None:
    assert plan(revision("new", pod("a"), draining("b")), 1) == DrainStep(2)


def test_a_victim_without_requests_is_released_before_the_deployment_shrinks() -> None:
    step = plan(revision("new", pod("a"), draining("b")), 1, b=0)
    assert (step.replicas, names(step.release), step.timed_out) == (2, ["b"], ())


def test_a_victim_that_takes_too_long_is_released() -> None:
    step = plan(revision("new", pod("a"), draining("b", since=TIMEOUT)), 1, b=1)
    assert (step.replicas, names(step.release), names(step.timed_out)) == (2, ["b"], ["b"])


@pytest.mark.parametrize(
    ("seconds", "is_ready", "replicas"),
    [(0.5, False, 2), (SETTLE_SECONDS, False, 1), (SETTLE_SECONDS, True, 2), (UNREADY_SECONDS, True, 1)],
)
def test_the_deployment_shrinks_when_the_drained_pod_is_the_one_it_would_delete(
    seconds: float, is_ready: bool, replicas: int
) -> None:
    drained = draining("b", drained_at=NOW - seconds, is_ready=is_ready)
    assert plan(revision("new", pod("a"), drained), 1) == DrainStep(replicas)


def test_a_drained_pod_stays_drained_for_an_operator_that_just_started() -> None:
    """It has not asked any engine yet."""
    drained = draining("b", drained_at=NOW - 5, is_ready=False)
    assert plan(revision("new", pod("a"), drained), 1).replicas == 1


def test_returning_load_puts_the_latest_victim_back() -> None:
    of = revision("new", pod("a"), draining("early", since=60), draining("late", since=5))
    step = plan(of, 2, early=1, late=1)
    assert (step.replicas, names(step.cancel), step.start) == (3, ["late"], ())


def test_load_beyond_the_victims_adds_replicas_too() -> None:
    step = plan(revision("new", pod("a"), draining("b")), 4, b=1)
    assert (step.replicas, names(step.cancel)) == (4, ["b"])


def test_a_victim_that_is_put_back_is_not_finished_at_the_same_time() -> None:
    step = plan(revision("new", pod("a"), draining("b")), 2, b=0)
    assert (step.replicas, names(step.cancel), step.release) == (2, ["b"], ())


def test_a_pod_that_never_started_needs_no_drain_to_finish() -> None:
    of = revision("new", pod("a"), starting("b", is_serving=False, draining_since=NOW))
    assert names(plan(of, 1).release) == ["b"]


def test_replicas_without_a_pod_go_first() -> None:
    assert plan(revision("new", pod("a"), replicas=3), 1) == DrainStep(1)


def test_pods_that_exist_and_are_not_known_yet_are_not_cut() -> None:
    """A watch that is late knows one of three pods; the two others may serve."""
    of = revision("new", pod("a"), replicas=3, num_created=3)
    step = plan(of, 2)
    assert (step.replicas, names(step.start)) == (3, ["a"])


def test_a_surplus_draining_pod_is_not_put_back_while_it_is_being_deleted() -> None:
    """The Deployment shrank, and its pod is still listed."""
    of = revision("new", pod("a"), draining("b"), replicas=1)
    assert plan(of, 1, b=0) == DrainStep(1)


def test_of_a_surplus_the_longest_draining_pod_is_the_one_that_goes() -> None:
    of = revision("new", pod("a"), draining("early", since=60), draining("late", since=5), replicas=2)
    assert names(plan(of, 2).cancel) == ["late"]


def test_of_a_surplus_the_drained_pod_is_the_one_that_goes() -> None:
    drained = draining("drained", since=5, drained_at=NOW - 2, is_ready=False)
    of = revision("new", pod("a"), draining("busy", since=60), drained, replicas=2)
    assert names(plan(of, 2).cancel) == ["busy"]


def test_all_replicas_can_leave() -> None:
    step = plan(revision("old", pod("a"), pod("b")), 0)
    assert (step.replicas, set(names(step.start))) == (2, {"a", "b"})


@pytest.mark.parametrize(
    ("pods", "victim"),
    [
        ([pod("busy"), unschedulable("nowhere"), crashing("crash"), starting("young")], "nowhere"),
        ([pod("busy"), crashing("crash"), starting("young")], "crash"),
        ([pod("busy"), starting("young")], "young"),
        ([pod("busy"), pod("idle")], "idle"),
        ([pod("young", age=1), pod("old", age=500)], "young"),
    ],
)
def test_who_serves_least_leaves_first(pods: list[Pod], victim: str) -> None:
    assert names(choose_victims(pods, 1, {"busy": 7})) == [victim]


def drained(name: str) -> Pod:
    return draining(name, drained_at=NOW - 2, is_ready=False)


MAKERS = (pod, starting, draining, drained, unschedulable, crashing)
pods = st.lists(st.sampled_from(MAKERS), max_size=6).map(
    lambda makers: tuple(make(f"pod-{index}") for index, make in enumerate(makers))
)


@given(
    pods,
    st.integers(0, 8),
    st.integers(0, 8),
    st.dictionaries(st.sampled_from([f"pod-{i}" for i in range(6)]), st.integers(0, 3)),
)
def test_no_serving_pod_is_ever_cut(
    pods: tuple[Pod, ...], replicas: int, wanted: int, num_requests: dict[str, int]
) -> None:
    """A Deployment shrinks only by replicas that have no pod, and by pods that are drained."""
    of = revision("new", *pods, replicas=replicas)
    step = plan_drain(of, wanted, num_requests, TIMEOUT, NOW)
    unborn = max(replicas - len(pods), 0)
    assert step.replicas >= replicas - unborn - sum(pod.drained_at is not None for pod in pods)
    assert all(pod.is_draining for pod in step.release)
    assert not any(pod.is_draining for pod in step.start)
    assert step.replicas >= 0


@given(pods, st.integers(0, 8), st.integers(0, 8))
def test_steps_lead_to_what_is_wanted(pods: tuple[Pod, ...], replicas: int, wanted: int) -> None:
    """What is planned to serve afterwards is what is wanted."""
    of = revision("new", *pods, replicas=max(replicas, len(pods)))
    step = plan_drain(of, wanted, {}, TIMEOUT, NOW)
    num_gone = sum(pod.drained_at is not None and pod not in step.cancel for pod in of.draining)
    leaving = len(of.draining) - len(step.cancel) - num_gone + len(step.start)
    assert step.replicas - leaving == wanted
