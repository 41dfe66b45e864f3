"""Chooses the next tokens of a whole batch at once."""

from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from octavo_engine.attention.interface import IntArray
from octavo_engine.runner.random_stream import Keys, uniform

_NUM_CANDIDATES = (64, 1024)
"""The likeliest tokens looked at first for top-k and top-p, and next if those do not suffice; then all."""
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
        chosen[random] = _draw(_select(logits, random), best[random], rows.select(random))
    return chosen


def _draw(logits: Tensor, best: Tensor, rows: SamplingRows) -> IntArray:
    """Subtracting the largest logit first keeps every temperature from overflowing."""
    weights = logits.float() - best.float().unsqueeze(1)
    weights = weights.div_(torch.from_numpy(rows.temperature).unsqueeze(1)).exp_()
    shares = torch.from_numpy(uniform(rows.stream_key, rows.num_draws))
    is_limited = (rows.top_k > 0) | (rows.top_p < 1)
    token_ids = np.empty(len(weights), dtype=np.int64)
    if (free := np.flatnonzero(~is_limited)).size:
        token_ids[free] = _invert_cumulative(_select(weights, free), shares[free]).numpy()
    if (limited := np.flatnonzero(is_limited)).size:
        token_ids[limited] = _draw_limited(_select(weights, limited), shares[limited], rows.select(limited))
    return token_ids


def _draw_limited(weights: Tensor, shares: Tensor, rows: SamplingRows) -> IntArray:
    """How many candidates a row needs is its own affair, so that those of equal weight keep their order."""
    token_ids = np.empty(len(weights), dtype=np.int64)
    left = np.arange(len(weights))
    for num_candidates in (*_NUM_CANDIDATES, weights.shape[1]):
        if not left.size:
            break
        chosen, is_certain = _draw_among(_select(weights, left), shares[left], rows.select(left), num_candidates)
        token_ids[left[is_certain]] = chosen[is_certain]
        left = left[~is_certain]
    return token_ids


def _draw_among(
    weights: Tensor, shares: Tensor, rows: SamplingRows, num_candidates: int
) -> tuple[IntArray, NDArray[np.bool_]]:
    """(token ids, whether that many candidates sufficed) for top-k and then top-p."""
    vocab_size = weights.shape[1]
    candidates, candidate_ids = weights.topk(min(num_candidates, vocab_size), dim=-1)
    top_k = np.where(rows.top_k > 0, np.minimum(rows.top_k, vocab_size), vocab_size)
    is_counted = torch.from_numpy(top_k <= candidates.shape[1])
    limit = torch.from_numpy(top_k).unsqueeze(1)
    cumulative = candidates.double().masked_fill_(torch.arange(candidates.shape[1]) >= limit, 0.0).cumsum(dim=-1)
    total = torch.where(is_counted, cumulative[:, -1], _sum(weights)).unsqueeze(1)
    wanted = torch.from_numpy(rows.top_p).double().unsqueeze(1) * total
    num_kept = (cumulative < wanted).sum(dim=-1, keepdim=True).add_(1).minimum(limit)
    is_certain = is_counted | (cumulative[:, -1:] >= wanted).squeeze(1)
    kept = cumulative.gather(1, (num_kept - 1).clamp_(max=candidates.shape[1] - 1))
    index = torch.searchsorted(cumulative, (shares.unsqueeze(1) * kept).minimum(_just_below(kept)), right=True)
    return candidate_ids.gather(1, index).squeeze(1).numpy(), is_certain.numpy()


def _invert_cumulative(weights: Tensor, shares: Tensor) -> Tensor:
    """The token, in the order of ids, at which the cumulative weight passes the share of the total.

    Two levels, sums of chunks and then one chunk, need no cumulative sum over the vocabulary.
    """
    chunks = _chunks(weights)
    sums = chunks.sum(dim=-1).double()
    point, chunk = _pass(sums, shares.unsqueeze(1) * sums.sum(dim=-1, keepdim=True))
    _, offset = _pass(chunks[torch.arange(len(chunks)), chunk].double(), point.unsqueeze(1))
    return chunk * _CHUNK + offset


def _pass(weights: Tensor, point: Tensor) -> tuple[Tensor, Tensor]:
    """(what is left of `point` there, index) of the weight at which the cumulative sum passes `point`."""
    cumulative = weights.cumsum(dim=-1)
    point = point.minimum(_just_below(cumulative[:, -1:]))
    index = torch.searchsorted(cumulative, point, right=True)
    left = point - (cumulative.gather(1, index) - weights.gather(1, index))
    return left.squeeze(1), index.squeeze(1)


def _just_below(values: Tensor) -> Tensor:
    return torch.nextafter(values, torch.zeros_like(values))


def _chunks(weights: Tensor) -> Tensor:
    """(num_rows, num_chunks, _CHUNK), padded with zeros."""
    padding = -weights.shape[1] % _CHUNK
    padded = F.pad(weights, (0, padding)) if padding else weights
    return padded.view(len(weights), -1, _CHUNK)


def _sum(weights: Tensor) -> Tensor:
    """Of each row, in float64; chunks first, for long float32 sums are slow in one way and inexact in the other."""
    return _chunks(weights).sum(dim=-1).sum(dim=-1, dtype=torch.float64)


def _select(weights: Tensor, rows: IntArray) -> Tensor:
    return weights if len(rows) == len(weights) else weights[rows]
