"""All parts of one operator process, put together, and the tasks that run them."""

import asyncio
import logging
import secrets
import socket
from contextlib import AsyncExitStack
from typing import Self

import aiohttp

from octavo_operator import metrics
from octavo_operator.apply import Applier
from octavo_operator.cache import Cache
from octavo_operator.drainer import Drainer
from octavo_operator.engines import EngineAdmin, Resolver, pod_address
from octavo_operator.errors import ApiError, LeaseLost
from octavo_operator.events import Recorder
from octavo_operator.execute import Executor
from octavo_operator.health import HealthServer
from octavo_operator.keys import load_operator_key
from octavo_operator.kube import Kube
from octavo_operator.lease import Lease
from octavo_operator.queue import KeyedQueue
from octavo_operator.reconcile import Reconciler
from octavo_operator.render.secret import admin_token
from octavo_operator.report import Reporter
from octavo_operator.resource import InferenceService
from octavo_operator.scaler import Scaler
from octavo_operator.scrape import ScrapeLimits, Scraper
from octavo_operator.services import Services
from octavo_operator.settings import Settings
from octavo_operator.watch import Watcher

logger = logging.getLogger(__name__)


class Runtime:
    """`async with Runtime(settings, kube) as runtime: await runtime.lead()`. Followers watch, the leader acts."""

    def __init__(self, settings: Settings, kube: Kube, resolve: Resolver = pod_address) -> None:
        self._settings = settings
        self._kube = kube
        self._resolve = resolve
        self._stack = AsyncExitStack()
        identity = settings.identity or f"{socket.gethostname()}_{secrets.token_hex(4)}"
        self.lease = Lease(
            kube, settings.operator_namespace, settings.lease_name, identity, duration=settings.lease_seconds
        )
        self.queue = KeyedQueue()
        self.cache = Cache()
        self.services = Services(self.cache)
        self.watcher = Watcher(kube, self.cache, self.queue, settings.namespaces)
        # A follower is ready too: it watches, and takes over when the leader is gone.
        self.health = HealthServer(
            settings.host,
            settings.port,
            live=self.watcher.find_lasting_problem,
            ready=self.watcher.find_problem,
            registry=metrics.REGISTRY,
        )
        metrics.QUEUE_LENGTH.set_function(lambda: len(self.queue))
        metrics.SERVICES.set_function(lambda: len(self.cache.service_keys()))
        metrics.IS_LEADER.set_function(lambda: self.lease.is_held)

    async def __aenter__(self) -> Self:
        self._session = await self._stack.enter_async_context(aiohttp.ClientSession())
        limits = ScrapeLimits(self._settings.scrape_timeout_seconds, max_concurrent=self._settings.scrape_concurrency)
        self._scraper = await self._stack.enter_async_context(Scraper(limits))
        await self._stack.enter_async_context(self.health)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.lease.release()
        await self._stack.aclose()

    async def lead(self) -> None:
        """Wait for the Lease, then act on every service until the Lease is lost."""
        await self.lease.acquire()
        await self._build()
        for key in self.cache.service_keys():
            self.queue.add(key)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.lease.keep())
            tasks.create_task(self._scaler.run())
            tasks.create_task(self._drainer.run(self._settings.drain_poll_seconds))
            for _ in range(self._settings.num_workers):
                tasks.create_task(self._work())

    async def _build(self) -> None:
        """Make the parts that act. Their writes are fenced."""
        kube = self._kube.fenced(self.lease.check)
        key = await load_operator_key(kube, self._settings.operator_namespace)

        def token(service: InferenceService) -> str:
            return admin_token(key, service)

        recorder, applier = Recorder(kube), Applier(kube, self.cache)
        admin = EngineAdmin(self._session, self._resolve)
        grace = self._settings.endpoint_grace_seconds
        self._scaler = Scaler(self.cache, self.services, self.queue, self._scraper, self._resolve)
        self._drainer = Drainer(self.cache, self.services, self.queue, admin, token, grace)
        executor = Executor(self.cache, applier, self._drainer, self._scaler, recorder, self._settings)
        reporter = Reporter(kube, self.cache, recorder)
        self._reconciler = Reconciler(self.cache, self.services, applier, executor, self._scaler, reporter, token)

    async def _work(self) -> None:
        """Reconcile one key after another. What fails is tried again later; only a lost Lease ends it."""
        while True:
            key = await self.queue.get()
            try:
                with metrics.RECONCILE_SECONDS.time():
                    again = await self._reconciler.reconcile(key)
            except LeaseLost:
                raise
            except ApiError as error:
                self._retry(key, error, error.retry_after or 0.0)
            except Exception as error:
                logger.exception("%s: reconciling failed", key)
                self._retry(key, error)
            else:
                metrics.RECONCILES.labels("ok").inc()
                self.queue.done(key)
                if again is not None:
                    self.queue.add_after(key, again)

    def _retry(self, key: str, error: Exception, at_least: float = 0.0) -> None:
        metrics.RECONCILES.labels("failed").inc()
        delay = self.queue.retry(key, at_least)
        logger.warning("%s: %s; again in %.1f s", key, error, delay)
