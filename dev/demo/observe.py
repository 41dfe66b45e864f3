"""The service as `kubectl` sees it, read through the API server."""

import asyncio
import json
import urllib.request
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ServiceView:
    """What an InferenceService's status says, with zeros where it says nothing yet."""

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


def view(resource: dict[str, Any]) -> ServiceView:
    """Read the parts of a status that the demo shows."""
    status = resource.get("status", {})
    autoscaling = status.get("autoscaling", {})
    return ServiceView(
        kv=float(autoscaling.get("kvCacheUtilization") or 0),
        waiting=autoscaling.get("waiting") or 0,
        running=autoscaling.get("running") or 0,
        ready=status.get("readyReplicas") or 0,
        desired=status.get("desiredReplicas") or 0,
        draining=status.get("drainingReplicas") or 0,
        decision=autoscaling.get("lastDecision") or "",
        history=tuple(autoscaling.get("history", [])),
    )


class Watcher:
    """Reads one InferenceService through `kubectl proxy`."""

    def __init__(self, proxy: str, namespace: str, name: str) -> None:
        self._url = f"{proxy}/apis/octavo.dev/v1alpha1/namespaces/{namespace}/inferenceservices/{name}"

    async def look(self) -> ServiceView:
        return view(json.loads(await asyncio.to_thread(self._get)))

    def _get(self) -> bytes:
        with urllib.request.urlopen(self._url, timeout=10) as response:
            body: bytes = response.read()
            return body
