import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from octavo_engine.config import EngineConfig
from octavo_engine.core.batch import Batch, NewRow
from octavo_engine.errors import ConfigError
from octavo_engine.messages import AddRequest
from octavo_engine.runner import load_runner
from octavo_engine.runner.host import memory_limit_bytes, num_usable_cpus
from octavo_engine.runner.row_table import RowTable
from octavo_engine.sampling_params import SamplingParams
from tests.engine.model_support import generate, load_model, make_core, random_tokens, write_model

BLOCK_BYTES = 2 * 3 * 16 * 16 * 4
"""Of the tiny model: keys and values, layers, tokens, features, bytes."""


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("tiny"), "llama")


def config_of(tiny: Path, **overrides: Any) -> EngineConfig:
    options = {"device": "cpu", "num_threads": torch.get_num_threads(), "max_num_seqs": 4, "kv_cache_memory_gib": 0.01}
    return EngineConfig(model=str(tiny), **{**options, **overrides})


def new_row(row: int, tokens: list[int], blocks: list[int], **params: Any) -> NewRow:
    return NewRow(row, tokens, blocks, SamplingParams(**{"temperature": 0.0, **params}), len(tokens))


def test_a_loaded_runner_says_what_it_is(tiny: Path) -> None:
    runner, ready = load_runner(config_of(tiny, served_model_name="tiny"))
    assert (ready.model, ready.vocab_size, ready.eos_token_ids) == ("tiny", 320, [2])
    assert (ready.device, ready.dtype, ready.attention_backend) == ("cpu", "float32", "torch")
    assert ready.num_blocks == runner.num_blocks == 4 * 512 // 16
    assert ready.max_model_len == runner.max_model_len == 512


def test_the_kv_cache_takes_no_more_than_its_budget(tiny: Path) -> None:
    budget = 10 * BLOCK_BYTES + 100
    runner, ready = load_runner(config_of(tiny, kv_cache_memory_gib=budget / 2**30))
    assert runner.num_blocks == 10
    assert ready.max_model_len == 160


def test_a_limit_that_was_asked_for_must_fit_the_kv_cache(tiny: Path) -> None:
    with pytest.raises(ConfigError, match="max_model_len 200 does not fit the KV cache of 160 tokens; lower it to 160"):
        load_runner(config_of(tiny, kv_cache_memory_gib=10 * BLOCK_BYTES / 2**30, max_model_len=200))


def test_a_kv_cache_without_room_for_a_block_is_refused(tiny: Path) -> None:
    with pytest.raises(ConfigError, match="raise kv_cache_memory_gib"):
        load_runner(config_of(tiny, kv_cache_memory_gib=1e-9))


def test_more_positions_than_the_model_has_are_refused(tiny: Path) -> None:
    with pytest.raises(ConfigError, match="max_model_len 513 exceeds the 512 tokens"):
        load_runner(config_of(tiny, max_model_len=513))


def test_random_weights_serve_without_a_checkpoint(tiny: Path, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text((tiny / "config.json").read_text())
    runner, _ = load_runner(config_of(tmp_path, load_format="dummy", dtype="bfloat16"))
    result = runner.submit(Batch([0], [3], [0], [True], new_rows=[new_row(0, [5, 6, 7], [0])])).result()
    assert result.token_ids[0] in range(320)


def test_threads_are_those_of_the_configuration(tiny: Path) -> None:
    before = torch.get_num_threads()
    try:
        load_runner(config_of(tiny, num_threads=1))
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)


def test_waiting_threads_sleep() -> None:
    assert os.environ["OMP_WAIT_POLICY"] == "PASSIVE"


def test_a_sampled_token_is_the_next_steps_input(tiny: Path) -> None:
    runner, _ = load_runner(config_of(tiny))
    prompt = random_tokens(20, 0, 320)
    first = runner.submit(Batch([0], [20], [0], [True], new_rows=[new_row(0, prompt, [3, 7])])).result().token_ids
    second = runner.submit(Batch([0], [1], [20], [True])).result().token_ids
    assert first[0] is not None
    resumed = Batch([1], [21], [0], [True], new_rows=[new_row(1, [*prompt, first[0]], [4, 5])])
    assert runner.submit(resumed).result().token_ids == second


def test_only_rows_that_reach_their_end_are_sampled(tiny: Path) -> None:
    runner, _ = load_runner(config_of(tiny))
    rows = [new_row(0, random_tokens(20, 0, 320), [0, 1]), new_row(1, random_tokens(20, 1, 320), [2, 3])]
    result = runner.submit(Batch([0, 1], [20, 10], [0, 0], [True, False], new_rows=rows)).result()
    assert len(result.token_ids) == 1
    result = runner.submit(Batch([0, 1], [1, 4], [20, 10], [False, False])).result()
    assert result.token_ids == []


def test_a_row_may_read_what_another_writes_in_the_same_pass(tiny: Path) -> None:
    runner, _ = load_runner(config_of(tiny))
    prompt = random_tokens(20, 0, 320)
    rows = [new_row(0, prompt, [0, 1]), new_row(1, prompt, [0, 2])]
    result = runner.submit(Batch([0, 1], [20, 4], [0, 16], [True, True], new_rows=rows)).result()
    assert result.token_ids[0] == result.token_ids[1]


def test_copied_blocks_are_copied_before_the_pass(tiny: Path) -> None:
    runner, _ = load_runner(config_of(tiny))
    prompt = random_tokens(20, 0, 320)
    runner.submit(Batch([0], [19], [0], [False], new_rows=[new_row(0, prompt, [0, 1])]))
    fork = Batch([0, 1], [1, 1], [19, 19], [True, True], [new_row(1, prompt, [0, 2])], block_copies=[(1, 2)])
    result = runner.submit(fork).result()
    assert result.token_ids[0] == result.token_ids[1]


def test_a_step_without_rows_still_takes_in_what_is_new(tiny: Path) -> None:
    runner, _ = load_runner(config_of(tiny))
    assert runner.submit(Batch(new_rows=[new_row(0, [5], [0])])).result().token_ids == []
    assert len(runner.submit(Batch([0], [1], [0], [True])).result().token_ids) == 1


def test_a_seeded_answer_does_not_depend_on_neighbours_or_preemption(tiny: Path) -> None:
    model = load_model(tiny)
    prompts = [random_tokens(30, seed, 320) for seed in range(6)]
    params = {"temperature": 1.0, "seed": 11, "max_tokens": 40, "ignore_eos": True}
    alone = [generate(make_core(model, torch.float32, 64), [prompt], **params)[0] for prompt in prompts]
    core = make_core(model, torch.float32, num_blocks=11, block_size=8)
    assert generate(core, prompts, **params) == alone
    assert core.stats().preemptions_total > 0


def test_without_a_seed_answers_differ(tiny: Path) -> None:
    core = make_core(load_model(tiny), torch.float32, 64)
    prompt = random_tokens(30, 0, 320)
    first, second = generate(core, [prompt, prompt], temperature=1.0, ignore_eos=True)
    assert first != second


def test_logits_that_are_not_finite_fail_their_request_alone(tiny: Path) -> None:
    model = load_model(tiny)
    healthy = random_tokens(20, 0, 319)
    expected = generate(make_core(model, torch.float32, 8), [healthy])
    model._embedding[319] = float("nan")
    core = make_core(model, torch.float32, 8)
    core.add(AddRequest("bad", [319] * 20, SamplingParams(temperature=0.0, max_tokens=12)))
    core.add(AddRequest("good", healthy, SamplingParams(temperature=0.0, max_tokens=12)))
    tokens: list[int] = []
    errors: list[str | None] = []
    while core.has_work:
        for event in core.step():
            if event.request_id == "good":
                tokens += event.token_ids
            elif event.finish_reason:
                errors.append(event.error)
    assert tokens == expected[0]
    assert len(errors) == 1
    assert errors[0] is not None
    assert generate(core, [healthy]) == expected


def test_inputs_of_a_mixed_batch() -> None:
    table = RowTable(num_rows=3, max_model_len=64, block_size=8)
    decode, chunk = new_row(0, list(range(100, 110)), [5, 2]), new_row(2, list(range(200, 230)), [7, 1, 0, 3])
    batch = Batch([0, 2], [1, 6], [9, 12], [True, False], new_rows=[decode, chunk])
    table.update(batch)
    inputs = table.inputs(batch)
    assert inputs.token_ids.tolist() == [109, 212, 213, 214, 215, 216, 217]
    assert inputs.positions.tolist() == [9, 12, 13, 14, 15, 16, 17]
    assert inputs.layout.slots.tolist() == [17, 12, 13, 14, 15, 0, 1]
    assert inputs.layout.context_lens.tolist() == [10, 18]
    assert inputs.layout.block_tables.tolist() == [[5, 2, 2], [7, 1, 0]]
    assert inputs.sampled.tolist() == [0]
    table.append(inputs, np.array([42]))
    assert table.inputs(Batch([0], [1], [10], [True])).token_ids.tolist() == [42]


@pytest.mark.parametrize(
    ("files", "wanted"),
    [
        ({}, None),
        ({"sys/fs/cgroup/pod/cpu.max": "100000 100000"}, 1),
        ({"sys/fs/cgroup/pod/cpu.max": "150000 100000"}, 1),
        ({"sys/fs/cgroup/pod/cpu.max": "max 100000", "sys/fs/cgroup/cpu.max": "50000 100000"}, 1),
        ({"sys/fs/cgroup/cpu/pod/cpu.cfs_quota_us": "100000", "sys/fs/cgroup/cpu/pod/cpu.cfs_period_us": "100000"}, 1),
        ({"sys/fs/cgroup/cpu/pod/cpu.cfs_quota_us": "-1", "sys/fs/cgroup/cpu/pod/cpu.cfs_period_us": "100000"}, None),
    ],
)
def test_threads_follow_the_cpu_quota(tmp_path: Path, files: dict[str, str], wanted: int | None) -> None:
    write_host(tmp_path, files)
    assert num_usable_cpus(tmp_path) == (wanted or len(os.sched_getaffinity(0)))


@pytest.mark.parametrize(
    ("files", "wanted"),
    [
        ({}, 1000 * 1024),
        ({"sys/fs/cgroup/pod/memory.max": "5000"}, 5000),
        ({"sys/fs/cgroup/pod/memory.max": "max", "sys/fs/cgroup/memory.max": "6000"}, 6000),
        ({"sys/fs/cgroup/memory/memory.limit_in_bytes": "7000"}, 7000),
        ({"sys/fs/cgroup/memory/pod/memory.limit_in_bytes": "9223372036854771712"}, 1000 * 1024),
    ],
)
def test_memory_follows_the_limit(tmp_path: Path, files: dict[str, str], wanted: int) -> None:
    write_host(tmp_path, files)
    assert memory_limit_bytes(tmp_path) == wanted


def write_host(root: Path, files: dict[str, str]) -> None:
    """A machine of 1000 KiB whose processes are in the cgroup /pod."""
    groups = "4:memory:/pod\n1:cpu,cpuacct:/pod\n0::/pod\n"
    for name, text in {"proc/meminfo": "MemTotal: 1000 kB\n", "proc/self/cgroup": groups, **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
