"""The Service: one address for all replicas that take requests."""

from octavo_operator import labels
from octavo_operator.kinds import Object
from octavo_operator.render.metadata import metadata
from octavo_operator.resource import InferenceService


def render_service(service: InferenceService) -> Object:
    """Return the Service. A draining pod loses the serving label first, and with it new requests."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(service, service.name),
        "spec": {
            "type": "ClusterIP",
            "selector": {labels.SERVICE: service.name, labels.SERVING: "true"},
            "ports": [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": "http"}],
        },
    }
