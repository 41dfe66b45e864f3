"""octavo chat against a server with a fake engine."""

import asyncio
import io

import pytest

from octavo_engine.cli import main

from .server_support import FakeEngine, listening, make_app


async def chat(engine: FakeEngine, typed: str, monkeypatch: pytest.MonkeyPatch, *flags: str) -> int:
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    async with listening(make_app(engine)) as client:
        return await asyncio.to_thread(main, ["chat", "--url", str(client.base_url), *flags])


async def test_answers_are_shown_and_remembered(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    engine = FakeEngine("Hello [b]there")
    assert await chat(engine, "Hi\n\nAnd?\n/new\nBye\n", monkeypatch, "--system", "Be brief") == 0
    prompts = [bytes(prompt).decode() for prompt, _ in engine.submitted]
    assert prompts == [
        "system: Be brief\nuser: Hi\n",
        "system: Be brief\nuser: Hi\nassistant: Hello [b]there\nuser: And?\n",
        "system: Be brief\nuser: Bye\n",
    ]
    assert capsys.readouterr().out.count("Hello [b]there") == 3


async def test_refusal_of_the_server_is_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await chat(FakeEngine(), "x" * 500 + "\n", monkeypatch) == 2
    assert "cannot fit into 128 tokens" in capsys.readouterr().err


def test_server_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["chat", "--url", "http://127.0.0.1:9"]) == 2
    assert "no server answers at http://127.0.0.1:9" in capsys.readouterr().err
