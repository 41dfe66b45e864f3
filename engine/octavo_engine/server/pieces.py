"""From the token events of a request's choices to one stream of pieces of text."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from octavo_engine.errors import RequestFailed
from octavo_engine.messages import FinishReason, TokenEvent
from octavo_engine.sampling_params import SamplingParams
from octavo_engine.server.interfaces import Tokenizer


@dataclass(frozen=True, slots=True)
class Piece:
    """What one choice gained: text, or its end, or both. `num_tokens` may be 0 or many."""

    choice: int
    text: str
    num_tokens: int
    num_cached_tokens: int = 0
    finish_reason: FinishReason | None = None
    stop_reason: str | int | None = None


class PieceReader:
    """Turns the token events of one choice into text."""

    def __init__(self, choice: int, params: SamplingParams, tokenizer: Tokenizer, eos_token_ids: list[int]) -> None:
        self._choice = choice
        self._params = params
        self._detokenizer = tokenizer.detokenizer(params.stop, params.include_stop_str_in_output)
        self._plain_ends = frozenset(eos_token_ids) - set(params.stop_token_ids)

    def read(self, event: TokenEvent) -> Piece:
        """Raises RequestFailed if the event says so."""
        if event.finish_reason == "error":
            raise RequestFailed(event.error or "the request failed inside the engine")
        text, num_tokens = self._push(event)
        stop = self._detokenizer.stop_reason
        if event.finish_reason and stop is None:
            text += self._detokenizer.flush()
            stop = self._detokenizer.stop_reason
        if stop is not None:
            return Piece(self._choice, text, num_tokens, event.num_cached_tokens, "stop", stop)
        stop_token = None if event.stop_token_id in self._plain_ends else event.stop_token_id
        return Piece(self._choice, text, num_tokens, event.num_cached_tokens, event.finish_reason, stop_token)

    def _push(self, event: TokenEvent) -> tuple[str, int]:
        """Token by token if there are stop strings, so that what follows one is neither shown nor counted."""
        visible = event.token_ids
        if event.stop_token_id is not None and not self._params.include_stop_str_in_output:
            visible = visible[:-1]
        if not self._params.stop:
            return self._detokenizer.push(visible), len(event.token_ids)
        text = ""
        for num_tokens, token_id in enumerate(visible, 1):
            text += self._detokenizer.push([token_id])
            if self._detokenizer.stop_reason is not None:
                return text, num_tokens
        return text, len(event.token_ids)


async def merge(streams: Sequence[AsyncGenerator[Piece, None]]) -> AsyncGenerator[Piece, None]:
    """Pieces of several streams in the order of arrival. The first error ends all; so does closing."""
    if len(streams) == 1:
        async with aclosing(streams[0]) as only:
            async for piece in only:
                yield piece
        return
    queue: asyncio.Queue[Piece | Exception | None] = asyncio.Queue()
    pumps = [asyncio.create_task(_pump(stream, queue)) for stream in streams]
    try:
        num_open = len(pumps)
        while num_open:
            item = await queue.get()
            if isinstance(item, Exception):
                raise item
            if item is None:
                num_open -= 1
            else:
                yield item
    finally:
        for pump in pumps:
            pump.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)


async def _pump(stream: AsyncGenerator[Piece, None], queue: asyncio.Queue[Piece | Exception | None]) -> None:
    try:
        async with aclosing(stream):
            async for piece in stream:
                queue.put_nowait(piece)
        queue.put_nowait(None)
    except Exception as error:
        queue.put_nowait(error)
