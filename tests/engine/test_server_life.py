"""How a real server ends: by signal with and without time to finish, by the death or the hang of its engine."""

import contextlib
import os
import signal
import time
from collections.abc import Iterator

import httpx
import openai
import pytest

from octavo_engine.cli import main

from .server_process import MODEL, ServerProcess, running_server

pytestmark = pytest.mark.model

SMALL = ("--kv-cache-memory-gib=0.1", "--max-num-seqs=8")


@contextlib.contextmanager
def open_stream(server: ServerProcess, num_tokens: int) -> Iterator[Iterator[str]]:
    """A stream whose first chunk has arrived; yields the texts of the others."""
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="-", max_retries=0, timeout=30) as client:
        stream = client.completions.create(
            model=MODEL, prompt="Go on:", max_tokens=num_tokens, stream=True, extra_body={"ignore_eos": True}
        )
        chunks = iter(stream)
        next(chunks)
        yield (chunk.choices[0].text for chunk in chunks)


def test_sigterm_lets_streams_finish_and_exits_0() -> None:
    with running_server(*SMALL) as server, open_stream(server, 60) as texts:
        server.terminate()
        time.sleep(0.1)
        assert httpx.get(f"{server.url}/health/ready").status_code == 503
        assert httpx.get(f"{server.url}/health/live").status_code == 200
        refused = httpx.post(f"{server.url}/v1/completions", json={"model": MODEL, "prompt": "a"})
        assert refused.status_code == 503
        assert refused.headers["retry-after"] == "1"
        assert len(list(texts)) >= 30
        assert server.wait() == 0


def test_sigterm_cuts_streams_with_an_error_event_after_the_drain_timeout_and_exits_0() -> None:
    with running_server(*SMALL, "--drain-timeout=0.5") as server, open_stream(server, 3000) as texts:
        server.terminate()
        with pytest.raises(openai.APIError, match="shutting down"):
            list(texts)
        assert server.wait() == 0
        assert "1 requests are cut off" in server.log()


def test_engine_that_is_killed_ends_the_streams_with_an_error_and_the_server_with_1() -> None:
    with running_server(*SMALL) as server, open_stream(server, 3000) as texts:
        os.kill(server.engine_pid(), signal.SIGKILL)
        with pytest.raises(openai.APIError, match="exit code -9"):
            list(texts)
        assert server.wait() == 1
        assert "stopping, because the engine ended" in server.log()


def test_engine_that_hangs_fails_liveness_but_not_the_answer_to_it() -> None:
    with running_server(*SMALL, "--stall-timeout=0.5") as server, open_stream(server, 3000):
        os.kill(server.engine_pid(), signal.SIGSTOP)
        try:
            deadline = time.monotonic() + 5
            while httpx.get(f"{server.url}/health/live").status_code == 200:
                assert time.monotonic() < deadline
                time.sleep(0.05)
        finally:
            os.kill(server.engine_pid(), signal.SIGCONT)


def test_model_that_does_not_exist_ends_with_2_and_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "file:///nowhere", "--port", "0"]) == 2
    assert "octavo: " in capsys.readouterr().err


def test_port_in_use_is_said_before_the_model_is_loaded(capsys: pytest.CaptureFixture[str]) -> None:
    with running_server(*SMALL) as server:
        started = time.monotonic()
        assert main(["serve", f"bundled://{MODEL}", "--host", "127.0.0.1", "--port", str(server.port)]) == 2
        assert time.monotonic() - started < 2
    assert "Address already in use" in capsys.readouterr().err
