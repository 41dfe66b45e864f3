"""EngineCore over the fake model, whose tokens give away any mistake in block tables, caching or preemption."""

import random

import pytest

from octavo_engine.core.engine_core import EngineCore
from octavo_engine.errors import InvalidRequest, OutOfDeviceMemory
from octavo_engine.messages import AddRequest
from octavo_engine.sampling_params import SamplingParams
from tests.engine.core_support import Engine, make_config
from tests.fakes import FakeModelRunner, expected_tokens

DEPTHS = pytest.mark.parametrize("depth", [1, 2])


def prompts(count: int, length: int, seed: int = 0) -> list[list[int]]:
    rng = random.Random(seed)
    return [[rng.randrange(1000) for _ in range(length)] for _ in range(count)]


@DEPTHS
@pytest.mark.parametrize("block_size", [8, 16, 32, 64])
@pytest.mark.parametrize("chunk", [1, 7, 64, None])
def test_any_block_and_chunk_size_gives_the_same_tokens(depth: int, block_size: int, chunk: int | None) -> None:
    engine = Engine(depth=depth, num_blocks=64, block_size=block_size, prefill_chunk_size=chunk)
    for prompt in prompts(5, 50):
        engine.add(prompt, max_tokens=20)
    engine.run()
    engine.check_outputs()


@DEPTHS
def test_seeded_sampling_is_the_same_alone_and_in_a_batch(depth: int) -> None:
    engine = Engine(depth=depth, num_blocks=20, max_num_batched_tokens=32)
    for i, prompt in enumerate(prompts(8, 40)):
        engine.add(prompt, max_tokens=30, temperature=1.0, seed=i)
    engine.run()
    assert engine.core.stats().preemptions_total > 0
    engine.check_outputs()


@DEPTHS
@pytest.mark.parametrize("victim_step", range(12))
def test_preempted_request_resumes_with_the_same_tokens(depth: int, victim_step: int) -> None:
    """An urgent request that needs nearly all blocks arrives before each step in turn."""
    engine = Engine(depth=depth, num_blocks=10, block_size=8, max_num_batched_tokens=16)
    for prompt in prompts(2, 24):
        engine.add(prompt, max_tokens=8)
    for _ in range(victim_step):
        engine.step()
    engine.add(prompts(1, 70, seed=1)[0], max_tokens=3, priority=-1)
    engine.run()
    engine.check_outputs()


@DEPTHS
@pytest.mark.parametrize("abort_step", range(12))
def test_abort_in_any_state_gives_all_blocks_back(depth: int, abort_step: int) -> None:
    engine = Engine(depth=depth, num_blocks=10, block_size=8, max_num_batched_tokens=16)
    ids = [engine.add(prompt, max_tokens=20) for prompt in prompts(3, 24)]
    for _ in range(abort_step):
        engine.step()
    for request_id in ids:
        engine.abort(request_id)
    engine.run()
    stats = engine.core.stats()
    assert (stats.num_used_blocks, stats.num_running, stats.num_waiting) == (0, 0, 0)
    assert stats.block_repairs_total == 0
    engine.check_outputs()


@DEPTHS
def test_prefix_hit_gives_the_same_tokens_and_skips_the_work(depth: int) -> None:
    engine = Engine(depth=depth, num_blocks=64, block_size=16)
    (shared,) = prompts(1, 100)
    for tail in range(3):
        engine.add([*shared, tail], max_tokens=5)
        engine.run()
    engine.check_outputs()
    stats = engine.core.stats()
    assert stats.prefix_hit_tokens_total == 2 * 96
    assert stats.prefix_hit_tokens_total + stats.prefix_miss_tokens_total == stats.prompt_tokens_total == 3 * 101


@DEPTHS
def test_requests_of_one_step_share_a_prefix_that_is_computed_once(depth: int) -> None:
    engine = Engine(depth=depth, num_blocks=64, block_size=16)
    (shared,) = prompts(1, 100)
    for tail in range(3):
        engine.add([*shared, tail], max_tokens=5)
    engine.run()
    engine.check_outputs()
    assert engine.runner.batches[0].num_tokens == 101 + 2 * 5


def test_without_prefix_caching_nothing_is_found() -> None:
    engine = Engine(num_blocks=64, enable_prefix_caching=False)
    for _ in range(2):
        engine.add(prompts(1, 100)[0], max_tokens=5)
        engine.run()
    engine.check_outputs()
    assert engine.core.stats().prefix_hit_tokens_total == 0
    assert engine.core.stats().num_cached_blocks == 0


@DEPTHS
def test_stop_token_ends_the_request_and_is_named(depth: int) -> None:
    engine = Engine(depth=depth)
    (prompt,) = prompts(1, 10)
    stop = expected_tokens(prompt, SamplingParams(max_tokens=20, temperature=0))[5]
    request_id = engine.add(prompt, max_tokens=20, stop_token_ids=(stop,))
    engine.run()
    last = engine.events[request_id][-1]
    assert (last.finish_reason, last.stop_token_id, last.token_ids) == ("stop", stop, [stop])
    engine.check_outputs()


def test_end_token_is_honoured_unless_ignored() -> None:
    config = make_config()
    runner = FakeModelRunner(config, 64)
    params = SamplingParams(max_tokens=20, temperature=0)
    end = expected_tokens([1, 2, 3], params)[4]
    core = EngineCore(config, runner, [end])
    core.add(AddRequest("a", [1, 2, 3], params))
    core.add(AddRequest("b", [1, 2, 3], SamplingParams(max_tokens=20, temperature=0, ignore_eos=True)))
    counts = {"a": 0, "b": 0}
    while core.has_work:
        for event in core.step():
            counts[event.request_id] += len(event.token_ids)
    assert counts == {"a": 5, "b": 20}


@DEPTHS
def test_non_finite_logits_fail_only_their_request(depth: int) -> None:
    engine = Engine(depth=depth, runner={"poisoned_token": 999})
    good = engine.add([1, 2, 3] * 10, max_tokens=10)
    bad = engine.add([1, 2, 3] * 10 + [999], max_tokens=10)
    engine.run()
    assert "not finite" in (engine.events[bad][-1].error or "")
    assert engine.events[bad][-1].finish_reason == "error"
    assert engine.tokens(good) == expected_tokens([1, 2, 3] * 10, SamplingParams(max_tokens=10, temperature=0))
    assert engine.core.stats().num_used_blocks == 0


@DEPTHS
def test_a_step_that_runs_out_of_memory_is_repeated_in_smaller_ones(depth: int) -> None:
    engine = Engine(depth=depth, runner={"num_tokens_that_fit": 20})
    for prompt in prompts(4, 60):
        engine.add(prompt, max_tokens=10)
    engine.run()
    engine.check_outputs()
    assert engine.core.stats().steps_shed_total == 3
    assert engine.core.stats().num_used_blocks == 0


def test_a_step_that_cannot_be_made_smaller_ends_the_engine() -> None:
    engine = Engine(runner={"num_tokens_that_fit": 4})
    engine.add([1] * 60, max_tokens=10)
    with pytest.raises(OutOfDeviceMemory):
        engine.run()


def test_a_request_id_in_use_and_absurd_token_ids_are_refused() -> None:
    engine = Engine()
    engine.add([1, 2, 3], max_tokens=3)
    with pytest.raises(InvalidRequest, match="'r0' is in use"):
        engine.core.add(AddRequest("r0", [1], SamplingParams()))
    with pytest.raises(InvalidRequest, match="token ids must be below"):
        engine.core.add(AddRequest("r1", [1 << 31], SamplingParams()))
    engine.run()
    engine.check_outputs()


def test_lost_blocks_are_repaired_and_reported_when_idle(caplog: pytest.LogCaptureFixture) -> None:
    engine = Engine(num_blocks=64)
    engine.core._scheduler.pool.allocate(3)
    engine.add([1, 2, 3], max_tokens=3)
    engine.run()
    assert engine.core.stats().block_repairs_total == 1
    assert engine.core.stats().num_used_blocks == 0
    assert "all are free again" in caplog.text
    engine.add([1, 2, 3], max_tokens=3)
    engine.run()
    engine.check_outputs()
