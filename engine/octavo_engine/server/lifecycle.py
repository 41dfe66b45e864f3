"""When a server ends, and what becomes of the requests in flight."""

import asyncio
import contextlib
import logging
import socket
import time
from typing import Any, Protocol

from octavo_engine.server.generation import Service
from octavo_engine.server.signals import StopSignals, until

logger = logging.getLogger(__name__)


class HttpServer(Protocol):
    should_exit: bool

    async def serve(self, sockets: list[socket.socket] | None = None) -> None: ...


async def supervise(service: Service, server: HttpServer, listener: socket.socket, signals: StopSignals) -> int:
    """Serve until the engine dies (1), or a signal came and all requests have ended or been cut off (0)."""
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    death = asyncio.create_task(service.engine.wait_dead())
    try:
        await until(signals.first.wait(), serving, death)
        if not death.done():
            await _drain(service, death, signals)
        is_engine_dead = death.done()
        if is_engine_dead:
            logger.error("stopping, because the engine ended: %s", death.result())
        await service.engine.close()
    finally:
        death.cancel()
        server.should_exit = True
        await serving
    return int(is_engine_dead)


async def _drain(service: Service, death: asyncio.Task[Any], signals: StopSignals) -> None:
    """Take no new requests and wait for those in flight: not beyond the timeout, a second signal, or the engine."""
    service.is_stopping = True
    service.start_drain(time.monotonic())
    timeout = service.drain_seconds_left(time.monotonic())
    logger.info("draining: %d requests in flight, at most %g s", service.admission.num_requests, timeout)
    impatient = asyncio.create_task(signals.second.wait())
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(until(_idle(service), death, impatient), timeout)
    impatient.cancel()
    if num_cut := service.admission.num_requests:
        logger.warning("%d requests are cut off", num_cut)


async def _idle(service: Service) -> None:
    while service.admission.num_requests:  # noqa: ASYNC110 - counts have no event, and a drain is rare
        await asyncio.sleep(0.05)
