"""What `LLM` and `AsyncLLM` share: one request of theirs, from checking it to the text of its answer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from octavo_engine.config import EngineConfig
from octavo_engine.errors import ConfigError
from octavo_engine.messages import AddRequest, EngineReady, FinishReason, TokenEvent
from octavo_engine.sampling_params import SamplingParams
from octavo_engine.tokenizer import IncrementalDetokenizer, Tokenizer


@dataclass(slots=True)
class CompletionOutput:
    """One answer. `stop_reason` is the stop string or stop token id that ended it; None for the model's own end.

    A request that the engine fails has the finish reason `error` and the reason in `error`; the others go on.
    """

    text: str = ""
    token_ids: list[int] = field(default_factory=list)
    finish_reason: FinishReason | None = None
    stop_reason: str | int | None = None
    error: str | None = None


@dataclass(slots=True)
class RequestOutput:
    """A prompt and its answers; `prompt` is None when it came as token ids."""

    prompt: str | None
    prompt_token_ids: list[int]
    outputs: list[CompletionOutput]
    num_cached_tokens: int = 0


class Job:
    """One request of a call: its tokens as they come, turned into text."""

    def __init__(
        self,
        request_id: str,
        prompt: list[int],
        text: str | None,
        params: SamplingParams,
        tokenizer: Tokenizer,
        eos_token_ids: Sequence[int],
    ) -> None:
        self.request_id = request_id
        self.request = AddRequest(request_id, prompt, params)
        self.output = RequestOutput(text, prompt, [CompletionOutput()])
        self._shows_stop = params.include_stop_str_in_output
        self._plain_ends = frozenset(eos_token_ids) - frozenset(params.stop_token_ids)
        self._detokenizer: IncrementalDetokenizer = tokenizer.detokenizer(params.stop, self._shows_stop)

    def read(self, event: TokenEvent) -> bool:
        """Take in an event; says whether the answer has ended."""
        answer = self.output.outputs[0]
        self.output.num_cached_tokens = event.num_cached_tokens
        answer.token_ids += event.token_ids
        is_hidden = event.stop_token_id is not None and not self._shows_stop
        answer.text += self._detokenizer.push(event.token_ids[:-1] if is_hidden else event.token_ids)
        if event.finish_reason and self._detokenizer.stop_reason is None:
            answer.text += self._detokenizer.flush()
        if self._detokenizer.stop_reason is not None:
            answer.finish_reason, answer.stop_reason = "stop", self._detokenizer.stop_reason
        elif event.finish_reason:
            answer.finish_reason, answer.error = event.finish_reason, event.error
            answer.stop_reason = None if event.stop_token_id in self._plain_ends else event.stop_token_id
        return answer.finish_reason is not None


def make_config(model: str | EngineConfig, overrides: Mapping[str, Any]) -> EngineConfig:
    fields = model.model_dump(exclude_unset=True) if isinstance(model, EngineConfig) else {"model": model}
    try:
        return EngineConfig.model_validate({**fields, **overrides})
    except ValueError as error:
        raise ConfigError(str(error)) from error


def problem_with(prompt: list[int], params: SamplingParams, ready: EngineReady) -> str | None:
    """Why the engine could not run this, in words; None if it can."""
    limit = min(ready.max_model_len, ready.num_blocks * ready.block_size)
    if problem := params.problem():
        return problem
    if not prompt:
        return "it is empty; give at least one token"
    if outside := [token_id for token_id in prompt if not 0 <= token_id < ready.vocab_size]:
        return f"token id {outside[0]} is outside the vocabulary of {ready.vocab_size} tokens"
    if len(prompt) + params.max_tokens > limit:
        return f"{len(prompt)} tokens + max_tokens {params.max_tokens} exceed the limit of {limit} tokens"
    return None
