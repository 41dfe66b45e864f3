"""kind, docker and podman are played by scripts that write down how they are called."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

FakeCommand = Callable[[str, str], Path]


@pytest.fixture
def fake_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeCommand:
    """`fake_command(NAME, SCRIPT)` puts a command on PATH; answers with the file that lists its calls, one a line."""
    programs = tmp_path / "programs"
    programs.mkdir()
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")

    def make(name: str, script: str) -> Path:
        calls = tmp_path / f"{name}.calls"
        program = programs / name
        program.write_text(f'#!/bin/bash\necho "$*" >> {calls}\n{script}\n')
        program.chmod(0o755)
        return calls

    return make
