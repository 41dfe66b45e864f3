"""The tokens of one request as they arrive."""

import asyncio
from collections.abc import Callable
from typing import Self

import msgspec

from octavo_engine.errors import EngineDead, InvalidRequest, OctavoError, QueueFull, RequestFailed
from octavo_engine.messages import TokenEvent


class TokenStream:
    """An async iterator of TokenEvents that ends after the one with a finish reason.

    A reader slower than the engine gets the tokens of several steps in one event. Closing it, or being cancelled while
    waiting for the next event, aborts the request; so does leaving an `async with` block.
    """

    def __init__(self, request_id: str, on_close: Callable[[str], None]) -> None:
        self.request_id = request_id
        self._on_close = on_close
        self._events: list[TokenEvent] = []
        self._error: OctavoError | None = None
        self._is_done = False
        self._wakeup: asyncio.Future[None] | None = None

    def push(self, event: TokenEvent) -> None:
        self._events.append(event)
        self._wake()

    def fail(self, error: EngineDead) -> None:
        self._error = error
        self._wake()

    def close(self) -> None:
        """Stop reading; abort the request unless it is finished. May be called again."""
        self._is_done = True
        self._on_close(self.request_id)
        self._wake()

    async def aclose(self) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> TokenEvent:
        while not (self._events or self._error or self._is_done):
            await self._wait()
        if self._is_done:
            raise StopAsyncIteration
        if not self._events:
            self._is_done = True
            assert self._error is not None
            raise self._error
        return self._take()

    def _take(self) -> TokenEvent:
        event = _merge(self._events)
        self._events = []
        if event.finish_reason:
            self._is_done = True
        if event.error_code:
            raise _error(event)
        return event

    async def _wait(self) -> None:
        self._wakeup = asyncio.get_running_loop().create_future()
        try:
            await self._wakeup
        except asyncio.CancelledError:
            self.close()
            raise
        finally:
            self._wakeup = None

    def _wake(self) -> None:
        if self._wakeup and not self._wakeup.done():
            self._wakeup.set_result(None)


def _merge(events: list[TokenEvent]) -> TokenEvent:
    if len(events) == 1:
        return events[0]
    return msgspec.structs.replace(events[-1], token_ids=[token_id for event in events for token_id in event.token_ids])


def _error(event: TokenEvent) -> OctavoError:
    message = event.error or "the engine gave no reason"
    match event.error_code:
        case "invalid_request":
            return InvalidRequest(message)
        case "queue_full":
            return QueueFull(message)
        case _:
            return RequestFailed(message)
