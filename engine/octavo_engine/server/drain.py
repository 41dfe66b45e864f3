"""POST /drain: no new requests, running ones finish. DELETE /drain: back to normal."""

import hmac
import time
from ipaddress import ip_address

from fastapi import APIRouter, Request, Response
from starlette.exceptions import HTTPException

from octavo_engine.server.dependencies import ServiceOf
from octavo_engine.server.generation import Service
from octavo_engine.server.responses import JSONResponse

router = APIRouter()


@router.get("/drain")
async def get_drain(service: ServiceOf) -> Response:
    return _state(service)


@router.post("/drain")
async def start_drain(request: Request, service: ServiceOf) -> Response:
    _check_admin(request, service)
    service.start_drain(time.monotonic())
    return _state(service)


@router.delete("/drain")
async def end_drain(request: Request, service: ServiceOf) -> Response:
    _check_admin(request, service)
    if service.is_stopping:
        raise HTTPException(409, "the server is stopping; draining cannot be undone")
    service.end_drain()
    return _state(service)


def has_bearer(authorization: str | None, tokens: tuple[str, ...]) -> bool:
    """Whether the header carries one of the tokens. Takes the same time whichever it is, and for a near miss."""
    scheme, _, given = (authorization or "").partition(" ")
    matches = [hmac.compare_digest(given.strip().encode(), token.encode()) for token in tokens]
    return scheme.lower() == "bearer" and any(matches)


def _check_admin(request: Request, service: Service) -> None:
    token = service.settings.admin_token
    if _is_loopback(request) or has_bearer(request.headers.get("authorization"), (token,) if token else ()):
        return
    raise HTTPException(403, "draining is allowed from this host, or with the admin token as bearer token")


def _is_loopback(request: Request) -> bool:
    return request.client is not None and _is_loopback_address(request.client.host)


def _is_loopback_address(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _state(service: Service) -> Response:
    admission = service.admission
    return JSONResponse({"draining": admission.is_draining, "in_flight": admission.num_requests})
