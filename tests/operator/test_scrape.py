"""The scraper against real sockets: engines that answer, drip, flood, hang up, or talk nonsense."""

import asyncio
import gzip
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from aiohttp import web

from octavo_operator.autoscaler.types import PodSample
from octavo_operator.scrape import ScrapeLimits, Scraper, ScrapeTarget
from tests.operator.engine_answers import ANSWER

LIMITS = ScrapeLimits(timeout_seconds=0.4)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Start = Callable[[Handler], Awaitable[ScrapeTarget]]
Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    """Start an HTTP server whose /metrics is the handler."""
    runners: list[web.AppRunner] = []

    async def start_server(handler: Handler) -> ScrapeTarget:
        app = web.Application()
        app.router.add_get("/metrics", handler)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        runners.append(runner)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        return ScrapeTarget(f"pod-{len(runners)}", "127.0.0.1", runner.addresses[0][1])

    yield start_server
    for runner in runners:
        await runner.cleanup()


async def scrape_one(target: ScrapeTarget, limits: ScrapeLimits = LIMITS) -> PodSample:
    async with Scraper(limits) as scraper:
        (sample,) = await scraper.scrape([target])
    return sample


async def scrape_raw(talk: Talk) -> PodSample:
    """Scrape a server that writes bytes of its own choice once it was asked."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await talk(reader, writer)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        return await scrape_one(ScrapeTarget("raw", "127.0.0.1", server.sockets[0].getsockname()[1]))


async def answer(_: web.Request) -> web.Response:
    return web.Response(text=ANSWER)


async def black_hole(_: web.Request) -> web.Response:
    await asyncio.sleep(5)
    return web.Response(text=ANSWER)


async def test_an_engine_that_answers_gives_a_sample_with_its_time(start: Start) -> None:
    before = time.time()
    sample = await scrape_one(await start(answer))
    assert sample.failure is None
    assert sample.metrics is not None
    assert (sample.pod, sample.ip, sample.metrics.kv_used_tokens) == ("pod-1", "127.0.0.1", 512)
    assert before <= sample.at <= time.time()


async def test_one_bad_engine_costs_the_others_nothing(start: Start) -> None:
    targets = [await start(answer), await start(black_hole), await start(answer)]
    async with Scraper(LIMITS) as scraper:
        samples = await scraper.scrape([*targets, ScrapeTarget("pod-4", "127.0.0.1", 1)])
    assert [sample.pod for sample in samples] == ["pod-1", "pod-2", "pod-3", "pod-4"]
    assert [sample.metrics is not None for sample in samples] == [True, False, True, False]
    assert samples[1].failure == "no whole answer within 0.4 s"
    assert "Connect call failed" in (samples[3].failure or "")


async def test_a_slow_drip_ends_at_the_time_limit(start: Start) -> None:
    async def drip(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for character in ANSWER.encode():
            await response.write(bytes([character]))
            await asyncio.sleep(0.05)
        return response

    target = await start(drip)
    began = time.monotonic()
    sample = await scrape_one(target)
    assert sample.failure == "no whole answer within 0.4 s"
    assert time.monotonic() - began < 1


async def test_ten_megabytes_end_at_the_size_limit(start: Start) -> None:
    num_sent = 0

    async def flood(request: web.Request) -> web.StreamResponse:
        nonlocal num_sent
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(160):
            await response.write(b"#" * 65_536)
            num_sent += 65_536
        return response

    sample = await scrape_one(await start(flood), ScrapeLimits(timeout_seconds=5))
    assert "answered more than 1048576 bytes" in (sample.failure or "")
    assert num_sent < 10_000_000


async def test_a_compressed_answer_is_not_unpacked(start: Start) -> None:
    async def bomb(_: web.Request) -> web.Response:
        return web.Response(body=gzip.compress(b"#" * 50_000_000), headers={"Content-Encoding": "gzip"})

    sample = await scrape_one(await start(bomb), ScrapeLimits(timeout_seconds=5))
    assert sample.failure


@pytest.mark.parametrize("status", [302, 401, 404, 500, 503])
async def test_any_other_status_is_named_and_not_followed(start: Start, status: int) -> None:
    async def refuse(_: web.Request) -> web.Response:
        return web.Response(text=ANSWER, status=status, headers={"Location": "http://127.0.0.1:1/"})

    assert f"answered {status}" in ((await scrape_one(await start(refuse))).failure or "")


@pytest.mark.parametrize(
    "body",
    [b"", b"<html>hello</html>\n", b"\xff\xfe\x00", b"octavo_requests many\n", ANSWER.encode()[:200]],
    ids=["empty", "html", "binary", "text", "part"],
)
async def test_a_body_that_is_no_metrics_is_a_failure_with_words(start: Start, body: bytes) -> None:
    async def nonsense(_: web.Request) -> web.Response:
        return web.Response(body=body)

    sample = await scrape_one(await start(nonsense))
    assert sample.metrics is None
    assert sample.failure


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"\x16\x03\x01 not http\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n" + ANSWER.encode(),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n",
        b"HTTP/1.0 200 OK\r\n\r\n" + ANSWER.encode()[:-10],
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100_000 + b"\r\n\r\n",
    ],
    ids=["hang up", "not HTTP", "short body", "bad chunk", "cut off", "huge header"],
)
async def test_broken_http_is_a_failure_with_words(said: bytes) -> None:
    async def say(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(said)

    sample = await scrape_raw(say)
    assert sample.metrics is None
    assert sample.failure


async def test_a_reset_in_the_middle_is_a_failure_with_words() -> None:
    async def reset(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\nocta")
        await writer.drain()
        writer.transport.abort()

    assert (await scrape_raw(reset)).failure


@pytest.mark.parametrize("ip", ["", "not an address", "256.1.1.1"])
async def test_a_pod_without_a_usable_address_is_a_failure(ip: str) -> None:
    assert (await scrape_one(ScrapeTarget("pod", ip))).failure


async def test_no_more_than_the_limit_are_asked_at_once(start: Start) -> None:
    now, most = 0, 0

    async def count(_: web.Request) -> web.Response:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.02)
        now -= 1
        return web.Response(text=ANSWER)

    target = await start(count)
    async with Scraper(ScrapeLimits(max_concurrent=3)) as scraper:
        samples = await scraper.scrape([target] * 12)
    assert most == 3
    assert all(sample.metrics for sample in samples)


async def test_waiting_for_a_slot_is_not_counted_against_a_pod(start: Start) -> None:
    async def slow(_: web.Request) -> web.Response:
        await asyncio.sleep(0.15)
        return web.Response(text=ANSWER)

    target = await start(slow)
    async with Scraper(ScrapeLimits(timeout_seconds=0.4, max_concurrent=1)) as scraper:
        samples = await scraper.scrape([target] * 4)
    assert all(sample.metrics for sample in samples)


async def test_being_cancelled_ends_the_scrape(start: Start) -> None:
    target = await start(black_hole)
    async with Scraper() as scraper:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(scraper.scrape([target]), 0.05)
