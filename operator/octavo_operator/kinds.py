"""The kinds of objects that the operator touches, and where the API server keeps them."""

from dataclasses import dataclass
from typing import Any

from octavo_operator.api.base import GROUP, KIND, PLURAL, VERSION

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Kind:
    """A namespaced kind. `group` is empty for the core API."""

    group: str
    version: str
    kind: str
    plural: str

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None, name: str | None = None, subresource: str | None = None) -> str:
        """Return the URL path of a collection, an object or a subresource; without a namespace, of all namespaces."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        parts = [root]
        if namespace is not None:
            parts.append(f"namespaces/{namespace}")
        parts.extend(part for part in (self.plural, name, subresource) if part)
        return "/".join(parts)

    def __str__(self) -> str:
        return self.kind


INFERENCE_SERVICE = Kind(GROUP, VERSION, KIND, PLURAL)
DEPLOYMENT = Kind("apps", "v1", "Deployment", "deployments")
SERVICE = Kind("", "v1", "Service", "services")
DISRUPTION_BUDGET = Kind("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets")
POD = Kind("", "v1", "Pod", "pods")
SECRET = Kind("", "v1", "Secret", "secrets")
EVENT = Kind("", "v1", "Event", "events")
LEASE = Kind("coordination.k8s.io", "v1", "Lease", "leases")

# What is watched: the service, and everything of it that may drift. Secrets are created and never read.
WATCHED = (INFERENCE_SERVICE, DEPLOYMENT, SERVICE, DISRUPTION_BUDGET, POD)

BY_NAME = {kind.kind: kind for kind in (*WATCHED, SECRET, EVENT, LEASE)}


def kind_of(body: Object) -> Kind:
    """Return the kind of a rendered object."""
    return BY_NAME[body["kind"]]
