"""The front end's side of the boundary: start an engine in a process or a thread, and exchange messages with it."""

import asyncio
import multiprocessing
import queue
import shutil
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import msgspec
import zmq

from octavo_engine.config import EngineConfig
from octavo_engine.engine_process import LOAD_RUNNER, engine_process_main, run_engine
from octavo_engine.messages import EngineFailed, FromEngine, Shutdown, ToEngine

OnMessage = Callable[[FromEngine], None]


class Transport(Protocol):
    """All methods are called in the thread of one event loop, and `on_message` is called there too."""

    @property
    def is_alive(self) -> bool: ...

    def start(self, config: EngineConfig, on_message: OnMessage) -> None:
        """Start an engine. `on_message` gets all it says; EngineFailed is the last, also if it died without a word."""
        ...

    def send(self, message: ToEngine) -> None: ...

    async def stop(self, grace_seconds: float) -> None:
        """Shut the engine down, by force after `grace_seconds`. May be called in any state and again."""
        ...


class ProcessTransport:
    """An engine in a process of its own, over a Unix socket that only this user can reach."""

    def __init__(self, load_runner: str = LOAD_RUNNER) -> None:
        self._load_runner = load_runner
        self._process: multiprocessing.process.BaseProcess | None = None
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder = msgspec.msgpack.Decoder(FromEngine)

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.is_alive()

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def start(self, config: EngineConfig, on_message: OnMessage) -> None:
        self._on_message = on_message
        self._loop = asyncio.get_running_loop()
        self._directory = Path(tempfile.mkdtemp(prefix="octavo-"))
        address = f"ipc://{self._directory}/engine"
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.set_hwm(0)
        self._socket.bind(address)
        self._process = multiprocessing.get_context("spawn").Process(
            target=engine_process_main,
            args=(config, self._load_runner, address),
            name="octavo-engine",
            daemon=True,
        )
        self._process.start()
        self._loop.add_reader(self._socket.fileno(), self._read)
        self._loop.add_reader(self._process.sentinel, self._on_exit)

    def send(self, message: ToEngine) -> None:
        """A message to an engine that is gone is lost; its end is reported by itself."""
        with suppress(zmq.Again):
            self._socket.send(self._encoder.encode(message), zmq.NOBLOCK)
        self._loop.call_soon(self._read)

    async def stop(self, grace_seconds: float) -> None:
        if self._process is None or self._socket.closed:
            return
        self._loop.remove_reader(self._process.sentinel)
        if self._process.is_alive():
            self.send(Shutdown())
            await asyncio.to_thread(self._process.join, grace_seconds)
        if self._process.is_alive():
            self._process.kill()
            await asyncio.to_thread(self._process.join)
        self._close()

    def _read(self) -> None:
        """Read until nothing is left: the socket's descriptor signals only changes, and sending may swallow one."""
        while not self._socket.closed and self._socket.poll(0):
            self._on_message(self._decoder.decode(self._socket.recv()))

    def _on_exit(self) -> None:
        assert self._process is not None
        self._loop.remove_reader(self._process.sentinel)
        self._process.join()
        self._read()
        self._on_message(EngineFailed(f"the engine process ended with exit code {self._process.exitcode}"))

    def _close(self) -> None:
        self._loop.remove_reader(self._socket.fileno())
        self._socket.close(linger=0)
        self._context.term()
        shutil.rmtree(self._directory, ignore_errors=True)


class ThreadTransport:
    """An engine in a thread of this process, for tests and for programs of one process."""

    def __init__(self, load_runner: str = LOAD_RUNNER) -> None:
        self._load_runner = load_runner
        self._inbox: queue.SimpleQueue[ToEngine] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    @property
    def is_alive(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def start(self, config: EngineConfig, on_message: OnMessage) -> None:
        loop = asyncio.get_running_loop()
        channel = _QueueChannel(self._inbox, lambda message: _call_in(loop, on_message, message))
        self._thread = threading.Thread(
            target=run_engine, args=(config, self._load_runner, channel), name="octavo-engine", daemon=True
        )
        self._thread.start()

    def send(self, message: ToEngine) -> None:
        self._inbox.put(message)

    async def stop(self, grace_seconds: float) -> None:
        if self._thread is not None:
            self._inbox.put(Shutdown())
            await asyncio.to_thread(self._thread.join, grace_seconds)


class _QueueChannel:
    def __init__(self, inbox: "queue.SimpleQueue[ToEngine]", send: OnMessage) -> None:
        self._inbox = inbox
        self.send = send

    def receive(self, is_blocking: bool) -> list[ToEngine]:
        messages = [self._inbox.get()] if is_blocking else []
        while not self._inbox.empty():
            messages.append(self._inbox.get())
        return messages


def _call_in(loop: asyncio.AbstractEventLoop, on_message: OnMessage, message: FromEngine) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(on_message, message)
