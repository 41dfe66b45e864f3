"""Services, revisions and pods for the tests of the pure parts."""

from typing import Any

from octavo_operator.kinds import Object
from octavo_operator.observed import Failure, Pod, Revision
from octavo_operator.resource import InferenceService

NOW = 1_800_000_000.0


def resource(name: str = "chat", namespace: str = "team", generation: int = 1, **spec: Any) -> Object:
    """Return an InferenceService as the API server would; `spec` goes beside a model."""
    return {
        "apiVersion": "octavo.dev/v1alpha1",
        "kind": "InferenceService",
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-of-{name}", "generation": generation},
        "spec": {"model": {"uri": "bundled://smollm2-135m-instruct"}, **spec},
    }


def service(name: str = "chat", namespace: str = "team", **spec: Any) -> InferenceService:
    return InferenceService.read(resource(name, namespace, **spec))


def pod(name: str, revision: str = "new", age: float = 100.0, **fields: Any) -> Pod:
    """Return a pod that serves."""
    facts: dict[str, Any] = {"ip": "10.0.0.1", "is_ready": True, "has_started": True} | fields
    return Pod(name=name, uid=f"uid-of-{name}", revision=revision, created_at=NOW - age, **facts)


def starting(name: str, revision: str = "new", **fields: Any) -> Pod:
    return pod(name, revision, is_ready=False, has_started=False, **fields)


def draining(name: str, since: float = 10.0, revision: str = "new", **fields: Any) -> Pod:
    """Return a pod that left the Service `since` seconds ago."""
    return pod(name, revision, **{"is_serving": False, "draining_since": NOW - since, **fields})


def unschedulable(name: str, since: float = 10.0, revision: str = "new", message: str = "no node fits") -> Pod:
    return starting(name, revision, blocked_since=NOW - since, message=message)


def crashing(name: str, revision: str = "new") -> Pod:
    return starting(name, revision, failure=Failure("CrashLoop", "the engine ended with exit code 1: no model"))


def revision(
    name: str, *pods: Pod, replicas: int | None = None, age: float = 1000.0, failure: str = "", num_created: int = 0
) -> Revision:
    replicas = len(pods) if replicas is None else replicas
    return Revision(name, replicas, NOW - age, pods, failure, num_created=num_created)
