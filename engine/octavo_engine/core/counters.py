"""Totals since the start."""

from dataclasses import dataclass

from octavo_engine.core.request import Request


@dataclass(slots=True)
class Counters:
    """They never go backwards. A prompt counts once, when it first starts, however often it is recomputed."""

    preemptions: int = 0
    prompt_tokens: int = 0
    generation_tokens: int = 0
    prefix_hit_tokens: int = 0
    prefix_miss_tokens: int = 0

    def count_start(self, request: Request) -> None:
        """To be called when the request has its blocks, and only what the cache had is computed."""
        num_cached = request.num_computed_tokens
        self.prompt_tokens += request.num_prompt_tokens
        self.prefix_hit_tokens += num_cached
        self.prefix_miss_tokens += request.num_prompt_tokens - num_cached
