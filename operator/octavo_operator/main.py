"""The operator's process: Kopf's handlers, and what runs beside them."""

import asyncio
import logging
import signal
import sys
from collections.abc import Coroutine
from typing import Any

import kopf
from kubernetes.aio.config import ConfigException
from pydantic import ValidationError

from octavo_operator.api.base import GROUP, PLURAL, VERSION
from octavo_operator.engines import Resolver, pod_address
from octavo_operator.errors import LeaseLost
from octavo_operator.kinds import DEPLOYMENT, DISRUPTION_BUDGET, INFERENCE_SERVICE, POD, SERVICE
from octavo_operator.kopf_thread import connection_info, watch
from octavo_operator.kube import Kube
from octavo_operator.runtime import Runtime
from octavo_operator.settings import Settings

logger = logging.getLogger("octavo_operator")

registry = kopf.OperatorRegistry()


@kopf.on.event(GROUP, VERSION, PLURAL, registry=registry)
async def service_changed(event: Any, memo: Any, **_: Any) -> None:
    memo.notify(INFERENCE_SERVICE, event)


@kopf.on.event("apps", "v1", "deployments", registry=registry)
async def deployment_changed(event: Any, memo: Any, **_: Any) -> None:
    memo.notify(DEPLOYMENT, event)


@kopf.on.event("", "v1", "services", registry=registry)
async def address_changed(event: Any, memo: Any, **_: Any) -> None:
    memo.notify(SERVICE, event)


@kopf.on.event("policy", "v1", "poddisruptionbudgets", registry=registry)
async def budget_changed(event: Any, memo: Any, **_: Any) -> None:
    memo.notify(DISRUPTION_BUDGET, event)


@kopf.on.event("", "v1", "pods", registry=registry)
async def pod_changed(event: Any, memo: Any, **_: Any) -> None:
    memo.notify(POD, event)


@kopf.on.login(registry=registry)
async def login(memo: Any, **_: Any) -> kopf.ConnectionInfo:
    return await connection_info(memo.kube)


async def operate(settings: Settings, kube: Kube, stop: asyncio.Event, resolve: Resolver = pod_address) -> None:
    """Run the operator until told to stop. Raises `LeaseLost` when another replica may be leading."""
    async with Runtime(settings, kube, resolve) as runtime:
        await _first(stop.wait(), _run(runtime, kube, settings))


async def _run(runtime: Runtime, kube: Kube, settings: Settings) -> None:
    await runtime.watcher.sync()
    await _first(
        watch(registry, runtime.watcher, kube, settings.namespaces),
        runtime.watcher.run(settings.resync_seconds),
        runtime.lead(),
    )


async def _first(*coroutines: Coroutine[Any, Any, Any]) -> None:
    """Run several at once until the first of them ends, for better or worse; then end the others."""
    tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _main(settings: Settings) -> int:
    stop = asyncio.Event()
    for signal_number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(signal_number, stop.set)
    code = 0
    kube = await Kube.connect()
    try:
        await operate(settings, kube, stop)
    except* LeaseLost as lost:
        logger.error("Exiting, for another replica may lead: %s", lost.exceptions[0])
        code = 1
    finally:
        await kube.close()
    return code


def _read_settings() -> Settings:
    try:
        return Settings()
    except ValidationError as error:
        first = error.errors()[0]
        variable = f"OCTAVO_{'_'.join(str(part) for part in first['loc']).upper()}"
        sys.exit(f"octavo-operator: {variable}: {first['msg']}, got {first['input']!r}")


def main() -> None:
    """Entry point of `octavo-operator`."""
    settings = _read_settings()
    logging.basicConfig(level=settings.log_level, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("kopf").setLevel(logging.WARNING)
    logging.getLogger("kopf._core.reactor.running").setLevel(logging.ERROR)
    try:
        sys.exit(asyncio.run(_main(settings)))
    except ConfigException as error:
        sys.exit(f"octavo-operator: no cluster to connect to: {error}\nRun it in a pod, or set KUBECONFIG.")


if __name__ == "__main__":
    main()
