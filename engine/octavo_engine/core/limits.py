"""What can run at all, whatever else runs."""

from octavo_engine.config import EngineConfig
from octavo_engine.core.request import Request
from octavo_engine.errors import ConfigError, InvalidRequest


class Limits:
    """`max_model_len` is in tokens: the model's limit or all KV blocks, whichever is less."""

    def __init__(self, config: EngineConfig, num_blocks: int, max_model_len: int) -> None:
        self.max_model_len = min(max_model_len, num_blocks * config.block_size)
        if not config.enable_chunked_prefill and config.max_num_batched_tokens < self.max_model_len:
            raise ConfigError(
                "without chunked prefill a prompt is computed in one step, so max_num_batched_tokens"
                f" {config.max_num_batched_tokens} must be at least the context of {self.max_model_len} tokens;"
                " raise it, lower max_model_len or enable chunked prefill"
            )

    def check(self, request: Request) -> None:
        """Raise InvalidRequest if the request could never run."""
        if request.num_prompt_tokens == 0:
            raise InvalidRequest("the prompt is empty; send at least one token", field="prompt")
        if request.params.max_tokens < 1:
            raise InvalidRequest(f"max_tokens must be at least 1, got {request.params.max_tokens}", field="max_tokens")
        if request.max_num_tokens > self.max_model_len:
            raise InvalidRequest(
                f"{request.num_prompt_tokens} prompt tokens + max_tokens {request.params.max_tokens} exceed the limit"
                f" of {self.max_model_len} tokens; shorten the prompt or lower max_tokens",
                field="max_tokens",
                code="context_length_exceeded",
            )
