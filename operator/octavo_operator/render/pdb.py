"""The PodDisruptionBudget: evictions take one replica at a time."""

from octavo_operator import labels
from octavo_operator.kinds import Object
from octavo_operator.render.metadata import metadata
from octavo_operator.resource import InferenceService


def render_pdb(service: InferenceService) -> Object:
    """Return the budget. A single replica may be evicted, or a node could never be emptied."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata(service, service.name),
        "spec": {
            "maxUnavailable": 1,
            "selector": {"matchLabels": {labels.SERVICE: service.name}},
            # A replica that is not ready serves nobody, and must not keep its node from being emptied.
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    }
