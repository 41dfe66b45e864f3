"""`spec.accelerator`, `spec.resources` and `spec.scheduling`: what a pod computes on, and where."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from octavo_operator.api.base import Name, Quantity, Schema, rule, rules


class AcceleratorSpec(Schema):
    """What the engine computes on: a GPU, or the CPU when count is 0."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "!has(self.product) || self.count > 0",
                "accelerator.product: needs accelerator.count: 1",
            ),
        )
    )

    resource_name: str = Field(
        "nvidia.com/gpu",
        pattern=r"^[a-z0-9.-]+/[A-Za-z0-9._-]+$",
        max_length=253,
        description="Extended resource that the device plugin advertises.",
    )
    count: int = Field(
        0, ge=0, le=1, description="Accelerators of one replica; 0 is CPU. One engine computes on one accelerator."
    )
    product: Annotated[str, Field(pattern=r"^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$", max_length=63)] | None = Field(
        None, description="Value of the node label RESOURCE.product, as in nvidia.com/gpu.product: NVIDIA-H200."
    )


class ResourceList(Schema):
    """Amounts of the two resources that a container can be given."""

    cpu: Quantity | None = Field(None, description="Cores, as in 2 or 500m.")
    memory: Quantity | None = Field(None, description="Bytes, as in 4Gi.")


class ResourcesSpec(Schema):
    """Requests and limits of the engine container. Given, it replaces the defaults as a whole."""

    requests: ResourceList = ResourceList()
    limits: ResourceList = ResourceList()


class Toleration(Schema):
    """A taint that the pods tolerate; fields as in a Pod."""

    key: Annotated[str, Field(max_length=317)] | None = Field(
        None, description="Key of the taint; all keys when unset and operator is Exists."
    )
    operator: Literal["Exists", "Equal"] | None = Field(
        None, description="Exists, or Equal (the default) to compare the value."
    )
    value: Annotated[str, Field(max_length=63)] | None = Field(None, description="Value of the taint.")
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = Field(
        None, description="Effect of the taint; all effects when unset."
    )
    toleration_seconds: int | None = Field(
        None, description="How long a NoExecute taint is tolerated; for ever when unset."
    )


class SchedulingSpec(Schema):
    """Where the pods may run; fields as in a Pod."""

    node_selector: dict[str, Annotated[str, Field(max_length=63)]] = Field(
        {}, max_length=32, description="Labels that a node must have."
    )
    tolerations: list[Toleration] = Field([], max_length=32, description="Taints that the pods tolerate.")
    priority_class_name: Name | None = Field(None, description="PriorityClass of the pods.")
    runtime_class_name: Name | None = Field(None, description="RuntimeClass of the pods.")
