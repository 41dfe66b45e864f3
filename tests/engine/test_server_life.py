"""How a real server ends: by signal with and without time to finish, by the death or the hang of its engine."""

import contextlib
import os
import signal
import socket
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


def test_sigterm_lets_short_streams_finish_and_cuts_long_ones_after_the_drain_timeout() -> None:
    with (
        running_server(*SMALL, "--drain-timeout=5") as server,
        open_stream(server, 8) as short,
        open_stream(server, 4000) as long,
    ):
        server.terminate()
        server.wait_log("draining: 2 requests in flight")
        assert httpx.get(f"{server.url}/health/ready").status_code == 503
        assert httpx.get(f"{server.url}/health/live").status_code == 200
        refused = httpx.post(f"{server.url}/v1/completions", json={"model": MODEL, "prompt": "a"})
        assert refused.status_code == 503
        assert refused.headers["retry-after"] == "1"
        assert "".join(short)
        with pytest.raises(openai.APIError, match="shutting down"):
            list(long)
        assert server.wait() == 0
        assert "1 requests are cut off" in server.log()


def test_engine_that_hangs_fails_liveness_and_one_that_is_killed_ends_streams_and_server() -> None:
    with running_server(*SMALL, "--stall-timeout=0.5") as server, open_stream(server, 4000) as texts:
        engine_pid = server.engine_pid()
        os.kill(engine_pid, signal.SIGSTOP)
        server.wait_status("/health/live", 503)
        os.kill(engine_pid, signal.SIGKILL)
        with pytest.raises(openai.APIError, match="exit code -9"):
            list(texts)
        assert server.wait() == 1
        assert "stopping, because the engine ended" in server.log()


def test_signal_while_loading_ends_with_0() -> None:
    server = ServerProcess(*SMALL)
    try:
        server.wait_log("loading")
        server.terminate()
        assert server.wait() == 0
    finally:
        server.close()


def test_model_that_does_not_exist_ends_with_2_and_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "file:///nowhere", "--port", "0"]) == 2
    assert "octavo: " in capsys.readouterr().err


def test_port_in_use_is_said_before_the_model_is_loaded(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["serve", f"bundled://{MODEL}", "--host", "127.0.0.1", "--port", str(port)]) == 2
    assert f"--port {port}: Address already in use" in capsys.readouterr().err
