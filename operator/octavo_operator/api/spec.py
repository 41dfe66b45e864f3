"""`spec` of an InferenceService: only fields that work, each with its rules."""

from typing import Annotated, Self

from pydantic import ConfigDict, Field, model_validator

from octavo_operator.api.autoscaling import AutoscalingSpec
from octavo_operator.api.base import Schema, rule, rules
from octavo_operator.api.engine import EngineSpec
from octavo_operator.api.model import ModelSpec
from octavo_operator.api.placement import AcceleratorSpec, ResourcesSpec, SchedulingSpec


class Spec(Schema):
    """What is to be served, how, and how many times."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "!has(self.replicas) || !has(self.autoscaling) || self.autoscaling.mode != 'Auto'",
                "spec.replicas: the autoscaler owns it in autoscaling.mode Auto; set autoscaling.minReplicas and "
                "maxReplicas, or mode External to let something else scale",
            ),
            rule(
                "!has(self.engine) || !has(self.engine.gpuMemoryUtilization) || "
                "(has(self.accelerator) && self.accelerator.count > 0)",
                "engine.gpuMemoryUtilization: needs accelerator.count: 1; on CPU use engine.kvCacheMemoryGiB",
            ),
            rule(
                "!has(self.engine) || !has(self.engine.kvCacheMemoryGiB) || "
                "!has(self.accelerator) || self.accelerator.count == 0",
                "engine.kvCacheMemoryGiB: is for CPU; on a GPU use engine.gpuMemoryUtilization",
            ),
        )
    )

    model: ModelSpec
    engine: EngineSpec = EngineSpec()
    accelerator: AcceleratorSpec = AcceleratorSpec()
    resources: ResourcesSpec | None = None
    replicas: Annotated[int, Field(ge=0, le=1000)] | None = Field(
        None,
        description="Number of replicas, 1 when unset. `kubectl scale` and other autoscalers change it once it is set.",
    )
    suspend: bool = Field(False, description="Run no pods and keep everything else.")
    autoscaling: AutoscalingSpec | None = None
    scheduling: SchedulingSpec = SchedulingSpec()

    @model_validator(mode="after")
    def _replicas_have_one_owner(self) -> Self:
        if self.replicas is not None and self.autoscaling is not None and self.autoscaling.mode == "Auto":
            raise ValueError("spec.replicas: the autoscaler owns it in autoscaling.mode Auto; remove it")
        return self
