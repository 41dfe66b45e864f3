"""Asks the engines for their metrics: all at once, each within two seconds and one mebibyte."""

import asyncio
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import aiohttp
from yarl import URL

from octavo_operator.autoscaler.exposition import parse_metrics
from octavo_operator.autoscaler.types import EngineMetrics, PodSample

ENGINE_PORT = 8000
READ_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class ScrapeTarget:
    pod: str
    ip: str
    port: int = ENGINE_PORT


@dataclass(frozen=True, slots=True)
class ScrapeLimits:
    timeout_seconds: float = 2.0
    max_bytes: int = 1 << 20
    max_concurrent: int = 256


class ScrapeError(Exception):
    """The engine answered, but not with metrics; says with what."""


class Scraper:
    """`async with Scraper() as scraper: samples = await scraper.scrape(targets)`.

    A pod that cannot be asked gives a sample with the failure. A sample's time is when it was asked for.
    """

    def __init__(self, limits: ScrapeLimits = ScrapeLimits(), clock: Callable[[], float] = time.time) -> None:
        self._limits = limits
        self._clock = clock
        self._slots = asyncio.Semaphore(limits.max_concurrent)

    async def __aenter__(self) -> Self:
        # A connection kept from one scrape to the next could be one that the engine has just closed. An answer that is
        # compressed all the same is not unpacked: its size would be bounded by nothing.
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, force_close=True),
            timeout=aiohttp.ClientTimeout(total=self._limits.timeout_seconds),
            headers={"Accept": "text/plain", "Accept-Encoding": "identity"},
            auto_decompress=False,
        )
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        await self._session.close()

    async def scrape(self, targets: Iterable[ScrapeTarget]) -> tuple[PodSample, ...]:
        """One sample for each target, in their order. Never raises for what an engine does or does not do."""
        return tuple(await asyncio.gather(*(self._sample(target) for target in targets)))

    async def _sample(self, target: ScrapeTarget) -> PodSample:
        async with self._slots:
            at = self._clock()
            try:
                return PodSample(target.pod, target.ip, at, metrics=await self._ask(target))
            except TimeoutError:
                failure = f"no whole answer within {self._limits.timeout_seconds:g} s"
            except Exception as error:  # whatever one engine does, the others' samples must come
                failure = f"{error}" or type(error).__name__
            return PodSample(target.pod, target.ip, at, failure=failure)

    async def _ask(self, target: ScrapeTarget) -> EngineMetrics:
        url = URL.build(scheme="http", host=target.ip, port=target.port, path="/metrics")
        async with self._session.get(url, allow_redirects=False) as response:
            if response.status != 200:
                raise ScrapeError(f"{url} answered {response.status}")
            return parse_metrics(await self._read(response))

    async def _read(self, response: aiohttp.ClientResponse) -> str:
        body = bytearray()
        async for chunk in response.content.iter_chunked(READ_BYTES):
            body += chunk
            if len(body) > self._limits.max_bytes:
                raise ScrapeError(f"{response.url} answered more than {self._limits.max_bytes} bytes")
        return body.decode()
