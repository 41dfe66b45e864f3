"""`spec.engine`: how the engine runs."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from octavo_operator.api.base import OpenFraction, Schema, rule, rules
from octavo_operator.api.model import SecretKeyRef

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

    name: str = Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=128, description="Name of the variable.")
    value: Annotated[str, Field(max_length=4096)] | None = Field(None, description="Its value.")
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
    max_model_len: Annotated[int, Field(ge=2, le=16777216)] | None = Field(
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
