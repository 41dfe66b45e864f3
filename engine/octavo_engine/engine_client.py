"""What a front end holds of an engine: start it, stream tokens from it, know whether it lives."""

import asyncio
import itertools
import logging
import time
from collections.abc import Callable

from octavo_engine.config import EngineConfig
from octavo_engine.engine_transport import ProcessTransport, Transport
from octavo_engine.errors import EngineDead, EngineStartError
from octavo_engine.messages import (
    AbortRequests,
    AddRequest,
    EngineFailed,
    EngineReady,
    EngineStats,
    FromEngine,
    StepOutputs,
)
from octavo_engine.sampling_params import SamplingParams
from octavo_engine.token_stream import TokenStream

logger = logging.getLogger(__name__)


class EngineClient:
    """One engine, used from one event loop. `generate` is cheap and may be called thousands of times at once."""

    def __init__(self, config: EngineConfig, transport: Transport | None = None) -> None:
        self.config = config
        self.stats = EngineStats(block_size=config.block_size)
        self.on_step: Callable[[EngineStats], None] = lambda _: None
        self._transport = transport or ProcessTransport()
        self._streams: dict[str, TokenStream] = {}
        self._ids = itertools.count()
        self._last_progress = time.monotonic()
        self._is_idle = True
        self._failure: EngineDead | None = None
        self._ready: asyncio.Future[EngineReady] | None = None
        self._dead = asyncio.Event()

    async def start(self) -> EngineReady:
        """Start the engine and wait until the model is loaded and warm. EngineStartError says why it could not."""
        self._ready = asyncio.get_running_loop().create_future()
        self._transport.start(self.config, self._on_message)
        try:
            ready = await self._ready
        except BaseException:
            await self.close(grace_seconds=0)
            raise
        self.stats = EngineStats(num_blocks=ready.num_blocks, block_size=ready.block_size)
        return ready

    async def close(self, grace_seconds: float = 10.0) -> None:
        """End the engine; open streams get EngineDead. It may finish its current step within `grace_seconds`."""
        self._fail(EngineDead("the engine was stopped"))
        await self._transport.stop(grace_seconds)

    async def wait_dead(self) -> EngineDead:
        """Wait until the engine has ended, and say why."""
        await self._dead.wait()
        assert self._failure is not None
        return self._failure

    def generate(self, prompt_token_ids: list[int], params: SamplingParams, *, priority: int = 0) -> TokenStream:
        """Submit a request now and return the stream of its tokens; smaller priorities are more urgent.

        Raises EngineDead at once. The stream raises InvalidRequest, QueueFull or RequestFailed if the engine refuses or
        fails the request, and EngineDead if the engine ends. Close the stream, or the request runs on.
        """
        if self._failure:
            raise EngineDead(str(self._failure))
        if not self._is_ready:
            raise EngineDead("the engine is not ready yet; await start() first")
        if not self._has_work:
            self._last_progress = time.monotonic()
        request_id = f"{next(self._ids)}"
        stream = self._streams[request_id] = TokenStream(request_id, self._on_close)
        self._is_idle = False
        self._transport.send(AddRequest(request_id, prompt_token_ids, params, priority))
        return stream

    @property
    def ready(self) -> EngineReady:
        """What `start` returned."""
        assert self._ready is not None, "the engine has not been started"
        return self._ready.result()

    @property
    def num_open_streams(self) -> int:
        return len(self._streams)

    @property
    def is_alive(self) -> bool:
        """Whether the engine is ready and its process runs. False before `start` has returned."""
        return self._is_ready and self._failure is None and self._transport.is_alive

    @property
    def _is_ready(self) -> bool:
        return self._ready is not None and self._ready.done()

    @property
    def seconds_since_progress(self) -> float:
        """How long the step counter has stood still although there is work; 0 when there is none."""
        return time.monotonic() - self._last_progress if self._has_work else 0.0

    @property
    def _has_work(self) -> bool:
        """Also when all readers of a hung engine have left."""
        return bool(self._streams) or not self._is_idle

    def _on_message(self, message: FromEngine) -> None:
        match message:
            case StepOutputs():
                self._on_step(message)
            case EngineReady():
                if self._ready and not self._ready.done():
                    self._ready.set_result(message)
            case EngineFailed():
                self._fail(EngineDead(message.error))

    def _on_step(self, outputs: StepOutputs) -> None:
        """Hand out all tokens of one step in one go."""
        if outputs.stats.steps_total > self.stats.steps_total:
            self._last_progress = time.monotonic()
            self._observe(outputs.stats)
        self.stats = outputs.stats
        self._is_idle = outputs.stats.is_idle
        for event in outputs.events:
            if stream := self._streams.get(event.request_id):
                stream.push(event)
                if event.finish_reason:
                    del self._streams[event.request_id]

    def _observe(self, stats: EngineStats) -> None:
        try:
            self.on_step(stats)
        except Exception:
            logger.exception("the observer of steps failed; serving goes on")

    def _on_close(self, request_id: str) -> None:
        """A stream that its reader left: the engine need not go on with it."""
        if self._streams.pop(request_id, None) and not self._failure:
            self._is_idle = False
            self._transport.send(AbortRequests([request_id]))

    def _fail(self, error: EngineDead) -> None:
        if self._failure:
            return
        self._failure = error
        self._dead.set()
        if self._ready and not self._ready.done():
            self._ready.set_exception(EngineStartError(f"the engine could not start: {error}"))
        streams, self._streams = self._streams, {}
        for stream in streams.values():
            stream.fail(EngineDead(str(error)))
