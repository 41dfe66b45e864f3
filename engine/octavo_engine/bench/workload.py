"""What is asked: prompts of exact length with a share of common beginnings."""

import random
from dataclasses import dataclass

from octavo_engine.bench.lengths import parse_lengths

_TEXT = """
time year people way day thing world life hand part child eye woman place work week case point company number group
problem fact water house story book river road letter garden window summer morning paper music
"""
WORDS = _TEXT.split()


@dataclass(frozen=True)
class Workload:
    """How prompts are made. Lengths as `parse_lengths` reads them; token ids are drawn from [id_low, id_high)."""

    num_prompts: int = 32
    input_len: str = "128"
    output_len: str = "64"
    prefix_share: float = 0.0
    num_prefixes: int = 1
    id_low: int = 1000
    id_high: int = 30000
    seed: int = 0


@dataclass(frozen=True)
class Prompt:
    """`token_ids` for completions; `text` of about as many words for chats."""

    token_ids: list[int]
    max_tokens: int

    @property
    def text(self) -> str:
        return " ".join(WORDS[token_id % len(WORDS)] for token_id in self.token_ids)


def make_prompts(workload: Workload) -> list[Prompt]:
    """Equal workloads make equal prompts."""
    rng = random.Random(workload.seed)
    input_len, output_len = parse_lengths(workload.input_len), parse_lengths(workload.output_len)
    lengths = [(input_len(rng), output_len(rng)) for _ in range(workload.num_prompts)]
    longest = max((num_in for num_in, _ in lengths), default=0)
    prefixes = [_draw(rng, workload, round(longest * workload.prefix_share)) for _ in range(workload.num_prefixes)]
    return [Prompt(_with_prefix(rng, workload, rng.choice(prefixes), num_in), num_out) for num_in, num_out in lengths]


def _with_prefix(rng: random.Random, workload: Workload, prefix: list[int], length: int) -> list[int]:
    head = prefix[: round(length * workload.prefix_share)]
    return head + _draw(rng, workload, length - len(head))


def _draw(rng: random.Random, workload: Workload, length: int) -> list[int]:
    return [rng.randrange(workload.id_low, workload.id_high) for _ in range(length)]
