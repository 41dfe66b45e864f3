"""Typed views of the cached resources, each read once for every version of its spec."""

from collections.abc import Iterator

from pydantic import ValidationError

from octavo_operator.cache import Cache
from octavo_operator.resource import InferenceService


class Services:
    """Reads InferenceServices out of the cache."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._views: dict[str, InferenceService] = {}

    def get(self, key: str) -> InferenceService | None:
        """Return a service that exists and is not being deleted. Raises pydantic's `ValidationError`."""
        body = self._cache.service(key)
        if body is None or "deletionTimestamp" in body["metadata"]:
            self._views.pop(key, None)
            return None
        view = self._views.get(key)
        metadata = body["metadata"]
        if view is None or (view.uid, view.generation) != (metadata["uid"], metadata.get("generation", 1)):
            view = self._views[key] = InferenceService.read(body)
        return view

    def readable(self) -> Iterator[InferenceService]:
        """Return all services, without those that cannot be read: reconciling reports them."""
        for key in self._cache.service_keys():
            try:
                service = self.get(key)
            except ValidationError:
                continue
            if service is not None:
                yield service
