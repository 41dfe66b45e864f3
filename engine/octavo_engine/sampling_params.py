"""How one request wants its tokens chosen."""

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
