from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from octavo_engine.runner.random_stream import stream_key, uniform
from octavo_engine.runner.sampler import SamplingRows, sample


def rows(
    num_rows: int,
    temperature: Any = 1.0,
    top_p: Any = 1.0,
    top_k: Any = 0,
    seed: Any = 0,
    num_draws: Any = 0,
) -> SamplingRows:
    seeds = np.broadcast_to(seed, num_rows)
    return SamplingRows(
        temperature=np.broadcast_to(temperature, num_rows).astype(np.float32),
        top_p=np.broadcast_to(top_p, num_rows).astype(np.float32),
        top_k=np.broadcast_to(top_k, num_rows).astype(np.int64),
        stream_key=np.array([stream_key(int(seed)) for seed in seeds]),
        num_draws=np.broadcast_to(num_draws, num_rows).astype(np.int64),
    )


def random_logits(num_rows: int, vocab_size: int, seed: int = 0, scale: float = 3.0) -> torch.Tensor:
    return torch.randn(num_rows, vocab_size, generator=torch.Generator().manual_seed(seed)) * scale


def frequencies(logits: torch.Tensor, num_samples: int = 2000, **params: Any) -> np.ndarray[Any, Any]:
    repeated = logits.expand(num_samples, -1)
    tokens = sample(repeated, rows(num_samples, seed=7, num_draws=np.arange(num_samples), **params))
    return np.bincount(tokens, minlength=logits.shape[-1]) / num_samples


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_temperature_zero_takes_the_likeliest_token(dtype: torch.dtype) -> None:
    logits = random_logits(5, 1000).to(dtype)
    assert sample(logits, rows(5, temperature=0.0)).tolist() == logits.argmax(-1).tolist()


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_tokens_are_as_frequent_as_their_probabilities(temperature: float) -> None:
    logits = random_logits(1, 300, scale=1.0)
    wanted = (logits / temperature).softmax(-1)[0].numpy()
    np.testing.assert_allclose(frequencies(logits, 20_000, temperature=temperature), wanted, atol=0.005)


def test_top_k_keeps_the_k_likeliest() -> None:
    logits = random_logits(1, 2000, scale=1.0)
    seen = set(np.flatnonzero(frequencies(logits, top_k=5)))
    assert seen == set(logits[0].topk(5).indices.tolist())


@pytest.mark.parametrize("scale", [3.0, 0.01])
def test_top_p_keeps_the_smallest_set_that_reaches_p(scale: float) -> None:
    """At scale 0.01 half of the probability needs far more tokens than are looked at first."""
    logits = random_logits(1, 4000, scale=scale)
    probabilities, order = logits[0].double().softmax(-1).sort(descending=True)
    num_kept = int((probabilities.cumsum(-1) - probabilities < 0.5).sum())
    seen = set(np.flatnonzero(frequencies(logits, top_p=0.5)))
    assert seen <= set(order[: num_kept + 1].tolist())
    assert len(seen) > num_kept / 3


def test_top_p_counts_within_top_k() -> None:
    logits = torch.log(torch.tensor([[0.4, 0.3, 0.2, 0.1]]))
    assert set(np.flatnonzero(frequencies(logits, top_k=2, top_p=0.55))) == {0}
    assert set(np.flatnonzero(frequencies(logits, top_k=2, top_p=0.6))) == {0, 1}


@settings(deadline=None, max_examples=50)
@given(
    seed=st.integers(0, 2**63 - 1),
    temperature=st.sampled_from([0.0, 0.3, 1.0, 5.0]),
    top_p=st.sampled_from([0.1, 0.9, 1.0]),
    top_k=st.sampled_from([0, 1, 40, 5000]),
    position=st.integers(0, 6),
)
def test_a_row_does_not_depend_on_who_shares_the_batch(
    seed: int, temperature: float, top_p: float, top_k: int, position: int
) -> None:
    own = random_logits(1, 3000, seed=1)
    alone = sample(own, rows(1, temperature, top_p, top_k, seed, 3))
    logits = random_logits(7, 3000, seed=2)
    logits[position] = own
    shared = rows(7, [0.0, 0.7, 1.0, 1.0, 0.7, 1.0, 2.0], [1, 0.9, 1, 0.5, 1, 1, 0.01], [0, 0, 50, 0, 2000, 1, 0], 9)
    place = np.arange(7) == position
    mixed = SamplingRows(
        *(
            np.where(place, getattr(rows(7, temperature, top_p, top_k, seed, 3), name), getattr(shared, name))
            for name in ("temperature", "top_p", "top_k", "stream_key", "num_draws")
        )
    )
    assert sample(logits, mixed)[position] == alone[0]


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_logits_that_are_not_finite_fail_their_row_alone(bad: float, temperature: float) -> None:
    logits = random_logits(3, 500)
    healthy = sample(logits, rows(3, temperature))
    logits[1, 17] = bad
    assert sample(logits, rows(3, temperature)).tolist() == [healthy[0], -1, healthy[2]]


@pytest.mark.parametrize("temperature", [1e-30, 1e-6])
def test_a_tiny_temperature_is_greedy(temperature: float) -> None:
    logits = random_logits(4, 500)
    assert sample(logits, rows(4, temperature)).tolist() == logits.argmax(-1).tolist()


def test_every_row_gets_a_token_of_the_vocabulary_at_the_edges_of_the_random_numbers() -> None:
    logits = torch.tensor([[0.0, -1e9, 0.0, -1e9]]).expand(1000, -1)
    tokens = sample(logits, rows(1000, num_draws=np.arange(1000)))
    assert set(tokens) == {0, 2}


def test_draws_are_uniform_and_differ_between_streams() -> None:
    keys = np.array([stream_key(seed) for seed in range(100)])
    draws = uniform(np.repeat(keys, 200), np.tile(np.arange(200), 100))
    assert ((draws >= 0) & (draws < 1)).all()
    assert len(np.unique(draws)) == draws.size
    np.testing.assert_allclose(np.histogram(draws, bins=10, range=(0, 1))[0] / draws.size, 0.1, atol=0.01)


def test_negative_and_huge_seeds_are_seeds() -> None:
    assert len({int(stream_key(seed)) for seed in (-1, 0, 1, 2**63, 2**63 - 1)}) == 5
