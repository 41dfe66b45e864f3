"""Every message that crosses between a front end (server, `LLM`) and the engine. Plain data, msgpack-encodable."""

from typing import Literal

import msgspec

from octavo_engine.sampling_params import SamplingParams

FinishReason = Literal["stop", "length", "abort", "error"]
ErrorCode = Literal["invalid_request", "queue_full", "internal"]


class AddRequest(msgspec.Struct, frozen=True, tag="add"):
    """`request_id` is unique per engine life: the front end makes it, never the client."""

    request_id: str
    prompt_token_ids: list[int]
    params: SamplingParams
    priority: int = 0


class AbortRequests(msgspec.Struct, frozen=True, tag="abort"):
    request_ids: list[str]


class Shutdown(msgspec.Struct, frozen=True, tag="shutdown"):
    pass


ToEngine = AddRequest | AbortRequests | Shutdown


class TokenEvent(msgspec.Struct, frozen=True, gc=False):
    """New tokens of one request. `finish_reason` is set on its last event; `stop_token_id` when a stop token ended it,
    which then is the last of `token_ids`. Nothing follows an abort: whoever asked for it has stopped listening.
    `started_at` is when its first step began, by `time.monotonic`, which all processes of a host share.
    """

    request_id: str
    token_ids: list[int]
    finish_reason: FinishReason | None = None
    stop_token_id: int | None = None
    num_cached_tokens: int = 0
    started_at: float = 0.0
    error: str | None = None
    error_code: ErrorCode | None = None


class EngineStats(msgspec.Struct, frozen=True):
    """The engine's state after a step. Counters (`…_total`) never go backwards. Blocks are physical KV blocks."""

    num_running: int = 0
    num_waiting: int = 0
    num_waiting_prompt_tokens: int = 0
    num_blocks: int = 0
    num_used_blocks: int = 0
    num_cached_blocks: int = 0
    block_size: int = 16
    steps_total: int = 0
    preemptions_total: int = 0
    prompt_tokens_total: int = 0
    generation_tokens_total: int = 0
    prefix_hit_tokens_total: int = 0
    prefix_miss_tokens_total: int = 0
    block_repairs_total: int = 0
    steps_shed_total: int = 0
    step_seconds: float = 0.0
    is_idle: bool = True


class EngineReady(msgspec.Struct, frozen=True, tag="ready"):
    """Loaded and warm. `max_model_len` is the effective limit in tokens."""

    model: str
    max_model_len: int
    vocab_size: int
    eos_token_ids: list[int]
    num_blocks: int
    block_size: int
    device: str
    dtype: str
    attention_backend: str


class StepOutputs(msgspec.Struct, frozen=True, tag="step"):
    events: list[TokenEvent]
    stats: EngineStats


class EngineFailed(msgspec.Struct, frozen=True, tag="failed"):
    """The engine ended; no further message follows."""

    error: str


FromEngine = EngineReady | StepOutputs | EngineFailed
