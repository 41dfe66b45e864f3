"""`status` of an InferenceService."""

from typing import Literal

from pydantic import Field

from octavo_operator.api.base import Schema


class Condition(Schema):
    """metav1.Condition."""

    type: str = Field(max_length=316)
    status: Literal["True", "False", "Unknown"]
    reason: str = Field(max_length=1024)
    message: str = Field(max_length=32768)
    last_transition_time: str = Field(json_schema_extra={"format": "date-time"})
    observed_generation: int | None = None


class Revisions(Schema):
    """Hashes of the revision that serves, and of the one that replaces it."""

    current: str | None = None
    updating: str | None = None


class ScalingDecision(Schema):
    """One change of the number of replicas, with its reason."""

    time: str = Field(json_schema_extra={"format": "date-time"})
    from_replicas: int = Field(alias="from")
    to_replicas: int = Field(alias="to")
    reason: str = Field(max_length=1024)


class AutoscalingStatus(Schema):
    """What the autoscaler saw and decided."""

    kv_cache_utilization: str | None = Field(None, description="Share of all replicas' KV cache in use.")
    waiting: int | None = None
    running: int | None = None
    fresh_pods: int | None = None
    ready_pods: int | None = None
    recommended: int | None = Field(None, description="Replicas that the load needs, before limits.")
    desired: int | None = None
    limited_by: list[str] = Field([], max_length=16)
    last_decision: str | None = Field(None, max_length=1024)
    history: list[ScalingDecision] = Field([], max_length=10)


class Status(Schema):
    """What is, as the operator last saw it."""

    observed_generation: int | None = None
    url: str | None = Field(None, description="Base URL of the OpenAI API inside the cluster.")
    ready: str | None = Field(None, description="Ready and desired replicas, as in 2/3.")
    replicas: int | None = None
    ready_replicas: int | None = None
    draining_replicas: int | None = None
    unschedulable_replicas: int | None = None
    desired_replicas: int | None = None
    selector: str | None = Field(None, description="Label selector of the pods, for /scale.")
    revisions: Revisions | None = None
    autoscaling: AutoscalingStatus | None = None
    conditions: list[Condition] = Field(
        [],
        max_length=32,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )
