"""The engine's configuration: one typed model is the source of flags, environment variables and YAML file."""

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

CPU_BATCHED_TOKENS = 512
"""A step of a CPU takes as long as its tokens, and every stream waits for the step to end."""

DType = Literal["auto", "half", "float16", "bfloat16", "float32"]


class SchedulerConfig(BaseModel):
    """Limits of one step. All counts are of sequences or tokens."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    max_num_seqs: int = Field(256, ge=1, le=4096, description="sequences that may run at the same time")
    max_num_batched_tokens: int = Field(
        8192, ge=1, description="token budget of one step, prefill and decode together; on a CPU 512 unless set"
    )
    enable_chunked_prefill: bool = Field(True, description="let a prompt be computed over several steps")
    prefill_chunk_size: int | None = Field(None, ge=1, description="most prompt tokens of one request in one step")
    max_num_waiting: int = Field(1024, ge=0, description="requests that may wait; beyond it a request gets 429")
    max_waiting_tokens: int = Field(4_000_000, ge=1, description="prompt tokens that may wait; beyond it 429")

    @model_validator(mode="after")
    def _check_limits(self) -> Self:
        if self.max_num_batched_tokens < self.max_num_seqs:
            raise ValueError(
                f"max_num_batched_tokens ({self.max_num_batched_tokens}) must be at least max_num_seqs"
                f" ({self.max_num_seqs}), for every running sequence takes one token of a step; raise it or lower"
                " max_num_seqs"
            )
        if self.prefill_chunk_size and not self.enable_chunked_prefill:
            raise ValueError("prefill_chunk_size needs enable_chunked_prefill; enable it or leave the size unset")
        return self


class EngineConfig(SchedulerConfig):
    """Everything that one engine needs to start."""

    model: str = Field(description="model directory, bundled://name, file:///path, pvc-mounted path or hf://org/name")
    served_model_name: str | None = Field(None, description="name that API clients use; the model's own when unset")
    tokenizer: str | None = Field(None, description="directory with tokenizer.json; the model's own when unset")
    revision: str | None = Field(None, description="commit, tag or branch of a model from the hub")
    dtype: DType = Field("auto", description="weights and activations; auto takes the checkpoint's")
    load_format: Literal["auto", "safetensors", "dummy"] = Field(
        "auto", description="dummy makes random weights of the model's shape, for benchmarks"
    )
    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="auto takes CUDA when there is a GPU")
    num_threads: int | None = Field(None, ge=1, description="CPU threads; from the CPU quota when unset")
    block_size: Literal[8, 16, 32, 64] = Field(16, description="tokens in one KV block")
    gpu_memory_utilization: float = Field(0.90, gt=0, lt=1, description="share of GPU memory that the engine may use")
    kv_cache_memory_gib: float | None = Field(
        None, gt=0, description="KV cache on CPU, GiB; from the memory limit when unset"
    )
    max_model_len: int | None = Field(
        None, ge=2, description="longest prompt plus output, tokens; the model's own when unset"
    )
    enable_prefix_caching: bool = Field(True, description="reuse the KV blocks of equal prompt beginnings")
    seed: int = Field(
        0, ge=0, lt=2**63, description="seed of the engine itself (random weights in tests); requests carry their own"
    )

    def for_device(self, device: str) -> Self:
        """With the token budget that suits the device, unless one was set or prompts may not be cut."""
        is_set = "max_num_batched_tokens" in self.model_fields_set
        if device != "cpu" or is_set or not self.enable_chunked_prefill:
            return self
        return self.model_copy(update={"max_num_batched_tokens": max(CPU_BATCHED_TOKENS, self.max_num_seqs)})
