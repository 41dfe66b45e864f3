"""The operator's process: Kopf's handlers, and what runs beside them."""

import asyncio
import logging
import signal
import sys
import threading
from collections.abc import Coroutine
from typing import Any

import kopf

from octavo_operator import labels
from octavo_operator.api.base import GROUP, PLURAL, VERSION
from octavo_operator.engines import Resolver, pod_address
from octavo_operator.errors import LeaseLost
from octavo_operator.kinds import DEPLOYMENT, DISRUPTION_BUDGET, INFERENCE_SERVICE, POD, SERVICE, WATCHED, Kind
from octavo_operator.kube import Kube
from octavo_operator.runtime import Runtime
from octavo_operator.settings import Settings
from octavo_operator.watch import Watcher

logger = logging.getLogger("octavo_operator")

RESTART_SECONDS = 2.0
# Connections with TLS close in the background, and need their loop for it.
TLS_CLOSE_SECONDS = 0.25

registry = kopf.OperatorRegistry()

# Kopf peers with nobody here. Left to itself it asks for the name of the user, and a container's user has none.
KOPF_IDENTITY: Any = "octavo-operator"


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


async def connection_info(kube: Kube) -> kopf.ConnectionInfo:
    """Return for Kopf the credentials that our own connection uses."""
    configuration = kube.configuration
    token = await configuration.get_api_key_with_prefix("BearerToken")
    scheme, _, secret = (token or "").partition(" ")
    return kopf.ConnectionInfo(
        server=configuration.host,
        ca_path=configuration.ssl_ca_cert,
        insecure=not configuration.verify_ssl,
        scheme=scheme or None,
        token=secret or None,
        certificate_path=configuration.cert_file,
        private_key_path=configuration.key_file,
    )


def kopf_settings() -> kopf.OperatorSettings:
    """Watch only what is ours, and write nothing."""
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.scanning.disabled = True
    for kind in WATCHED:
        if kind is not INFERENCE_SERVICE:
            settings.watching.label_selectors[kind.group, kind.version, kind.plural] = labels.OWNED
    return settings


async def watch(watcher: Watcher, kube: Kube, namespaces: tuple[str, ...]) -> None:
    """Run Kopf for ever. Where it gives up, as on errors of the API server, it begins anew and lists everything."""
    while True:
        try:
            await _run_kopf(watcher, kube, namespaces)
        except Exception:
            logger.exception("Watching failed")
        logger.warning("Watching begins anew in %.0f s", RESTART_SECONDS)
        await asyncio.sleep(RESTART_SECONDS)


async def _run_kopf(watcher: Watcher, kube: Kube, namespaces: tuple[str, ...]) -> None:
    """Run Kopf until it ends or this is cancelled.

    Kopf has a thread and a loop of its own: when it ends, it cancels every task of its loop that it does not know.
    """
    loop, stop = asyncio.get_running_loop(), threading.Event()

    def notify(kind: Kind, event: Any) -> None:
        loop.call_soon_threadsafe(watcher.on_event, kind, event)

    memo = kopf.Memo(notify=notify, kube=kube)
    thread = asyncio.create_task(asyncio.to_thread(asyncio.run, _kopf(memo, namespaces, stop)))
    try:
        await asyncio.shield(thread)
    finally:
        stop.set()
        await asyncio.wait([thread])


async def _kopf(memo: kopf.Memo, namespaces: tuple[str, ...], stop: threading.Event) -> None:
    await kopf.operator(
        registry=registry,
        settings=kopf_settings(),
        memo=memo,
        identity=KOPF_IDENTITY,
        standalone=True,
        clusterwide=not namespaces,
        namespaces=namespaces,
        stop_flag=stop,
    )
    await asyncio.sleep(TLS_CLOSE_SECONDS)


async def operate(settings: Settings, kube: Kube, stop: asyncio.Event, resolve: Resolver = pod_address) -> None:
    """Run the operator until told to stop. Raises `LeaseLost` when another replica may be leading."""
    async with Runtime(settings, kube, resolve) as runtime:
        await _first(stop.wait(), _run(runtime, kube, settings))


async def _run(runtime: Runtime, kube: Kube, settings: Settings) -> None:
    await runtime.watcher.sync()
    await _first(
        watch(runtime.watcher, kube, settings.namespaces),
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


def main() -> None:
    """Entry point of `octavo-operator`."""
    settings = Settings()
    logging.basicConfig(level=settings.log_level, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("kopf").setLevel(logging.WARNING)
    logging.getLogger("kopf._core.reactor.running").setLevel(logging.ERROR)
    sys.exit(asyncio.run(_main(settings)))


if __name__ == "__main__":
    main()
