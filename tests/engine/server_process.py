"""A real `octavo serve` in a process of its own, on the real small model."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import httpx

MODEL = "smollm2-135m-instruct"


class ServerProcess:
    def __init__(self, *flags: str) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115
        command = [sys.executable, "-m", "octavo_engine.cli", "serve", f"bundled://{MODEL}", f"--port={self.port}"]
        self._process = subprocess.Popen([*command, "--host=127.0.0.1", *flags], stderr=self._log)

    def wait_ready(self, seconds: float = 60) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            assert self._process.poll() is None, f"the server ended early:\n{self.log()}"
            with contextlib.suppress(httpx.TransportError):
                if httpx.get(f"{self.url}/health/ready").status_code == 200:
                    return
            time.sleep(0.1)
        raise TimeoutError(f"the server was not ready in time:\n{self.log()}")

    def metric(self, name: str) -> float:
        """The value of the sample that begins with `name`; its model label is left out."""
        text = (
            httpx.get(f"{self.url}/metrics").text.replace(f'model="{MODEL}",', "").replace(f'{{model="{MODEL}"}}', "")
        )
        match = re.search(rf"^{re.escape(name)} (.+)$", text, re.MULTILINE)
        assert match, f"no metric {name}"
        return float(match[1])

    def wait_metric(self, name: str, value: float, seconds: float = 10) -> None:
        deadline = time.monotonic() + seconds
        while (found := self.metric(name)) != value:
            assert time.monotonic() < deadline, f"{name} is {found}, not {value}"
            time.sleep(0.02)

    def wait_status(self, path: str, status: int, seconds: float = 10) -> None:
        deadline = time.monotonic() + seconds
        while (found := httpx.get(f"{self.url}{path}").status_code) != status:
            assert time.monotonic() < deadline, f"{path} is {found}, not {status}"
            time.sleep(0.05)

    def wait_log(self, text: str, seconds: float = 30) -> None:
        deadline = time.monotonic() + seconds
        while text not in self.log():
            assert time.monotonic() < deadline, f"{text!r} is not in the log:\n{self.log()}"
            time.sleep(0.02)

    def engine_pid(self) -> int:
        """The child that runs the engine: the one with the most memory."""
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        return max(map(int, children), key=lambda pid: int(Path(f"/proc/{pid}/statm").read_text().split()[1]))

    def terminate(self) -> None:
        self._process.send_signal(signal.SIGTERM)

    def wait(self, seconds: float = 15) -> int:
        return self._process.wait(seconds)

    def log(self) -> str:
        return os.pread(self._log.fileno(), 1 << 20, 0).decode()

    def close(self) -> None:
        if self._process.poll() is None:
            self.terminate()
            try:
                self.wait()
            except subprocess.TimeoutExpired:
                os.kill(self._process.pid, signal.SIGKILL)
                self._process.wait()
        self._log.close()


@contextlib.contextmanager
def running_server(*flags: str) -> Iterator[ServerProcess]:
    server = ServerProcess(*flags)
    try:
        server.wait_ready()
        yield server
    finally:
        server.close()
