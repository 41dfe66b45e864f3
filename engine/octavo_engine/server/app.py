"""Puts the server together."""

from importlib.metadata import version

from fastapi import FastAPI

from octavo_engine.config import SchedulerConfig
from octavo_engine.server import chat, completions, drain, errors, health, models
from octavo_engine.server.generation import Service
from octavo_engine.server.interfaces import Engine, Tokenizer
from octavo_engine.server.middleware import ApiKeys, BodyLimit, RequestIds
from octavo_engine.server.settings import ServerSettings


def create_app(
    engine: Engine,
    tokenizer: Tokenizer,
    settings: ServerSettings,
    *,
    limits: SchedulerConfig | None = None,
) -> FastAPI:
    """The HTTP application in front of an engine that is ready. `limits` are those of the engine."""
    app = FastAPI(title="Octavo", version=version("octavo"), redirect_slashes=False)
    service = Service(engine, tokenizer, settings, limits or SchedulerConfig())
    app.state.service = service
    for module in (chat, completions, models, health, drain):
        app.include_router(module.router)
    errors.install(app, service.metrics.reject)
    app.add_middleware(BodyLimit, max_bytes=settings.max_request_bytes)
    if keys := settings.api_keys():
        app.add_middleware(ApiKeys, keys=keys)
    app.add_middleware(RequestIds)
    return app
