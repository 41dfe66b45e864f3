"""The command line before any model is loaded."""

import pytest

from octavo_engine.cli import COMMANDS, main


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("octavo 0.")


@pytest.mark.parametrize("argv", [[], ["--help"]])
def test_usage_names_every_command(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 0
    text = capsys.readouterr().out
    assert all(f"  {command}" in text for command in COMMANDS)


def test_unknown_command_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["server"]) == 2
    assert "unknown command 'server'" in capsys.readouterr().err


def test_wrong_flag_ends_with_2_and_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "m", "--max-num-seq", "3"]) == 2
    assert capsys.readouterr().err == "octavo: unknown flag --max-num-seq; did you mean --max-num-seqs?\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_status:
        main([command, "--help"])
    assert exit_status.value.code == 0
    assert "usage: octavo " + command in capsys.readouterr().out


def test_model_that_cannot_be_converted_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["model", "convert", "/nowhere.gguf", "--output", "/tmp/x"]) == 2
    assert "'/nowhere.gguf' is no GGUF file" in capsys.readouterr().err
