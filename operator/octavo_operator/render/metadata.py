"""Metadata that all children share."""

from octavo_operator import labels
from octavo_operator.kinds import Object
from octavo_operator.resource import InferenceService


def metadata(service: InferenceService, name: str, **extra_labels: str) -> Object:
    """Return the metadata of an object that belongs to a service."""
    return {
        "name": name,
        "namespace": service.namespace,
        "labels": {**labels.owned(service.name), **extra_labels},
        "ownerReferences": [service.owner_reference()],
    }
