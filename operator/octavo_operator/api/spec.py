"""`spec` of an InferenceService: only fields that work, each with its rules."""

from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from octavo_operator.api.base import (
    Fraction,
    Name,
    OpenFraction,
    Quantity,
    Schema,
    rule,
    rules,
)

Profile = Literal["SingleGPU", "MultiGPU", "Chat", "LongDocument"]

# Flags that the operator renders from fields, or that its probes and drains rely on.
MANAGED_FLAGS = (
    "model",
    "served-model-name",
    "revision",
    "dtype",
    "device",
    "block-size",
    "gpu-memory-utilization",
    "kv-cache-memory-gib",
    "max-model-len",
    "max-num-seqs",
    "max-num-batched-tokens",
    "prefill-chunk-size",
    "enable-prefix-caching",
    "no-enable-prefix-caching",
    "enable-chunked-prefill",
    "no-enable-chunked-prefill",
    "drain-timeout",
    "host",
    "port",
    "admin-token",
    "config",
)


class SecretKeyRef(Schema):
    """A key of a Secret in the service's namespace."""

    name: Name = Field(description="Name of the Secret.")
    key: Name = Field("token", description="Key within the Secret.")


class Credentials(Schema):
    """What the model's source asks for."""

    secret_ref: SecretKeyRef = Field(
        description="Access token of the Hugging Face hub; mounted as a file, never an environment variable."
    )


class ModelSpec(Schema):
    """Which model is served, and where it comes from."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "self.uri.matches('^(bundled|file|pvc|hf)://')",
                "model.uri: use bundled://name, file:///path, pvc://claim/path or hf://org/name; "
                "other sources, s3:// and oci:// among them, are not supported",
            ),
            rule(
                "!self.uri.startsWith('bundled://') || self.uri.matches('^bundled://[a-z0-9]([a-z0-9._-]*[a-z0-9])?$')",
                "model.uri: bundled:// takes the name of a model inside the engine image, "
                "as in bundled://smollm2-135m-instruct",
            ),
            rule(
                "!self.uri.startsWith('file://') || self.uri.matches('^file:///[^/]')",
                "model.uri: file:// takes an absolute path inside the engine image, as in file:///models/mine",
            ),
            rule(
                "!self.uri.startsWith('pvc://') || self.uri.matches('^pvc://[a-z0-9]([a-z0-9.-]*[a-z0-9])?(/[^/]+)*$')",
                "model.uri: pvc:// takes a claim's name and a path within it, as in pvc://models/llama",
            ),
            rule(
                "!self.uri.startsWith('hf://') || self.uri.matches('^hf://[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+$')",
                "model.uri: hf:// takes organization and name, as in hf://HuggingFaceTB/SmolLM2-135M-Instruct",
            ),
            rule(
                "!self.uri.matches('(^|/)[.][.](/|$)')",
                "model.uri: '..' is not allowed in a path; name the directory itself",
            ),
            rule(
                "self.uri.startsWith('hf://') || !has(self.revision)",
                "model.revision: only hf:// has revisions; remove it",
            ),
            rule(
                "self.uri.startsWith('hf://') || !has(self.credentials)",
                "model.credentials: only hf:// takes a token; remove it",
            ),
        )
    )

    uri: str = Field(
        min_length=8,
        max_length=512,
        description="bundled://name, file:///path (both inside the engine image), pvc://claim/path or hf://org/name.",
    )
    revision: Annotated[str, Field(pattern=r"^[A-Za-z0-9._/-]+$", max_length=128)] | None = Field(
        None, description="Commit, tag or branch on the hub."
    )
    served_name: Annotated[str, Field(pattern=r"^[^\s]+$", max_length=128)] | None = Field(
        None, description="Name that API clients use; the service's own name when unset."
    )
    credentials: Credentials | None = None


class EnvVar(Schema):
    """An environment variable of the engine, from a value or from a Secret."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "!self.name.startsWith('OCTAVO_')",
                "engine.env: names that begin with OCTAVO_ are set by the operator; use the field or engine.args",
            ),
            rule(
                "!(self.name in ['HF_TOKEN', 'HUGGING_FACE_HUB_TOKEN', 'HF_TOKEN_PATH', 'HF_HOME'])",
                "engine.env: tokens come from model.credentials.secretRef, mounted as a file; remove this variable",
            ),
            rule(
                "has(self.value) != has(self.secretKeyRef)",
                "engine.env: give exactly one of value and secretKeyRef",
            ),
        )
    )

    name: str = Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=128)
    value: Annotated[str, Field(max_length=4096)] | None = None
    secret_key_ref: SecretKeyRef | None = None


_MANAGED = ", ".join(f"'{flag}'" for flag in MANAGED_FLAGS)


class EngineSpec(Schema):
    """How the engine runs. A field left unset keeps the profile's value, else the engine's own default."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                f"!has(self.args) || self.args.all(a, !a.startsWith('--') || "
                f"!(a.substring(2).split('=')[0].replace('_', '-') in [{_MANAGED}]))",
                "engine.args: this flag is set by the operator; use the field of the same name in "
                "model, engine or accelerator",
            ),
            rule(
                "!has(self.prefillChunkSize) || !has(self.enableChunkedPrefill) || self.enableChunkedPrefill",
                "engine.prefillChunkSize: needs engine.enableChunkedPrefill: true",
            ),
        )
    )

    image: Annotated[str, Field(pattern=r"^[^\s]+$", max_length=512)] | None = Field(
        None, description="Engine image; the operator's setting when unset."
    )
    profile: Profile | None = Field(
        None, description="Scheduler and memory settings proven for a kind of traffic; explicit fields win."
    )
    max_model_len: Annotated[int, Field(ge=1, le=16777216)] | None = Field(
        None, description="Longest prompt plus output, in tokens."
    )
    max_num_seqs: Annotated[int, Field(ge=1, le=4096)] | None = Field(
        None, description="Sequences that run at the same time."
    )
    max_num_batched_tokens: Annotated[int, Field(ge=1, le=16777216)] | None = Field(
        None, description="Token budget of one step, prefill and decode together."
    )
    block_size: Literal[8, 16, 32, 64] | None = Field(None, description="Tokens in one KV block.")
    gpu_memory_utilization: OpenFraction | None = Field(
        None, description='Share of GPU memory that the engine may use, as a string: "0.90".'
    )
    kv_cache_memory_gib: Annotated[str, Field(pattern=r"^([1-9][0-9]*|0?\.[0-9]+|[0-9]+\.[0-9]+)$", max_length=12)] | (
        None
    ) = Field(
        None,
        alias="kvCacheMemoryGiB",
        description='Memory of the KV cache on CPU, in GiB, as a string: "0.5".',
    )
    prefill_chunk_size: Annotated[int, Field(ge=1, le=16777216)] | None = Field(
        None, description="Most prompt tokens of one request in one step."
    )
    enable_prefix_caching: bool = Field(True, description="Reuse the KV blocks of equal prompt beginnings.")
    enable_chunked_prefill: bool = Field(True, description="Let a prompt be computed over several steps.")
    dtype: Literal["auto", "half", "float16", "bfloat16", "float32"] | None = Field(
        None, description="Type of weights and activations."
    )
    args: list[Annotated[str, Field(min_length=1, max_length=1024)]] = Field(
        [], max_length=64, description="Further flags of the engine."
    )
    env: list[EnvVar] = Field([], max_length=64, description="Further environment variables of the engine.")
    drain_timeout_seconds: int = Field(
        120, ge=1, le=86400, description="How long a replica that leaves may take to finish its requests."
    )


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
        None, description="Value of the node label <vendor>/gpu.product, as in NVIDIA-H200."
    )


class ResourceList(Schema):
    """Amounts of the two resources that a container can be given."""

    cpu: Quantity | None = None
    memory: Quantity | None = None


class ResourcesSpec(Schema):
    """Requests and limits of the engine container. Given, it replaces the defaults as a whole."""

    requests: ResourceList = ResourceList()
    limits: ResourceList = ResourceList()


class Targets(Schema):
    """Load that one replica should carry."""

    kv_cache_utilization: OpenFraction = Field("0.75", description="Share of the KV cache in use.")
    waiting_per_replica: Annotated[int, Field(ge=1, le=100000)] = Field(2, description="Requests that wait.")
    concurrency_per_replica: Annotated[int, Field(ge=1, le=100000)] | None = Field(
        None, description="Requests that run or wait."
    )


class MetricsSpec(Schema):
    """How the engines are asked for their load."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "self.staleAfterSeconds >= self.scrapeIntervalSeconds",
                "autoscaling.metrics.staleAfterSeconds: must not be below scrapeIntervalSeconds",
            )
        )
    )

    scrape_interval_seconds: int = Field(5, ge=1, le=300)
    stale_after_seconds: int = Field(15, ge=1, le=3600)


class ScaleUpSpec(Schema):
    """How fast replicas are added."""

    tolerance: Fraction = Field("0.10", description="Load above target that is left alone, as a share.")
    stabilization_seconds: int = Field(0, ge=0, le=3600)
    max_percent: int = Field(100, ge=1, le=10000, description="Most growth in one period, percent of replicas.")
    max_pods: int = Field(4, ge=1, le=1000, description="Most growth in one period, replicas.")
    period_seconds: int = Field(15, ge=1, le=1800)


class ScaleDownSpec(Schema):
    """How fast replicas are removed."""

    tolerance: Fraction = Field("0.20", description="Load below target that is left alone, as a share.")
    stabilization_seconds: int = Field(300, ge=0, le=3600)
    max_pods: int = Field(1, ge=1, le=1000, description="Most replicas removed in one period.")
    period_seconds: int = Field(60, ge=1, le=1800)


class AutoscalingSpec(Schema):
    """Scaling on the engines' own KV-cache use and queues."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "self.minReplicas <= self.maxReplicas",
                "autoscaling.minReplicas: must not be above maxReplicas",
            ),
        )
    )

    mode: Literal["Auto", "Advisory", "External"] = Field(
        "Auto",
        description="Auto decides and acts. Advisory decides and reports, spec.replicas acts. "
        "External reports metrics; something else writes spec.replicas through /scale.",
    )
    min_replicas: int = Field(1, ge=1, le=1000)
    max_replicas: int = Field(ge=1, le=1000)
    targets: Targets = Targets()
    metrics: MetricsSpec = MetricsSpec()
    scale_up: ScaleUpSpec = ScaleUpSpec()
    scale_down: ScaleDownSpec = ScaleDownSpec()


class Toleration(Schema):
    """A taint that the pods tolerate; fields as in a Pod."""

    key: Annotated[str, Field(max_length=317)] | None = None
    operator: Literal["Exists", "Equal"] | None = None
    value: Annotated[str, Field(max_length=63)] | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    toleration_seconds: int | None = None


class SchedulingSpec(Schema):
    """Where the pods may run; fields as in a Pod."""

    node_selector: dict[str, Annotated[str, Field(max_length=63)]] = Field({}, max_length=32)
    tolerations: list[Toleration] = Field([], max_length=32)
    priority_class_name: Name | None = None
    runtime_class_name: Name | None = None


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
