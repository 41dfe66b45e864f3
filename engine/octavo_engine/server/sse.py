"""Answers that end when their client leaves, and streams of server-sent events."""

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from contextlib import aclosing, suppress
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from octavo_engine.server.errors import error_frame
from octavo_engine.server.responses import dumps

T = TypeVar("T")

DONE = b"data: [DONE]\n\n"
CLIENT_CLOSED_REQUEST = 499


def event(data: Any) -> bytes:
    return b"data: " + dumps(data) + b"\n\n"


async def unless_disconnected(request: Request, work: Coroutine[Any, Any, Response]) -> Response:
    """Do the work, but cancel it if the client leaves before; the answer then goes nowhere."""
    try:
        return await _race(request.receive, work)
    except _ClientLeft:
        return Response(status_code=CLIENT_CLOSED_REQUEST)


class EventStream(Response):
    """Sends events as they are made, until the client leaves."""

    media_type = "text/event-stream"

    def __init__(self, first: bytes, rest: AsyncGenerator[bytes, None]) -> None:
        super().__init__(headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._first = first
        self._rest = rest

    @classmethod
    async def start(cls, events: AsyncGenerator[bytes, None]) -> "EventStream":
        """Waits for the first event: whatever fails until then becomes an HTTP status instead of an error event."""
        try:
            return cls(await anext(events), events)
        except BaseException:
            await events.aclose()
            raise

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        with suppress(_ClientLeft):
            await _race(receive, self._send_all(send))

    async def _send_all(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        async with aclosing(self._rest):
            await send({"type": "http.response.body", "body": self._first, "more_body": True})
            try:
                async for chunk in self._rest:
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
                last = DONE
            except Exception as error:
                last = error_frame(error)
        await send({"type": "http.response.body", "body": last, "more_body": False})


class _ClientLeft(Exception):
    pass


async def _race(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """The result of the work. If the client leaves first, cancels it, waits for its end and raises _ClientLeft."""
    task = asyncio.ensure_future(work)
    watcher = asyncio.ensure_future(_wait_for_disconnect(receive))
    try:
        await asyncio.wait({task, watcher}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise _ClientLeft
    finally:
        task.cancel()
        watcher.cancel()
        await asyncio.gather(task, watcher, return_exceptions=True)


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
