"""An engine as the operator sees it: drain and metrics over HTTP."""

from typing import Self

from aiohttp import web

METRICS = """\
octavo_kv_cache_tokens{{model="fake",state="total"}} {kv_total}
octavo_kv_cache_tokens{{model="fake",state="used"}} {kv_used}
octavo_requests{{model="fake",state="running"}} {running}
octavo_requests{{model="fake",state="waiting"}} {waiting}
octavo_waiting_prompt_tokens{{model="fake"}} {waiting_tokens}
octavo_engine_steps_total{{model="fake"}} {steps}
octavo_engine_idle{{model="fake"}} {idle}
"""


class FakeEngine:
    """Says what a test sets. Requests in flight are those that run or wait."""

    def __init__(self) -> None:
        self.is_draining = False
        self.is_broken = False
        self.kv_total, self.kv_used = 1000, 0
        self.running, self.waiting = 0, 0
        self.steps = 0
        self.port = 0
        self.tokens: set[str] = set()
        self.num_drain_requests = 0
        app = web.Application()
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/drain", self._drain_state)
        app.router.add_post("/drain", self._drain)
        app.router.add_delete("/drain", self._undrain)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)

    @classmethod
    async def start(cls) -> Self:
        engine = cls()
        await engine._runner.setup()
        await web.TCPSite(engine._runner, "127.0.0.1", 0).start()
        engine.port = engine._runner.addresses[0][1]
        return engine

    async def stop(self) -> None:
        await self._runner.cleanup()

    def load(self, running: int = 0, waiting: int = 0, kv_used: int = 0) -> None:
        """Set what the engine works on."""
        self.running, self.waiting, self.kv_used = running, waiting, kv_used

    async def _metrics(self, _: web.Request) -> web.Response:
        if self.is_broken:
            raise web.HTTPServiceUnavailable
        self.steps += 1
        text = METRICS.format(
            kv_total=self.kv_total,
            kv_used=self.kv_used,
            running=self.running,
            waiting=self.waiting,
            waiting_tokens=10 * self.waiting,
            steps=self.steps,
            idle=int(self.running + self.waiting == 0),
        )
        return web.Response(text=text)

    async def _drain_state(self, request: web.Request) -> web.Response:
        self._note(request)
        return web.json_response({"draining": self.is_draining, "in_flight": self.running + self.waiting})

    async def _drain(self, request: web.Request) -> web.Response:
        self._note(request)
        self.is_draining = True
        self.num_drain_requests += 1
        return web.json_response({})

    async def _undrain(self, request: web.Request) -> web.Response:
        self._note(request)
        self.is_draining = False
        return web.json_response({})

    def _note(self, request: web.Request) -> None:
        if self.is_broken:
            raise web.HTTPServiceUnavailable
        self.tokens.add(request.headers.get("Authorization", ""))
