"""The Kubernetes API: a few verbs over `kubernetes.aio`, every write fenced by the Lease."""

import asyncio
import json
import os
from collections.abc import Callable
from typing import Any, Self

import aiohttp
from kubernetes.aio import config as kube_config
from kubernetes.aio.client import ApiClient, Configuration
from kubernetes.aio.client.exceptions import ApiException

from octavo_operator import metrics
from octavo_operator.errors import Unavailable, api_error
from octavo_operator.kinds import Kind, Object, kind_of

MANAGER = "octavo"
REPLICAS_MANAGER = "octavo-replicas"

APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
TIMEOUT_SECONDS = 15.0
# Connections with TLS close in the background, and need their loop for it.
TLS_CLOSE_SECONDS = 0.25


def _no_fence() -> None:
    """Allow every write: for tools and tests that hold no Lease."""


class Kube:
    """One connection to one API server. Answers are plain dictionaries; failures are `ApiError`s."""

    def __init__(self, client: ApiClient, check_fence: Callable[[], None] = _no_fence) -> None:
        self.client = client
        self._check_fence = check_fence

    @classmethod
    async def connect(cls) -> Self:
        """Connect as the pod's service account, or as the kubeconfig of $KUBECONFIG says."""
        configuration = Configuration()
        if os.environ.get("KUBERNETES_SERVICE_HOST") and not os.environ.get("KUBECONFIG"):
            kube_config.load_incluster_config(client_configuration=configuration)
        else:
            await kube_config.load_kube_config(client_configuration=configuration)
        return cls(ApiClient(configuration))

    @property
    def configuration(self) -> Configuration:
        return self.client.configuration

    def fenced(self, check_fence: Callable[[], None]) -> "Kube":
        """Return the same connection, whose writes first ask whether this replica still leads."""
        return Kube(self.client, check_fence)

    async def close(self) -> None:
        await self.client.close()
        await asyncio.sleep(TLS_CLOSE_SECONDS)

    async def get(self, kind: Kind, namespace: str, name: str) -> Object:
        return await self.request("GET", kind.path(namespace, name))

    async def list_all(self, kind: Kind, namespace: str | None, label_selector: str | None = None) -> Object:
        """List a namespace, or all of them. Items get the kind that the server leaves out of them."""
        query = [("labelSelector", label_selector)] if label_selector else []
        listing = await self.request("GET", kind.path(namespace), query=query)
        about = {"apiVersion": kind.api_version, "kind": kind.kind}
        return {**listing, "items": [about | item for item in listing.get("items") or []]}

    async def create(self, body: Object, manager: str = MANAGER) -> Object:
        """Create an object. Raises `AlreadyExists`, so that nobody's object is ever adopted by accident."""
        path = kind_of(body).path(body["metadata"]["namespace"])
        return await self._write("POST", path, body, [("fieldManager", manager)], "application/json")

    async def apply(self, body: Object, manager: str = MANAGER, subresource: str | None = None) -> Object:
        """Apply on the server; fields that others changed are taken back."""
        path = kind_of(body).path(body["metadata"]["namespace"], body["metadata"]["name"], subresource)
        return await self._write("PATCH", path, body, [("fieldManager", manager), ("force", "true")], APPLY)

    async def merge(self, kind: Kind, namespace: str, name: str, patch: Object) -> Object:
        """Change the fields that the patch names; null removes one."""
        return await self._write("PATCH", kind.path(namespace, name), patch, [("fieldManager", MANAGER)], MERGE)

    async def replace(self, body: Object) -> Object:
        """Replace an object that was read before. Raises `AlreadyExists` when it changed since. Not fenced."""
        path = kind_of(body).path(body["metadata"]["namespace"], body["metadata"]["name"])
        return await self.request("PUT", path, body)

    async def delete(self, kind: Kind, namespace: str, name: str, uid: str) -> None:
        """Delete this very object, not a successor of the same name."""
        body = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": uid}}
        await self._write("DELETE", kind.path(namespace, name), body, [], "application/json")

    async def _write(
        self, method: str, path: str, body: Object, query: list[tuple[str, str]], content_type: str
    ) -> Object:
        self._check_fence()
        return await self.request(method, path, body, query, content_type)

    async def request(
        self,
        method: str,
        path: str,
        body: Object | None = None,
        query: list[tuple[str, str]] | None = None,
        content_type: str = "application/json",
    ) -> Object:
        headers = {"Accept": "application/json", "Content-Type": content_type}
        try:
            request = await self.client.param_serialize(
                method, path, query_params=query or [], header_params=headers, body=body, auth_settings=["BearerToken"]
            )
            response = await self.client.call_api(*request, _request_timeout=TIMEOUT_SECONDS)
            content = await response.read()
            metrics.API_REQUESTS.labels(method, str(response.status)).inc()
        except (TimeoutError, aiohttp.ClientError, OSError, ApiException) as error:
            metrics.API_REQUESTS.labels(method, "none").inc()
            raise Unavailable(0, f"the API server did not answer {method} {path}: {error!r}") from error
        if not 200 <= response.status <= 299:
            raise api_error(response.status, _message(content), _retry_after(response.headers))
        return json.loads(content) if content else {}


def _message(content: bytes) -> str:
    """Return the server's own words."""
    try:
        status: Any = json.loads(content)
    except ValueError:
        return content[:1000].decode(errors="replace")
    return str(status.get("message", status)) if isinstance(status, dict) else str(status)


def _retry_after(headers: Any) -> float | None:
    value = headers.get("Retry-After", "")
    return float(value) if value.isdigit() else None
