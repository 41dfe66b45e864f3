"""What the operator tells Prometheus of itself."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

REGISTRY = CollectorRegistry()

RECONCILES = Counter("octavo_operator_reconciles", "Reconciles by result.", ["result"], registry=REGISTRY)
RECONCILE_SECONDS = Histogram(
    "octavo_operator_reconcile_seconds",
    "Duration of one reconcile.",
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
    registry=REGISTRY,
)
QUEUE_LENGTH = Gauge("octavo_operator_queue_length", "Services that wait to be reconciled.", registry=REGISTRY)
IS_LEADER = Gauge("octavo_operator_is_leader", "1 while this replica leads.", registry=REGISTRY)
SERVICES = Gauge("octavo_operator_services", "InferenceServices known.", registry=REGISTRY)
DESIRED_REPLICAS = Gauge(
    "octavo_operator_desired_replicas", "Replicas that a service should have.", ["namespace", "name"], registry=REGISTRY
)
READY_REPLICAS = Gauge(
    "octavo_operator_ready_replicas", "Replicas of a service that serve.", ["namespace", "name"], registry=REGISTRY
)
DRAINS = Counter("octavo_operator_drains", "Drains by outcome.", ["outcome"], registry=REGISTRY)
API_REQUESTS = Counter(
    "octavo_operator_api_requests", "Requests to the API server.", ["method", "code"], registry=REGISTRY
)


def observe_service(namespace: str, name: str, desired: int, ready: int) -> None:
    """Set the figures of a service."""
    DESIRED_REPLICAS.labels(namespace, name).set(desired)
    READY_REPLICAS.labels(namespace, name).set(ready)


def forget_service(namespace: str, name: str) -> None:
    """Remove the figures of a service that is gone."""
    for gauge in (DESIRED_REPLICAS, READY_REPLICAS):
        gauge.remove(namespace, name)
