"""One streamed chat through the official client, and whether it ended as a stream must."""

import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import openai

SYSTEM = "You are a helpful assistant. Answer in plain English."


@dataclass
class StreamResult:
    """What became of one stream.

    `num_tokens` counts chunks with content; `retries` counts attempts that were refused before the stream began.
    """

    max_tokens: int = 64
    num_tokens: int = 0
    finish_reason: str | None = None
    is_done: bool = False
    retries: int = 0
    error: str | None = None
    started: float = 0.0
    first_token: float | None = None
    ended: float | None = None

    @property
    def is_cut(self) -> bool:
        """A whole stream names its finish reason and then says [DONE]; anything else was cut."""
        return not (self.is_done and self.finish_reason in ("stop", "length"))


def make_client(base_url: str) -> openai.AsyncOpenAI:
    """Return a client with one connection per request: a ClusterIP spreads connections over replicas, not requests."""
    return openai.AsyncOpenAI(
        base_url=f"{base_url}/v1", api_key="none", timeout=180, default_headers={"Connection": "close"}
    )


async def stream_chat(client: openai.AsyncOpenAI, model: str, question: str, result: StreamResult) -> None:
    """Ask, read the stream to its end, and write into `result` what came. Whatever goes wrong is a result too."""
    result.started = time.monotonic()
    try:
        await _read(client, model, question, result)
    except Exception as error:
        result.error = f"{type(error).__name__}: {error}"
    result.ended = time.monotonic()


async def _read(client: openai.AsyncOpenAI, model: str, question: str, result: StreamResult) -> None:
    create = client.chat.completions.with_streaming_response.create
    messages: Any = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}]
    async with create(model=model, messages=messages, max_tokens=result.max_tokens, stream=True) as response:
        result.retries = response.retries_taken
        async for line in lines(response.iter_bytes()):
            if line.startswith(b"data: "):
                _take(line.removeprefix(b"data: "), result)


async def lines(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Split at line feeds alone. Text may hold other characters that Python, unlike server-sent events, splits at."""
    rest = b""
    async for piece in pieces:
        *complete, rest = (rest + piece).split(b"\n")
        for line in complete:
            yield line


def _take(data: bytes, result: StreamResult) -> None:
    if data == b"[DONE]":
        result.is_done = True
        return
    chunk = json.loads(data)
    if "error" in chunk:
        raise ValueError(chunk["error"])
    for choice in chunk["choices"]:
        if choice["delta"].get("content"):
            result.num_tokens += 1
            result.first_token = result.first_token or time.monotonic()
        result.finish_reason = choice.get("finish_reason") or result.finish_reason
