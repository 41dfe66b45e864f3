"""Chooses the next tokens of a whole batch at once."""

from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from octavo_engine.attention.interface import IntArray
from octavo_engine.runner.random_stream import Keys, uniform

_NUM_CANDIDATES = 1024
_CHUNK = 256


@dataclass(frozen=True, slots=True)
class SamplingRows:
    """Parameters of the rows to sample, as parallel arrays. `top_k` 0 is no limit; `num_draws` counts earlier draws."""

    temperature: NDArray[np.float32]
    top_p: NDArray[np.float32]
    top_k: IntArray
    stream_key: Keys
    num_draws: IntArray

    def select(self, index: IntArray) -> Self:
        return type(self)(
            self.temperature[index],
            self.top_p[index],
            self.top_k[index],
            self.stream_key[index],
            self.num_draws[index],
        )


def sample(logits: Tensor, rows: SamplingRows) -> IntArray:
    """Token ids (num_rows,) from logits (num_rows, vocab_size) of any float dtype; -1 where they are not finite.

    A row's token is a function of its own logits and parameters only.
    """
    best, token_ids = logits.max(dim=-1)
    chosen = torch.where(best.isfinite(), token_ids, -1).numpy()
    random = np.flatnonzero((rows.temperature > 0) & (chosen >= 0))
    if random.size:
        chosen[random] = _draw(logits[random], best[random], rows.select(random))
    return chosen


def _draw(logits: Tensor, best: Tensor, rows: SamplingRows) -> IntArray:
    """Subtracting the largest logit first keeps every temperature from overflowing."""
    distances = logits.float() - best.float().unsqueeze(1)
    weights = (distances / torch.from_numpy(rows.temperature).unsqueeze(1)).exp_()
    limited = np.flatnonzero((rows.top_k > 0) | (rows.top_p < 1))
    if limited.size:
        _drop_unlikely(weights, limited, rows)
    return _invert_cumulative(weights, torch.from_numpy(uniform(rows.stream_key, rows.num_draws))).numpy()


def _drop_unlikely(weights: Tensor, limited: IntArray, rows: SamplingRows) -> None:
    """Sets to zero, in place, what top-k and then top-p exclude. Tokens as likely as the last kept one stay too."""
    vocab_size = weights.shape[1]
    own = rows.select(limited)
    top_k = np.where(own.top_k > 0, np.minimum(own.top_k, vocab_size), vocab_size)
    num_candidates = min(vocab_size, max(_NUM_CANDIDATES, int(own.top_k.max())))
    threshold, is_certain = _thresholds(weights[limited], top_k, own.top_p, num_candidates)
    if not is_certain.all():
        uncertain = np.flatnonzero(~is_certain)
        threshold[uncertain] = _thresholds(
            weights[limited[uncertain]], top_k[uncertain], own.top_p[uncertain], vocab_size
        )[0]
    part = weights[limited]
    weights[limited] = part.masked_fill_(part < threshold.unsqueeze(1), 0.0)


def _thresholds(
    weights: Tensor, top_k: IntArray, top_p: NDArray[np.float32], num_candidates: int
) -> tuple[Tensor, NDArray[np.bool_]]:
    """Each row's smallest kept weight, and whether `num_candidates` of the largest sufficed to find it."""
    candidates = weights.topk(num_candidates, dim=-1).values.double()
    limit = torch.from_numpy(top_k).unsqueeze(1)
    candidates.masked_fill_(torch.arange(num_candidates) >= limit, 0.0)
    cumulative = candidates.cumsum(dim=-1)
    is_counted = torch.from_numpy(top_k <= num_candidates)
    total = torch.where(is_counted, cumulative[:, -1], weights.sum(dim=-1, dtype=torch.float64))
    wanted = (torch.from_numpy(top_p).double() * total).unsqueeze(1)
    num_kept = ((cumulative - candidates < wanted).sum(dim=-1, keepdim=True)).minimum(limit).clamp_(min=1)
    threshold = candidates.gather(1, num_kept - 1).squeeze(1).float()
    is_certain = is_counted | (cumulative[:, -1] >= wanted.squeeze(1))
    return threshold, is_certain.numpy()


def _invert_cumulative(weights: Tensor, uniform: Tensor) -> Tensor:
    """The token, in the order of ids, at which the cumulative weight passes the share `uniform` of the total.

    Two levels, sums of chunks and then one chunk, need no cumulative sum over the vocabulary.
    """
    padding = -weights.shape[1] % _CHUNK
    chunks = torch.nn.functional.pad(weights, (0, padding)).view(weights.shape[0], -1, _CHUNK)
    before, chunk = _pass(chunks.sum(dim=-1, dtype=torch.float64), uniform, is_share=True)
    within = chunks[torch.arange(len(chunks)), chunk]
    _, offset = _pass(within.double(), before, is_share=False)
    return chunk * _CHUNK + offset


def _pass(weights: Tensor, point: Tensor, is_share: bool) -> tuple[Tensor, Tensor]:
    """(what remains of `point` before it, index) of the weight at which the cumulative sum passes `point`."""
    cumulative = weights.cumsum(dim=-1)
    total = cumulative[:, -1:]
    target = point.unsqueeze(1) * total if is_share else point.unsqueeze(1)
    target = target.minimum(torch.nextafter(total, torch.zeros_like(total)))
    index = torch.searchsorted(cumulative, target, right=True)
    before = target - (cumulative.gather(1, index) - weights.gather(1, index))
    return before.squeeze(1), index.squeeze(1)
