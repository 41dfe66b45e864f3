"""The life of one server process: load, serve, drain, exit."""

import asyncio
import contextlib
import logging
import signal
import socket
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

import uvicorn

from octavo_engine.engine_client import EngineClient
from octavo_engine.errors import ConfigError, OctavoError
from octavo_engine.flags import ServeConfig
from octavo_engine.server.app import create_app
from octavo_engine.server.generation import Service
from octavo_engine.server.loading import load_model
from octavo_engine.server.settings import ServerSettings

logger = logging.getLogger(__name__)

T = TypeVar("T")

FLUSH_SECONDS = 5
"""How long clients may take to read the last event of their stream."""


class StopSignals:
    """SIGTERM and SIGINT: the first asks to drain, the second not to wait any longer."""

    def __init__(self) -> None:
        self.first = asyncio.Event()
        self.second = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._receive)

    def _receive(self) -> None:
        (self.second if self.first.is_set() else self.first).set()


class _StoppedEarly(OctavoError):
    """A signal arrived before the server was ready."""


def run(config: ServeConfig) -> int:
    """Serve until a signal (0) or the engine's death (1). Raises ConfigError, EngineStartError."""
    with asyncio.Runner(loop_factory=uvicorn.Config("", log_config=None).get_loop_factory()) as runner:
        try:
            return runner.run(_run(config))
        except _StoppedEarly:
            return 0


async def _run(config: ServeConfig) -> int:
    started = time.monotonic()
    signals = StopSignals()
    engine = EngineClient(config.engine)
    with _listen(config.server) as listener:
        try:
            tokenizer = await _before(signals.first, load_model(config.engine, engine))
            app = create_app(engine, tokenizer, config.server, limits=config.engine)
            _log_ready(engine, time.monotonic() - started, listener)
            return await supervise(app.state.service, make_server(app, config.server), listener, signals)
        finally:
            await engine.close()


def make_server(app: Any, settings: ServerSettings) -> uvicorn.Server:
    return _Server(
        uvicorn.Config(
            app,
            lifespan="off",
            log_config=None,
            access_log=settings.access_log,
            server_header=False,
            timeout_keep_alive=75,
            timeout_graceful_shutdown=FLUSH_SECONDS,
        )
    )


class _Server(uvicorn.Server):
    def capture_signals(self) -> contextlib.AbstractContextManager[None]:  # type: ignore[override]
        """Leaves the signals to us: they begin a drain rather than an exit."""
        return contextlib.nullcontext()


async def supervise(service: Service, server: uvicorn.Server, listener: socket.socket, signals: StopSignals) -> int:
    """Serve until the engine dies (1), or a signal came and all requests have ended or been cut off (0)."""
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    death = asyncio.create_task(service.engine.wait_dead())
    try:
        await _until(signals.first.wait(), serving, death)
        if not death.done():
            await _drain(service, death, signals)
        is_engine_dead = death.done()
        if is_engine_dead:
            logger.error("stopping, because the engine ended: %s", death.result())
        await service.engine.close()
    finally:
        death.cancel()
        server.should_exit = True
        await serving
    return int(is_engine_dead)


async def _drain(service: Service, death: asyncio.Task[Any], signals: StopSignals) -> None:
    """Take no new requests and wait for those in flight: not beyond the timeout, a second signal, or the engine."""
    service.is_stopping = service.admission.is_draining = True
    timeout = service.settings.drain_timeout
    logger.info("draining: %d requests in flight, at most %g s", service.admission.num_requests, timeout)
    impatient = asyncio.create_task(signals.second.wait())
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(_until(_idle(service), death, impatient), timeout)
    impatient.cancel()
    if num_cut := service.admission.num_requests:
        logger.warning("%d requests are cut off", num_cut)


async def _idle(service: Service) -> None:
    while service.admission.num_requests:  # noqa: ASYNC110 - counts have no event, and a drain is rare
        await asyncio.sleep(0.05)


async def _before(stop: asyncio.Event, work: Coroutine[Any, Any, T]) -> T:
    """The result of the work, unless a signal comes first."""
    task = asyncio.create_task(work)
    try:
        await _until(stop.wait(), task)
        if task.done():
            return task.result()
        raise _StoppedEarly
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _until(condition: Coroutine[Any, Any, Any], *tasks: asyncio.Task[Any]) -> None:
    """Wait for the condition or the end of any of the tasks, which go on otherwise."""
    waiting = asyncio.create_task(condition)
    try:
        await asyncio.wait({waiting, *tasks}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()


def _listen(settings: ServerSettings) -> socket.socket:
    """Takes the port before the long load, so that a conflict shows at once; nobody is accepted until it is over."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
    except OSError as error:
        listener.close()
        raise ConfigError(f"--host {settings.host} --port {settings.port}: {error.strerror}") from error
    return listener


def _log_ready(engine: EngineClient, seconds: float, listener: socket.socket) -> None:
    ready = engine.ready
    host, port = listener.getsockname()[:2]
    num_tokens = ready.num_blocks * ready.block_size
    logger.info(
        "KV cache: %d tokens in %d blocks of %d; longest request %d tokens",
        num_tokens,
        ready.num_blocks,
        ready.block_size,
        min(ready.max_model_len, num_tokens),
    )
    logger.info("%s on %s, %s, %s attention", ready.model, ready.device, ready.dtype, ready.attention_backend)
    logger.info("ready after %.1f s: http://%s:%d/v1", seconds, "127.0.0.1" if host == "0.0.0.0" else host, port)
