"""The operator's own HTTP server: /healthz, /readyz, /metrics."""

from collections.abc import Awaitable, Callable

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

Check = Callable[[], str | None]
"""Returns what is wrong, or None."""


class HealthServer:
    """`async with HealthServer(...)`. A check that finds something wrong answers 503 with the sentence."""

    def __init__(self, host: str, port: int, live: Check, ready: Check, registry: CollectorRegistry) -> None:
        self._address = (host, port)
        self._registry = registry
        application = web.Application()
        application.router.add_get("/healthz", _handler(live))
        application.router.add_get("/readyz", _handler(ready))
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

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=generate_latest(self._registry), headers={"Content-Type": CONTENT_TYPE_LATEST})


def _handler(check: Check) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def handle(_: web.Request) -> web.StreamResponse:
        problem = check()
        return web.Response(text=problem or "ok", status=503 if problem else 200)

    return handle
