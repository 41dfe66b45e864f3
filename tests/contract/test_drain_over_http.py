"""The operator drains the engine's real server, over a real socket, with the token that both know."""

from collections.abc import AsyncIterator

import aiohttp
import pytest

from octavo_operator.engines import EngineAdmin
from octavo_operator.errors import EngineError
from octavo_operator.observed import Pod
from octavo_operator.scrape import Scraper, ScrapeTarget
from tests.engine.server_support import FakeEngine, listening, make_app
from tests.operator.builders import pod

TOKEN = "secret"


@pytest.fixture
async def engine() -> FakeEngine:
    return FakeEngine()


@pytest.fixture
async def port(engine: FakeEngine) -> AsyncIterator[int]:
    async with listening(make_app(engine, admin_token=TOKEN)) as client:
        port = client.base_url.port
        assert port is not None
        yield port


@pytest.fixture
async def admin(port: int) -> AsyncIterator[EngineAdmin]:
    async with aiohttp.ClientSession() as session:
        yield EngineAdmin(session, lambda _: ("127.0.0.1", port))


async def test_a_drained_engine_refuses_and_says_how_many_it_works_on(admin: EngineAdmin, port: int) -> None:
    assert not await admin.is_draining(pod("a"), TOKEN)
    assert await admin.drain(pod("a"), TOKEN) == 0
    assert await admin.is_draining(pod("a"), TOKEN)
    assert await status(port, "/health/ready") == 503
    assert await status(port, "/health/live") == 200


async def test_draining_twice_is_draining(admin: EngineAdmin) -> None:
    await admin.drain(pod("a"), TOKEN)
    assert await admin.drain(pod("a"), TOKEN) == 0


async def test_an_engine_that_is_put_back_is_ready(admin: EngineAdmin, port: int) -> None:
    await admin.drain(pod("a"), TOKEN)
    await admin.undrain(pod("a"), TOKEN)
    assert not await admin.is_draining(pod("a"), TOKEN)
    assert await status(port, "/health/ready") == 200


async def test_the_scraper_reads_the_real_metrics(port: int) -> None:
    async with Scraper() as scraper:
        (sample,) = await scraper.scrape([ScrapeTarget("a", "127.0.0.1", port)])
    assert sample.failure is None
    assert sample.metrics is not None
    assert sample.metrics.is_idle


async def test_an_engine_that_is_gone_is_an_error_that_names_the_pod() -> None:
    gone: Pod = pod("gone")
    async with aiohttp.ClientSession() as session:
        with pytest.raises(EngineError, match="gone"):
            await EngineAdmin(session, lambda _: ("127.0.0.1", 1)).drain(gone, TOKEN)


async def status(port: int, path: str) -> int:
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}{path}") as response:
        return response.status
