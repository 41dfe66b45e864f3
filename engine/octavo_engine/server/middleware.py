"""What happens to every request before it is parsed. Plain ASGI: nothing here buffers a stream."""

import re
import uuid

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from octavo_engine.server.drain import has_bearer
from octavo_engine.server.errors import Problem

_SANE_ID = re.compile(r"[\w.:/+=-]{1,128}", re.ASCII)
_KEYED_PATHS = ("/v1/", "/tokenize", "/detokenize")


class RequestIds:
    """Answers carry the client's X-Request-Id, or a new one."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get("x-request-id", "")
        request_id = given if _SANE_ID.fullmatch(given) else uuid.uuid4().hex

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)["x-request-id"] = request_id
            await send(message)

        await self._app(scope, receive, send_with_id)


class ApiKeys:
    """Asks for one of the keys before the body is read."""

    def __init__(self, app: ASGIApp, keys: tuple[str, ...]) -> None:
        self._app = app
        self._keys = keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_keyed = scope["type"] == "http" and scope["path"].startswith(_KEYED_PATHS)
        if is_keyed and not has_bearer(Headers(scope=scope).get("authorization"), self._keys):
            problem = Problem(
                401,
                "a valid API key is needed: Authorization: Bearer KEY",
                code="invalid_api_key",
                headers={"WWW-Authenticate": "Bearer"},
            )
            await problem.response()(scope, receive, send)
        else:
            await self._app(scope, receive, send)


class BodyLimit:
    """Refuses bodies that are too long, whether they say so or just keep coming. Unlike FastAPI's own limit it answers
    in the API's error shape."""

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        self._app = app
        self._max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        message = f"the request body is larger than {self._max_bytes} bytes (--max-request-bytes)"
        declared = Headers(scope=scope).get("content-length", "0")
        if declared.isdecimal() and int(declared) > self._max_bytes:
            await Problem(413, message).response()(scope, receive, send)
            return
        num_bytes = 0

        async def receive_limited() -> Message:
            nonlocal num_bytes
            part = await receive()
            num_bytes += len(part.get("body", b""))
            if num_bytes > self._max_bytes:
                raise HTTPException(413, message)
            return part

        await self._app(scope, receive_limited, send)
