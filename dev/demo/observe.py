"""The service as a user sees it: its status through the API server, and its engines' own figures.

The operator writes moving figures into the status only every few seconds, so the table reads them from the engines.
"""

import asyncio
import json
import urllib.error
import urllib.request
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

ENGINE_PORT = 8000


@dataclass(frozen=True)
class ServiceView:
    """One moment. `kv` is the share of all replicas' KV cache in use."""

    kv: float = 0.0
    waiting: int = 0
    running: int = 0
    ready: int = 0
    desired: int = 0
    draining: int = 0
    decision: str = ""
    history: tuple[dict[str, Any], ...] = ()

    @property
    def is_at_rest(self) -> bool:
        return self.ready == self.desired and not self.draining


def view(resource: dict[str, Any], metrics: Iterable[str] = ()) -> ServiceView:
    """Put together an InferenceService and what its engines answered to /metrics."""
    status = resource.get("status", {})
    autoscaling = status.get("autoscaling", {})
    load = total_load(metrics)
    return ServiceView(
        kv=round(load["used"] / load["total"], 4) if load["total"] else 0.0,
        waiting=int(load["waiting"]),
        running=int(load["running"]),
        ready=status.get("readyReplicas") or 0,
        desired=status.get("desiredReplicas") or 0,
        draining=status.get("drainingReplicas") or 0,
        decision=autoscaling.get("lastDecision") or "",
        history=tuple(autoscaling.get("history", [])),
    )


def total_load(metrics: Iterable[str]) -> dict[str, float]:
    """Return tokens of KV cache (used, total) and requests (running, waiting), summed over engines."""
    load = dict.fromkeys(("used", "total", "running", "waiting"), 0.0)
    for text in metrics:
        for family in text_string_to_metric_families(text):
            if family.name in ("octavo_kv_cache_tokens", "octavo_requests"):
                for sample in family.samples:
                    if sample.labels["state"] in load:
                        load[sample.labels["state"]] += sample.value
    return load


class Watcher:
    """Reads one InferenceService and its engines through `kubectl proxy`."""

    def __init__(self, proxy: str, namespace: str, name: str) -> None:
        self._services = f"{proxy}/apis/octavo.dev/v1alpha1/namespaces/{namespace}/inferenceservices/{name}"
        self._pods = f"{proxy}/api/v1/namespaces/{namespace}/pods"
        self._selector = f"labelSelector=octavo.dev/service={name}"

    async def look(self) -> ServiceView:
        """Raises OSError when the API server does not answer."""
        resource, pods = await asyncio.gather(_get(self._services), _get(f"{self._pods}?{self._selector}"))
        ready = [pod["metadata"]["name"] for pod in json.loads(pods)["items"] if _is_ready(pod)]
        answers = await asyncio.gather(*(self._metrics(pod) for pod in ready))
        return view(json.loads(resource), answers)

    async def _metrics(self, pod: str) -> str:
        """An engine that is going away just now has no load to show."""
        try:
            return (await _get(f"{self._pods}/{pod}:{ENGINE_PORT}/proxy/metrics")).decode()
        except urllib.error.HTTPError:
            return ""


def _is_ready(pod: dict[str, Any]) -> bool:
    conditions = pod["status"].get("conditions", [])
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


async def _get(url: str) -> bytes:
    return await asyncio.to_thread(_get_now, url)


def _get_now(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=10) as response:
        body: bytes = response.read()
        return body
