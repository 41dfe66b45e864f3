"""Every failure in OpenAI's error shape, as an HTTP answer or as the last frame of a stream."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from octavo_engine.errors import EngineDead, InvalidRequest, OctavoError, QueueFull, RequestFailed
from octavo_engine.server.admission import Draining
from octavo_engine.server.responses import JSONResponse, dumps

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Problem:
    """What the client is told."""

    status: int
    message: str
    param: str | None = None
    code: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def body(self) -> dict[str, Any]:
        kind = _TYPES.get(self.status, "server_error" if self.status >= 500 else "invalid_request_error")
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}

    def response(self) -> Response:
        return JSONResponse(self.body(), self.status, headers=dict(self.headers))


_TYPES = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error", 503: "service_unavailable"}


_REJECTIONS = {"queue_full": "queue_full", "draining": "draining"}


class ModelNotFound(OctavoError):
    """The client asked for a model that is not served here (HTTP 404)."""


def describe(error: Exception) -> Problem:
    """The client's view of an error. What nobody foresaw is logged and told without details."""
    match error:
        case InvalidRequest():
            return Problem(400, str(error), error.field, error.code)
        case ModelNotFound():
            return Problem(404, str(error), "model", "model_not_found")
        case QueueFull():
            return Problem(429, str(error), code="queue_full", headers={"Retry-After": str(error.retry_after)})
        case Draining():
            return Problem(503, str(error), code="draining", headers={"Retry-After": str(error.retry_after)})
        case EngineDead():
            return Problem(503, str(error), code="engine_dead", headers={"Retry-After": "1"})
        case RequestFailed():
            return Problem(500, str(error), code="request_failed")
        case RequestValidationError():
            return _describe_validation(error)
        case HTTPException(status_code=400):
            return Problem(400, "the body is not valid JSON")
        case HTTPException():
            return Problem(error.status_code, str(error.detail), headers=error.headers or {})
    logger.error("unexpected error while serving a request", exc_info=error)
    return Problem(500, "internal error; the server's log has the details")


def error_frame(error: Exception) -> bytes:
    """The same as the last event of a stream whose status line is long gone."""
    return b"data: " + dumps(describe(error).body()) + b"\n\n"


def install(app: FastAPI, count_rejection: Callable[[str], None]) -> None:
    """Answer every error in this shape, and count those that turn a request away."""

    async def answer(_: Request, error: Exception) -> Response:
        problem = describe(error)
        if reason := _REJECTIONS.get(problem.code or "", "invalid" if problem.status == 400 else None):
            count_rejection(reason)
        return problem.response()

    for kind in (OctavoError, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(kind, answer)


def unknown_field(name: str, known: Mapping[str, Any]) -> InvalidRequest:
    close = get_close_matches(name, known, n=1)
    hint = f"did you mean {close[0]!r}?" if close else "remove it"
    return InvalidRequest(f"{name!r} is not a field of this request; {hint}", field=name)


def _describe_validation(error: RequestValidationError) -> Problem:
    first = _most_telling(error.errors())
    if first["type"] == "json_invalid":
        return Problem(400, f"the body is not valid JSON: {first['ctx']['error']} at character {first['loc'][-1]}")
    path = [str(part) for part in first["loc"][1:] if not _is_type_name(part)]
    if not path:
        return Problem(400, "the body must be a JSON object, sent with content type application/json")
    return Problem(400, f"{'.'.join(path)}: {first['msg']}{_received(first)}", path[0])


def _most_telling(errors: Sequence[Any]) -> Mapping[str, Any]:
    """Of a value that fits no member of a union: the complaint about its content rather than about its type."""
    same_field = [error for error in errors if error["loc"][:2] == errors[0]["loc"][:2]]
    return next((error for error in same_field if not error["type"].endswith("_type")), same_field[0])


def _is_type_name(part: int | str) -> bool:
    return isinstance(part, str) and ("[" in part or part in ("str", "int", "constrained-str"))


def _received(first: Mapping[str, Any]) -> str:
    value = first.get("input")
    return f", got {value!r:.80}" if isinstance(value, bool | int | float | str) else ""
