"""How one request wants its tokens chosen."""

import math

import msgspec


class SamplingParams(msgspec.Struct, frozen=True, kw_only=True):
    """Validated by whoever builds it (the server answers 400, `LLM` raises `InvalidRequest`); the engine trusts it.

    `temperature` 0 is greedy. `top_k` 0 means all tokens. Without `seed` every request draws fresh entropy.
    `stop` strings are matched where text is made (the front end), which then aborts the request.
    """

    max_tokens: int = 16
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int | None = None
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    include_stop_str_in_output: bool = False
    ignore_eos: bool = False

    @property
    def is_greedy(self) -> bool:
        return self.temperature == 0.0

    def problem(self) -> str | None:
        """What is wrong with it, in words; None if nothing is."""
        if self.max_tokens < 1:
            return f"max_tokens must be at least 1, got {self.max_tokens}"
        if not (math.isfinite(self.temperature) and self.temperature >= 0):
            return f"temperature must be 0 or more, got {self.temperature}"
        if not 0 < self.top_p <= 1:
            return f"top_p must be above 0 and at most 1, got {self.top_p}"
        if self.top_k < 0:
            return f"top_k must be 0 (all tokens) or more, got {self.top_k}"
        if isinstance(self.stop, str) or not all(self.stop):
            return f"stop must be a tuple of strings that are not empty, got {self.stop!r}"
        return None
