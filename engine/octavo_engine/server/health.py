"""Health that tells the truth, metrics, version. None of it waits for the engine."""

from importlib.metadata import version

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST

from octavo_engine.server.dependencies import ServiceOf
from octavo_engine.server.generation import Service
from octavo_engine.server.responses import JSONResponse

router = APIRouter()


@router.get("/health/live")
async def live(service: ServiceOf) -> Response:
    return _answer(why_not_live(service))


@router.get("/health/ready")
@router.get("/health")
async def ready(service: ServiceOf) -> Response:
    return _answer(why_not_ready(service))


@router.get("/metrics")
async def metrics(service: ServiceOf) -> Response:
    return Response(service.metrics.render(), media_type=CONTENT_TYPE_LATEST)


@router.get("/version")
async def get_version() -> Response:
    return JSONResponse({"version": version("octavo")})


def why_not_live(service: Service) -> str | None:
    """A dead engine, or one that has work and makes no step."""
    if not service.engine.is_alive:
        return "the engine is not running"
    stalled = service.engine.seconds_since_progress
    limit = service.settings.stall_timeout
    return f"the engine has work but made no step for {stalled:.0f} s (limit {limit:g} s)" if stalled > limit else None


def why_not_ready(service: Service) -> str | None:
    return "draining" if service.admission.is_draining else why_not_live(service)


def _answer(problem: str | None) -> Response:
    return JSONResponse({"status": problem or "ok"}, 503 if problem else 200)
