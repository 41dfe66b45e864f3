"""What completions and chat completions share on the way out: usage, collected and streamed choices."""

import time
import uuid
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from octavo_engine.server import sse
from octavo_engine.server.pieces import Piece


@dataclass
class Usage:
    """Token counts of one answer; a prompt counts once however many choices it has."""

    num_prompt_tokens: int
    num_completion_tokens: int = 0
    num_cached_tokens: dict[int, int] = field(default_factory=dict)
    num_choices: int = 1

    def add(self, piece: Piece) -> None:
        self.num_completion_tokens += piece.num_tokens
        prompt = piece.choice // self.num_choices
        self.num_cached_tokens.setdefault(prompt, piece.num_cached_tokens)

    def as_json(self) -> dict[str, Any]:
        return {
            "prompt_tokens": self.num_prompt_tokens,
            "completion_tokens": self.num_completion_tokens,
            "total_tokens": self.num_prompt_tokens + self.num_completion_tokens,
            "prompt_tokens_details": {"cached_tokens": sum(self.num_cached_tokens.values())},
        }


@dataclass
class Choice:
    """One finished answer."""

    text: str = ""
    finish_reason: str | None = None
    stop_reason: str | int | None = None


PieceToJson = Callable[[Piece], dict[str, Any]]


def header(prefix: str, kind: str, model: str) -> dict[str, Any]:
    """The first fields of every answer."""
    return {"id": f"{prefix}-{uuid.uuid4().hex}", "object": kind, "created": int(time.time()), "model": model}


async def collect(pieces: AsyncGenerator[Piece, None], num_choices: int, usage: Usage) -> list[Choice]:
    choices = [Choice() for _ in range(num_choices)]
    texts: list[list[str]] = [[] for _ in choices]
    async with aclosing(pieces):
        async for piece in pieces:
            usage.add(piece)
            texts[piece.choice].append(piece.text)
            if piece.finish_reason:
                choices[piece.choice].finish_reason = piece.finish_reason
                choices[piece.choice].stop_reason = piece.stop_reason
    for choice, parts in zip(choices, texts, strict=True):
        choice.text = "".join(parts)
    return choices


async def events(
    pieces: AsyncGenerator[Piece, None], head: dict[str, Any], to_json: PieceToJson, usage: Usage, wants_usage: bool
) -> AsyncGenerator[bytes, None]:
    """Server-sent events: one per piece that has text or an end, and at last the usage if asked for."""
    async with aclosing(pieces):
        async for piece in pieces:
            usage.add(piece)
            if piece.text or piece.finish_reason:
                yield sse.event({**head, "choices": [to_json(piece)]})
    if wants_usage:
        yield sse.event({**head, "choices": [], "usage": usage.as_json()})
