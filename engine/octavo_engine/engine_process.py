"""The engine's side of the boundary: load the model, then turn messages into steps until told to stop."""

import gc
import importlib
import logging
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from typing import Protocol

import msgspec
import zmq

from octavo_engine import logs
from octavo_engine.config import EngineConfig
from octavo_engine.core.batch import ModelRunner
from octavo_engine.core.engine_core import EngineCore
from octavo_engine.errors import InvalidRequest, OctavoError, QueueFull
from octavo_engine.messages import (
    AbortRequests,
    AddRequest,
    EngineFailed,
    EngineReady,
    ErrorCode,
    FromEngine,
    Shutdown,
    StepOutputs,
    ToEngine,
    TokenEvent,
)

logger = logging.getLogger(__name__)

LoadRunner = Callable[[EngineConfig], tuple[ModelRunner, EngineReady]]
LOAD_RUNNER = "octavo_engine.runner:load_runner"


class Channel(Protocol):
    """The engine's end of the line to its front end."""

    def receive(self, is_blocking: bool) -> list[ToEngine]:
        """All messages that have arrived; waits for the first one if asked to."""
        ...

    def send(self, message: FromEngine) -> None: ...


class SocketChannel:
    def __init__(self, address: str) -> None:
        self._decoder = msgspec.msgpack.Decoder(ToEngine)
        self._encoder = msgspec.msgpack.Encoder()
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.set_hwm(0)
        self._socket.connect(address)

    def receive(self, is_blocking: bool) -> list[ToEngine]:
        if is_blocking:
            self._socket.poll()
        messages: list[ToEngine] = []
        while self._socket.poll(0):
            messages.append(self._decoder.decode(self._socket.recv()))
        return messages

    def send(self, message: FromEngine) -> None:
        self._socket.send(self._encoder.encode(message))

    def close(self) -> None:
        """Sends what is still to be sent, for two seconds at most."""
        self._context.destroy(linger=2000)


def engine_process_main(config: EngineConfig, load_runner: str, address: str) -> None:
    """Body of the engine process. Ends with the parent; leaves Ctrl-C to the parent, which shuts the engine down."""
    logs.setup_like_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    channel = SocketChannel(address)
    try:
        is_clean = run_engine(config, load_runner, channel)
    finally:
        channel.close()
    raise SystemExit(0 if is_clean else 1)


def run_engine(config: EngineConfig, load_runner: str, channel: Channel) -> bool:
    """Load, report ready, serve until shutdown. A failure is told to the front end; returns whether there was none."""
    try:
        runner, ready = _resolve(load_runner)(config)
        core = EngineCore(config.for_device(ready.device), runner, ready.eos_token_ids)
        gc.freeze()  # the model lives as long as the engine: visiting its objects would stall steps for nothing
        channel.send(ready)
        _serve(core, channel)
    except OctavoError as error:
        channel.send(EngineFailed(str(error)))
        return False
    except Exception as error:
        logger.exception("the engine failed")
        channel.send(EngineFailed(f"{type(error).__name__}: {error}"))
        return False
    return True


def _resolve(load_runner: str) -> LoadRunner:
    module, _, name = load_runner.partition(":")
    function: LoadRunner = getattr(importlib.import_module(module), name)
    return function


def _serve(core: EngineCore, channel: Channel) -> None:
    """One iteration is one step: take in all messages, compute, send all that came of it at once."""
    while True:
        refusals: list[TokenEvent] = []
        for message in channel.receive(is_blocking=not core.has_work):
            match message:
                case AddRequest():
                    refusals += _add(core, message)
                case AbortRequests():
                    _abort(core, message)
                case Shutdown():
                    return
        channel.send(StepOutputs(refusals + core.step(), core.stats()))


def _add(core: EngineCore, request: AddRequest) -> list[TokenEvent]:
    try:
        core.add(request)
    except InvalidRequest as error:
        return [_refusal(request, error, "invalid_request")]
    except QueueFull as error:
        return [_refusal(request, error, "queue_full")]
    return []


def _refusal(request: AddRequest, error: OctavoError, code: ErrorCode) -> TokenEvent:
    return TokenEvent(request.request_id, [], "error", error=str(error), error_code=code)


def _abort(core: EngineCore, message: AbortRequests) -> None:
    for request_id in message.request_ids:
        core.abort(request_id)


def _exit_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
