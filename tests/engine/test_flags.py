"""Flags, environment and file: one meaning, one order, and an error that names what is wrong."""

from pathlib import Path

import pytest

from octavo_engine import flags
from octavo_engine.errors import ConfigError
from octavo_engine.flags import FIELDS, ServeConfig, flag_of
from octavo_engine.unsupported_flags import UNSUPPORTED


def parse(*argv: str, **environ: str) -> ServeConfig:
    return flags.parse(argv, environ)


def test_model_may_be_an_argument_or_a_flag() -> None:
    assert (
        parse("m").engine.model == parse("--model", "m").engine.model == parse("m", "--model", "m").engine.model == "m"
    )


def test_underscores_and_dashes_are_the_same() -> None:
    for spelling in (["--prefill-chunk-size", "64"], ["--prefill_chunk_size", "64"], ["--prefill_chunk_size=64"]):
        assert parse("m", *spelling).engine.prefill_chunk_size == 64


def test_values_with_underscores_stay_as_they_are() -> None:
    assert parse("m", "--served_model_name", "my_model").engine.served_model_name == "my_model"


def test_switches_have_both_directions() -> None:
    assert parse("m").engine.enable_prefix_caching
    assert not parse("m", "--no-enable-prefix-caching").engine.enable_prefix_caching
    assert not parse("m", "--no_enable_prefix_caching").engine.enable_prefix_caching
    assert parse("m", "--enable-prefix-caching", OCTAVO_ENABLE_PREFIX_CACHING="false").engine.enable_prefix_caching


def test_command_line_wins_over_environment_and_that_over_the_file(tmp_path: Path) -> None:
    config = tmp_path / "octavo.yaml"
    config.write_text("model: m\nmax-num-seqs: 1\nmax_num_batched_tokens: 1\nblock-size: 8\nport: 1\n")
    environ = {"OCTAVO_CONFIG": str(config), "OCTAVO_MAX_NUM_SEQS": "2", "OCTAVO_MAX_NUM_BATCHED_TOKENS": "20"}
    serve = parse("--max-num-seqs", "3", **environ)
    assert serve.engine.max_num_seqs == 3
    assert serve.engine.max_num_batched_tokens == 20
    assert serve.engine.block_size == 8
    assert serve.server.port == 1


def test_api_keys_may_be_several(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("c\n\nd\n")
    assert parse("m", "--api-key", "a", "--api-key", "b").server.api_keys() == ("a", "b")
    assert parse("m", "--api-key-file", str(keys), OCTAVO_API_KEY="a,b").server.api_keys() == ("a", "b", "c", "d")


def test_every_flag_is_an_environment_variable() -> None:
    serve = parse(OCTAVO_MODEL="m", OCTAVO_BLOCK_SIZE="32", OCTAVO_ADMIN_TOKEN="s", OCTAVO_GPU_MEMORY_UTILIZATION="0.5")
    assert serve.engine.block_size == 32
    assert serve.engine.gpu_memory_utilization == 0.5
    assert serve.server.admin_token == "s"


def test_variables_that_kubernetes_sets_for_a_service_called_octavo_are_no_flags() -> None:
    assert parse("m", OCTAVO_PORT="tcp://10.0.0.1:80").server.port == 8000


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "no model given: octavo serve MODEL"),
        (["m", "n"], "unexpected argument 'n'"),
        (["m", "--model", "n"], "two models given"),
        (["m", "--max-num-seq", "1"], r"unknown flag --max-num-seq; did you mean --max-num-seqs\?"),
        (["m", "--frobnicate"], "unknown flag --frobnicate; see octavo serve --help"),
        (["m", "--max-num-seqs", "0"], "--max-num-seqs 0: Input should be greater than or equal to 1"),
        (["m", "--max-num-seqs", "many"], "--max-num-seqs many: .*valid integer"),
        (["m", "--max-num-seqs"], "--max-num-seqs: expected one argument"),
        (["m", "--block-size", "7"], "--block-size 7: Input should be 8, 16, 32 or 64"),
        (["m", "--gpu-memory-utilization", "1.5"], "--gpu-memory-utilization 1.5"),
        (["m", "--dtype", "fp8"], "--dtype fp8: Input should be 'auto'"),
        (["m", "--port", "70000"], "--port 70000"),
        (["m", "--max-model-len", "1"], "--max-model-len 1: Input should be greater than or equal to 2"),
        (["m", "--kv-cache-memory-gib", "inf"], "--kv-cache-memory-gib inf: Input should be a finite number"),
        (["m", "--drain-timeout", "inf"], "--drain-timeout inf: Input should be a finite number"),
        (["m", "--seed", "9223372036854775808"], "--seed 9223372036854775808: Input should be less than"),
        (["m", "--tensor-parallel-size", "2"], "--tensor-parallel-size 2: one engine runs on one GPU"),
        (["m", "--tensor_parallel_size=2"], "--tensor-parallel-size 2"),
        (["m", "--quantization", "fp8"], "--quantization fp8: quantized weights"),
        (["m", "--max-num-seqs", "9", "--max-num-batched-tokens", "8"], "^max_num_batched_tokens .8. must be"),
        (["m", "--enforce-eager"], "--enforce-eager true"),
        (["m", "--config", "/nowhere.yaml"], "--config /nowhere.yaml: No such file"),
    ],
)
def test_what_is_wrong_is_named(argv: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse(*argv)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("max-num-seq: 3", "unknown key in --config .* max_num_seq; did you mean max_num_seqs"),
        ("- 3", "expected a mapping"),
        ("a: [", "not valid YAML"),
        ("swap-space: 4", "--swap-space 4: blocks are never swapped"),
        ("max-num-seqs: [1]", "--max-num-seqs"),
    ],
)
def test_what_is_wrong_in_the_file_is_named(tmp_path: Path, text: str, message: str) -> None:
    config = tmp_path / "octavo.yaml"
    config.write_text(text)
    with pytest.raises(ConfigError, match=message):
        parse("m", "--config", str(config))


def test_flag_that_does_not_work_yet_is_refused_from_the_environment_too() -> None:
    with pytest.raises(ConfigError, match="--tensor-parallel-size 4"):
        parse("m", OCTAVO_TENSOR_PARALLEL_SIZE="4")


@pytest.mark.parametrize("name", [name for name, flag in UNSUPPORTED.items() if flag.neutral])
def test_value_that_asks_for_what_happens_anyway_is_accepted(name: str) -> None:
    for value in UNSUPPORTED[name].neutral:
        parse("m", flag_of(name), value)


def test_nothing_is_both_a_flag_and_unsupported() -> None:
    assert not FIELDS.keys() & UNSUPPORTED.keys()


def test_help_names_every_flag(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_status:
        parse("--help")
    assert exit_status.value.code == 0
    text = capsys.readouterr().out
    assert all(flag_of(name) in text for name in FIELDS)
    assert not any(flag_of(name) + " " in text for name in UNSUPPORTED)
