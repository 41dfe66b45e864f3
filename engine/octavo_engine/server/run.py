"""The life of one server process: take the port, load, serve.

Only light modules are imported before the engine process has been started; it loads torch while the rest is imported.
"""

import asyncio
import gc
import logging
import socket
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

from octavo_engine.engine_client import EngineClient
from octavo_engine.errors import ConfigError, OctavoError
from octavo_engine.flags import ServeConfig
from octavo_engine.server.loading import load_model
from octavo_engine.server.settings import ServerSettings
from octavo_engine.server.signals import StopSignals, until

logger = logging.getLogger(__name__)

T = TypeVar("T")


class _StoppedEarly(OctavoError):
    """A signal arrived before the server was ready."""


def run(config: ServeConfig) -> int:
    """Serve until a signal (0) or the engine's death (1). Raises ConfigError, EngineStartError."""
    with asyncio.Runner() as runner:
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
            from octavo_engine.server.http_server import make_server
            from octavo_engine.server.lifecycle import supervise

            service, server = make_server(config, engine, tokenizer)
            gc.freeze()
            _log_ready(engine, time.monotonic() - started, listener)
            return await supervise(service, server, listener, signals)
        finally:
            await engine.close()


async def _before(stop: asyncio.Event, work: Coroutine[Any, Any, T]) -> T:
    """The result of the work, unless a signal comes first."""
    task = asyncio.create_task(work)
    try:
        await until(stop.wait(), task)
        if task.done():
            return task.result()
        raise _StoppedEarly
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


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
    limits = engine.config.for_device(ready.device)
    logger.info("a step: at most %d tokens of %d sequences", limits.max_num_batched_tokens, limits.max_num_seqs)
    logger.info("ready after %.1f s: http://%s:%d/v1", seconds, "127.0.0.1" if host == "0.0.0.0" else host, port)
