"""The HTTP side of a server, by uvicorn."""

import contextlib

import uvicorn

from octavo_engine.flags import ServeConfig
from octavo_engine.server.app import create_app
from octavo_engine.server.generation import Service
from octavo_engine.server.interfaces import Engine, Tokenizer

FLUSH_SECONDS = 5
"""How long clients may take to read the last event of their stream."""


class HttpServer(uvicorn.Server):
    def capture_signals(self) -> contextlib.AbstractContextManager[None]:  # type: ignore[override]
        """Leaves the signals to us: they begin a drain rather than an exit."""
        return contextlib.nullcontext()


def make_server(config: ServeConfig, engine: Engine, tokenizer: Tokenizer) -> tuple[Service, HttpServer]:
    app = create_app(engine, tokenizer, config.server, limits=config.engine)
    uvicorn_config = uvicorn.Config(
        app,
        lifespan="off",
        log_config=None,
        access_log=config.server.access_log,
        server_header=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=FLUSH_SECONDS,
    )
    return app.state.service, HttpServer(uvicorn_config)
