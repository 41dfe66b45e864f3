"""What the watches last said, for reading without asking the API server."""

from collections.abc import Iterable, Iterator

from octavo_operator import labels
from octavo_operator.kinds import INFERENCE_SERVICE, Kind, Object


def key_of(kind: Kind, body: Object) -> str | None:
    """Return the key `namespace/name` of the service that an object belongs to; None if it belongs to none."""
    metadata = body["metadata"]
    if kind is INFERENCE_SERVICE:
        return f"{metadata['namespace']}/{metadata['name']}"
    service = (metadata.get("labels") or {}).get(labels.SERVICE)
    return f"{metadata['namespace']}/{service}" if service else None


def split(key: str) -> tuple[str, str]:
    """Return namespace and name of a key."""
    namespace, _, name = key.partition("/")
    return namespace, name


def version(body: Object) -> int:
    """Return the resource version as the number that it is; later writes have greater ones."""
    return int(body["metadata"].get("resourceVersion") or 0)


class Cache:
    """Objects by kind and service. An older version never replaces a newer one, whatever order they arrive in."""

    def __init__(self) -> None:
        self._objects: dict[str, dict[str, dict[str, Object]]] = {}

    def put(self, kind: Kind, body: Object) -> str | None:
        """Take in an object; return its service's key if that tells something new."""
        key = key_of(kind, body)
        if key is None:
            return None
        objects = self._objects.setdefault(kind.kind, {}).setdefault(key, {})
        known = objects.get(body["metadata"]["name"])
        if known is not None and version(known) >= version(body):
            return None
        objects[body["metadata"]["name"]] = _slim(body)
        return key

    def remove(self, kind: Kind, body: Object) -> str | None:
        """Forget an object that was deleted; return its service's key. A newer object of the same name stays."""
        key = key_of(kind, body)
        if key is None:
            return None
        objects = self._objects.get(kind.kind, {}).get(key, {})
        known = objects.get(body["metadata"]["name"])
        if known is not None and version(known) <= version(body):
            del objects[body["metadata"]["name"]]
            if not objects:
                del self._objects[kind.kind][key]
        return key

    def replace(self, kind: Kind, namespace: str | None, bodies: Iterable[Object], listed_at: int) -> set[str]:
        """Take in a listing of one namespace or of all; return the keys that it tells something new about.

        What is known, not listed and not newer than the listing is gone.
        """
        listed: set[tuple[str, str]] = set()
        changed: set[str] = set()
        for body in bodies:
            listed.add((body["metadata"]["namespace"], body["metadata"]["name"]))
            changed.add(self.put(kind, body) or "")
        for body in list(self.all(kind)):
            name = (body["metadata"]["namespace"], body["metadata"]["name"])
            is_covered = namespace is None or namespace == body["metadata"]["namespace"]
            if is_covered and name not in listed and version(body) <= listed_at:
                changed.add(self.remove(kind, body) or "")
        return changed - {""}

    def all(self, kind: Kind) -> Iterator[Object]:
        """Return every object of a kind."""
        for objects in self._objects.get(kind.kind, {}).values():
            yield from objects.values()

    def of_service(self, kind: Kind, key: str) -> list[Object]:
        """Return the objects of a kind that belong to a service."""
        return list(self._objects.get(kind.kind, {}).get(key, {}).values())

    def get(self, kind: Kind, key: str, name: str) -> Object | None:
        """Return one object of a service."""
        return self._objects.get(kind.kind, {}).get(key, {}).get(name)

    def service(self, key: str) -> Object | None:
        """Return the InferenceService of a key."""
        return self.get(INFERENCE_SERVICE, key, split(key)[1])

    def service_keys(self) -> list[str]:
        """Return the keys of all services."""
        return list(self._objects.get(INFERENCE_SERVICE.kind, {}))


def _slim(body: Object) -> Object:
    """Leave out what nobody here reads and what is most of a small object's size."""
    metadata = {key: value for key, value in body["metadata"].items() if key != "managedFields"}
    return {**body, "metadata": metadata}
