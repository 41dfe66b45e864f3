"""Writing what was rendered: create what is absent, repair what drifted, leave alone what is right or not ours."""

from octavo_operator.cache import Cache
from octavo_operator.drift import is_applied
from octavo_operator.errors import AlreadyExists, Conflict, NotFound
from octavo_operator.kinds import DEPLOYMENT, POD, Object, kind_of
from octavo_operator.kube import REPLICAS_MANAGER, Kube
from octavo_operator.resource import InferenceService


class Applier:
    """Writes through the API server, and tells the cache what came of it before the watch does."""

    def __init__(self, kube: Kube, cache: Cache) -> None:
        self._kube = kube
        self._cache = cache

    async def ensure(self, service: InferenceService, desired: Object) -> Object | None:
        """Make an object be as rendered. Returns it; None while a predecessor of the same name is being deleted.

        Raises `Conflict` when somebody else's object has the name.
        """
        live = self._cache.get(kind_of(desired), service.key, desired["metadata"]["name"])
        if live is None:
            return await self._create(service, desired)
        return await self._repair(service, desired, live)

    async def _create(self, service: InferenceService, desired: Object) -> Object | None:
        """Create, rather than apply: applying would silently merge into an object that is not ours."""
        kind, name = kind_of(desired), desired["metadata"]["name"]
        try:
            return self._store(await self._kube.create(desired))
        except AlreadyExists:
            live = await self._kube.get(kind, service.namespace, name)
            return await self._repair(service, desired, live)

    async def _repair(self, service: InferenceService, desired: Object, live: Object) -> Object | None:
        if not is_ours(service, live):
            raise Conflict(
                f"{desired['kind']} {desired['metadata']['name']} exists and belongs to somebody else; "
                f"rename it, delete it, or give the InferenceService another name"
            )
        if "deletionTimestamp" in live["metadata"]:
            return None
        if is_applied(desired, live):
            self._cache.put(kind_of(desired), live)
            return live
        return self._store(await self._kube.apply(desired))

    async def create_deployment(self, service: InferenceService, desired: Object, replicas: int) -> Object | None:
        """Create a revision's Deployment with its replicas, under their own field manager.

        Later applies of the template leave replicas out, and so never touch them.
        """
        body = {**desired, "spec": {**desired["spec"], "replicas": replicas}}
        try:
            return self._store(await self._kube.create(body, REPLICAS_MANAGER))
        except AlreadyExists:
            live = await self._kube.get(DEPLOYMENT, service.namespace, desired["metadata"]["name"])
            return await self._repair(service, desired, live)

    async def set_replicas(self, deployment: Object, replicas: int) -> Object:
        """Set a Deployment's replicas, and nothing else of it."""
        body = {
            "apiVersion": DEPLOYMENT.api_version,
            "kind": DEPLOYMENT.kind,
            "metadata": {name: deployment["metadata"][name] for name in ("name", "namespace")},
            "spec": {"replicas": replicas},
        }
        return self._store(await self._kube.apply(body, REPLICAS_MANAGER))

    async def create_secret(self, body: Object) -> None:
        """Create a Secret unless it exists: its name is the owner's alone, and its content never changes."""
        try:
            await self._kube.create(body)
        except AlreadyExists:
            return

    async def patch_pod(self, namespace: str, name: str, patch: Object) -> None:
        """Change labels and annotations of a pod; one that is gone needs no change."""
        try:
            self._store(await self._kube.merge(POD, namespace, name, patch))
        except NotFound:
            return

    async def delete_deployment(self, deployment: Object) -> None:
        """Delete a revision that has no replicas left."""
        metadata = deployment["metadata"]
        try:
            await self._kube.delete(DEPLOYMENT, metadata["namespace"], metadata["name"], metadata["uid"])
        except NotFound:
            return

    def _store(self, body: Object) -> Object:
        self._cache.put(kind_of(body), body)
        return body


def is_ours(service: InferenceService, live: Object) -> bool:
    """Tell whether an object is owned by this very service, not by a namesake that was deleted."""
    owners = live["metadata"].get("ownerReferences") or []
    return any(owner["uid"] == service.uid for owner in owners)
