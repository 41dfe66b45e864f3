"""The operator's own HTTP server: /healthz, /readyz, /metrics."""

from collections.abc import Callable

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

Check = Callable[[], str | None]
"""Returns what is wrong, or None."""


class HealthServer:
    """`async with HealthServer(...)`. A check that finds a problem answers 503 with it."""

    def __init__(self, host: str, port: int, live: Check, ready: Check, registry: CollectorRegistry) -> None:
        self._address = (host, port)
        self._checks = {"/healthz": live, "/readyz": ready}
        self._registry = registry
        application = web.Application()
        for path in self._checks:
            application.router.add_get(path, self._check)
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

    async def _check(self, request: web.Request) -> web.Response:
        problem = self._checks[request.path]()
        return web.Response(text=problem or "ok", status=503 if problem else 200)

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=generate_latest(self._registry), headers={"Content-Type": CONTENT_TYPE_LATEST})
