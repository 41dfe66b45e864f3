"""The operator's own HTTP server: /healthz, /readyz, /metrics."""

from collections.abc import Callable

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

Check = Callable[[], str | None]
"""Returns what is wrong, or None."""


class HealthServer:
    """`async with HealthServer(...)`. Whoever gets an answer from /healthz knows that the event loop runs."""

    def __init__(self, host: str, port: int, check_ready: Check, registry: CollectorRegistry) -> None:
        self._address = (host, port)
        self._check_ready = check_ready
        self._registry = registry
        application = web.Application()
        application.router.add_get("/healthz", self._live)
        application.router.add_get("/readyz", self._ready)
        application.router.add_get("/metrics", self._metrics)
        self._runner = web.AppRunner(application, access_log=None)

    async def __aenter__(self) -> "HealthServer":
        await self._runner.setup()
        await web.TCPSite(self._runner, *self._address).start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    @property
    def port(self) -> int:
        """The port that is listened on; useful when 0 was asked for."""
        return int(self._runner.addresses[0][1])

    async def _live(self, _: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def _ready(self, _: web.Request) -> web.Response:
        problem = self._check_ready()
        return web.Response(text=problem or "ok", status=503 if problem else 200)

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=generate_latest(self._registry), headers={"Content-Type": CONTENT_TYPE_LATEST})
