"""One streamed request, timed from the outside."""

import time
from dataclasses import dataclass, field
from typing import Any, Literal

import aiohttp
import orjson

from octavo_engine.bench.workload import Prompt


@dataclass(frozen=True)
class Target:
    """Where and how to ask. `extra_body` goes into every request."""

    url: str
    model: str
    api: Literal["completions", "chat"] = "completions"
    temperature: float = 0.0
    ignore_eos: bool = True
    extra_body: dict[str, Any] = field(default_factory=dict)

    @property
    def endpoint(self) -> str:
        return f"{self.url.rstrip('/')}/v1/{'chat/completions' if self.api == 'chat' else 'completions'}"

    def body(self, prompt: Prompt) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self.model,
            "max_tokens": prompt.max_tokens,
            "temperature": self.temperature,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if self.ignore_eos:
            body["ignore_eos"] = True
        if self.api == "chat":
            return body | {"messages": [{"role": "user", "content": prompt.text}]} | self.extra_body
        return body | {"prompt": prompt.token_ids} | self.extra_body


@dataclass
class Timing:
    """One request. Times are of `time.perf_counter`; `gaps` are seconds between chunks with text."""

    sent: float
    first: float | None = None
    end: float = 0.0
    gaps: list[float] = field(default_factory=list)
    num_prompt_tokens: int = 0
    num_output_tokens: int = 0
    num_cached_tokens: int = 0
    wanted_tokens: int = 0
    status: int | None = None
    error: str | None = None

    @property
    def num_chunks(self) -> int:
        return len(self.gaps) + (self.first is not None)


async def measure(session: aiohttp.ClientSession, target: Target, prompt: Prompt) -> Timing:
    """Ask and read to the end. Whatever goes wrong is in `Timing.error`."""
    timing = Timing(sent=time.perf_counter(), wanted_tokens=prompt.max_tokens)
    try:
        async with session.post(target.endpoint, data=orjson.dumps(target.body(prompt)), headers=_JSON) as response:
            timing.status = response.status
            if response.status == 200:
                await _read(response.content, timing)
            else:
                timing.error = f"HTTP {response.status}: {(await response.text())[:200]}"
    except TimeoutError:
        timing.error = "timeout"
    except (aiohttp.ClientError, OSError) as error:
        timing.error = f"connection: {type(error).__name__}: {error}"
    timing.end = time.perf_counter()
    return timing


_JSON = {"content-type": "application/json"}


async def _read(lines: aiohttp.StreamReader, timing: Timing) -> None:
    last = timing.sent
    async for line in lines:
        if not line.startswith(b"data: "):
            continue
        if line.startswith(b"data: [DONE]"):
            return
        event = orjson.loads(line[6:])
        if "error" in event:
            timing.error = f"stream: {event['error'].get('message')}"
            return
        if usage := event.get("usage"):
            _take_usage(usage, timing)
        if any(map(_has_text, event["choices"])):
            last = _take_chunk(timing, last)
    timing.error = "stream: ended without [DONE]"


def _take_chunk(timing: Timing, last: float) -> float:
    now = time.perf_counter()
    if timing.first is None:
        timing.first = now
    else:
        timing.gaps.append(now - last)
    return now


def _take_usage(usage: dict[str, Any], timing: Timing) -> None:
    timing.num_prompt_tokens = usage["prompt_tokens"]
    timing.num_output_tokens = usage["completion_tokens"]
    timing.num_cached_tokens = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0


def _has_text(choice: dict[str, Any]) -> bool:
    return bool(choice.get("text") or choice.get("delta", {}).get("content"))
