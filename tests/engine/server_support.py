"""A fake engine and tokenizer for the server's tests, and ways to reach an app that uses them."""

import asyncio
import itertools
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx
import uvicorn
from fastapi import FastAPI

from octavo_engine.config import SchedulerConfig
from octavo_engine.errors import EngineDead
from octavo_engine.messages import EngineReady, EngineStats, TokenEvent
from octavo_engine.sampling_params import SamplingParams
from octavo_engine.server.app import create_app
from octavo_engine.server.generation import Service
from octavo_engine.server.settings import ServerSettings
from octavo_engine.token_stream import TokenStream
from octavo_engine.tokenizer import IncrementalDetokenizer

EOS = 256
READY = EngineReady(
    model="fake",
    max_model_len=128,
    vocab_size=257,
    eos_token_ids=[EOS],
    num_blocks=64,
    block_size=16,
    device="cpu",
    dtype="float32",
    attention_backend="fake",
)


class FakeEngine:
    """Answers every prompt with `reply`, a token a byte, `tokens_per_event` at a time.

    While `gate` is not set it stays silent after the first `num_ungated` events of each request.
    """

    def __init__(self, reply: str = "Hello, world.", *, tokens_per_event: int = 1, num_ungated: int = 0) -> None:
        self.ready = READY
        self.stats = EngineStats(num_blocks=64, block_size=16)
        self.on_step: Callable[[EngineStats], None] = lambda _: None
        self.is_alive = True
        self.seconds_since_progress = 0.0
        self.gate = asyncio.Event()
        self.gate.set()
        self.submitted: list[tuple[list[int], SamplingParams]] = []
        self.priorities: list[int] = []
        self.aborted: list[str] = []
        self.error: TokenEvent | None = None
        self._reply = reply.encode()
        self._tokens_per_event = tokens_per_event
        self._num_ungated = num_ungated
        self._ids = itertools.count()
        self._open: dict[str, tuple[TokenStream, asyncio.Task[None]]] = {}
        self._death: asyncio.Future[EngineDead] = asyncio.get_running_loop().create_future()

    def generate(self, prompt_token_ids: list[int], params: SamplingParams, *, priority: int = 0) -> TokenStream:
        if self._death.done():
            raise EngineDead(str(self._death.result()))
        self.submitted.append((prompt_token_ids, params))
        self.priorities.append(priority)
        stream = TokenStream(str(next(self._ids)), self._on_close)
        self._open[stream.request_id] = stream, asyncio.create_task(self._answer(stream, params))
        return stream

    @property
    def num_open(self) -> int:
        return len(self._open)

    async def wait_dead(self) -> EngineDead:
        return await asyncio.shield(self._death)

    async def close(self, grace_seconds: float = 10.0) -> None:
        self.die("the engine was stopped")

    def die(self, reason: str) -> None:
        self.is_alive = False
        if not self._death.done():
            self._death.set_result(EngineDead(reason))
        for stream, task in self._open.values():
            task.cancel()
            stream.fail(EngineDead(reason))
        self._open.clear()

    async def _answer(self, stream: TokenStream, params: SamplingParams) -> None:
        if self.error:
            self._finish(stream, self.error)
            return
        token_ids = [*self._reply, EOS][: params.max_tokens]
        events = [token_ids[i : i + self._tokens_per_event] for i in range(0, len(token_ids), self._tokens_per_event)]
        for number, part in enumerate(events):
            if number >= self._num_ungated:
                await self.gate.wait()
            await asyncio.sleep(0)
            if number < len(events) - 1:
                stream.push(TokenEvent(stream.request_id, part))
        self._finish(stream, self._last(stream, part))

    def _last(self, stream: TokenStream, token_ids: list[int]) -> TokenEvent:
        is_stop = token_ids[-1] == EOS
        return TokenEvent(
            stream.request_id,
            token_ids,
            finish_reason="stop" if is_stop else "length",
            stop_token_id=EOS if is_stop else None,
        )

    def _finish(self, stream: TokenStream, event: TokenEvent) -> None:
        self._open.pop(stream.request_id, None)
        stream.push(event)

    def _on_close(self, request_id: str) -> None:
        if entry := self._open.pop(request_id, None):
            entry[1].cancel()
            self.aborted.append(request_id)


class FakeTokenizer:
    """One token a byte."""

    def __init__(self, *, has_chat_template: bool = True) -> None:
        self.has_chat_template = has_chat_template
        self.max_chars_per_token = 1

    def encode(self, text: str) -> list[int]:
        return list(text.encode())

    def decode(self, token_ids: Sequence[int]) -> str:
        return bytes(token_id for token_id in token_ids if token_id < EOS).decode(errors="replace")

    def apply_chat_template(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        return self.encode("".join(f"{message['role']}: {message['content']}\n" for message in messages))

    def detokenizer(self, stop: Sequence[str], include_stop: bool) -> IncrementalDetokenizer:
        return IncrementalDetokenizer(_token_bytes, stop, include_stop)


def _token_bytes(token_id: int) -> bytes:
    return bytes([token_id]) if token_id < EOS else b""


def make_app(engine: FakeEngine, *, limits: SchedulerConfig | None = None, **settings: Any) -> FastAPI:
    return create_app(engine, FakeTokenizer(), ServerSettings(**settings), limits=limits)


def service_of(app: FastAPI) -> Service:
    service: Service = app.state.service
    return service


def client_of(app: FastAPI, address: str = "127.0.0.1") -> httpx.AsyncClient:
    """Calls the app without a socket; answers arrive whole. `address` is where the client seems to be."""
    transport = httpx.ASGITransport(app=app, client=(address, 1234), raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://server")


@asynccontextmanager
async def listening(app: FastAPI) -> AsyncGenerator[httpx.AsyncClient, None]:
    """Serves the app on a free port, where streams stream and clients can leave."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, lifespan="off", log_config=None, timeout_graceful_shutdown=1))
    serving = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=5) as client:
        yield client
    server.should_exit = True
    await serving


async def eventually(condition: Any, seconds: float = 2.0) -> None:
    """Wait until the condition holds; fails if it does not in time."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)
