"""Running Kopf: in a thread and a loop of its own, and again where it gives up."""

import asyncio
import logging
import threading
from typing import Any

import kopf

from octavo_operator import labels
from octavo_operator.kinds import INFERENCE_SERVICE, WATCHED, Kind
from octavo_operator.kube import TLS_CLOSE_SECONDS, Kube
from octavo_operator.watch import Watcher

logger = logging.getLogger(__name__)

RESTART_SECONDS = 2.0
# Kopf peers with nobody here. Left to itself it asks for the name of the user, and a container's user has none.
IDENTITY: Any = "octavo-operator"


async def watch(registry: kopf.OperatorRegistry, watcher: Watcher, kube: Kube, namespaces: tuple[str, ...]) -> None:
    """Run Kopf's handlers for ever. Where it ends, as on errors of the API server, it begins anew and lists all."""
    while True:
        try:
            await _run_kopf(registry, watcher, kube, namespaces)
        except Exception:
            logger.exception("Watching failed")
        watcher.is_watching.clear()
        logger.warning("Watching begins anew in %.0f s", RESTART_SECONDS)
        await asyncio.sleep(RESTART_SECONDS)


async def _run_kopf(registry: kopf.OperatorRegistry, watcher: Watcher, kube: Kube, namespaces: tuple[str, ...]) -> None:
    """Run Kopf until it ends or this is cancelled.

    It gets its own loop because it cancels, when it ends, every task of the loop that it does not know.
    """
    loop, stop = asyncio.get_running_loop(), threading.Event()

    def notify(kind: Kind, event: Any) -> None:
        loop.call_soon_threadsafe(watcher.on_event, kind, event)

    async def operator() -> None:
        try:
            await kopf.operator(
                registry=registry,
                settings=_settings(),
                memo=kopf.Memo(notify=notify, kube=kube),
                identity=IDENTITY,
                standalone=True,
                clusterwide=not namespaces,
                namespaces=namespaces,
                ready_flag=watcher.is_watching,
                stop_flag=stop,
            )
        finally:
            await asyncio.sleep(TLS_CLOSE_SECONDS)

    thread = asyncio.create_task(asyncio.to_thread(asyncio.run, operator()))
    try:
        await asyncio.shield(thread)
    finally:
        stop.set()
        await asyncio.wait([thread])


def _settings() -> kopf.OperatorSettings:
    """Watch only what is ours, and write nothing."""
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.scanning.disabled = True
    for kind in WATCHED:
        if kind is not INFERENCE_SERVICE:
            settings.watching.label_selectors[kind.group, kind.version, kind.plural] = labels.OWNED
    return settings


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
