"""Labels, annotations and names that the operator puts on what it owns."""

NAME = "app.kubernetes.io/name"
MANAGED_BY = "app.kubernetes.io/managed-by"
SERVICE = "octavo.dev/service"
REVISION = "octavo.dev/revision"
# The Service selects this label and the ReplicaSet does not: taking it away drains a pod without replacing it.
SERVING = "octavo.dev/serving"

TEMPLATE_HASH = "octavo.dev/template-hash"
DRAINING_SINCE = "octavo.dev/draining-since"
DRAINED_AT = "octavo.dev/drained-at"
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"

ENGINE = "octavo-engine"
OPERATOR = "octavo"

# Server-side selector of everything that the operator owns.
OWNED = f"{MANAGED_BY}={OPERATOR}"


# Fields of the admin token that the operator and the engines share.
TOKEN_KEY = "token"


def owned(service: str) -> dict[str, str]:
    """Return the labels of every object that belongs to a service."""
    return {NAME: ENGINE, MANAGED_BY: OPERATOR, SERVICE: service}


def selector(service: str) -> str:
    """Return the label selector of a service's pods."""
    return f"{SERVICE}={service}"
