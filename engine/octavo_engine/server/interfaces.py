"""What the server needs from the engine and the tokenizer. Tests pass fakes of these."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Protocol

from octavo_engine.errors import EngineDead
from octavo_engine.messages import EngineReady, EngineStats, TokenEvent
from octavo_engine.sampling_params import SamplingParams


class TokenEvents(Protocol):
    """The events of one request. Raises InvalidRequest, QueueFull, RequestFailed or EngineDead. Closing it aborts."""

    def __aiter__(self) -> AsyncIterator[TokenEvent]: ...

    async def aclose(self) -> None: ...


class Engine(Protocol):
    """One running engine, seen from the event loop."""

    on_step: Callable[[EngineStats], None]
    """Called after each step."""

    @property
    def ready(self) -> EngineReady: ...

    @property
    def stats(self) -> EngineStats: ...

    @property
    def is_alive(self) -> bool: ...

    @property
    def seconds_since_progress(self) -> float:
        """How long the step counter has stood still although requests are open; 0 when there is nothing to do."""
        ...

    def generate(self, prompt_token_ids: list[int], params: SamplingParams, *, priority: int = 0) -> TokenEvents: ...

    async def wait_dead(self) -> EngineDead:
        """Wait until the engine has ended, and say why."""
        ...

    async def close(self, grace_seconds: float = 10.0) -> None:
        """End the engine; open streams get EngineDead."""
        ...


class Detokenizer(Protocol):
    """Text of one growing sequence: whole characters only, stop strings held back."""

    @property
    def stop_reason(self) -> str | None:
        """The stop string that ended the text."""
        ...

    def push(self, token_ids: Sequence[int]) -> str: ...

    def flush(self) -> str: ...


class Tokenizer(Protocol):
    @property
    def has_chat_template(self) -> bool: ...

    @property
    def max_chars_per_token(self) -> int:
        """No token covers more characters of a text than this."""
        ...

    def encode(self, text: str) -> list[int]: ...

    def decode(self, token_ids: Sequence[int]) -> str: ...

    def apply_chat_template(self, messages: Sequence[Mapping[str, str]]) -> list[int]: ...

    def detokenizer(self, stop: Sequence[str], include_stop: bool) -> Detokenizer: ...
