"""The engine on the real SmolLM2 says what transformers says on the same weights.

float32 must agree token for token. bfloat16 rounds differently where products are computed in another order, so there
a different token counts as equal if transformers itself holds it for as likely within `TIE`.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from octavo_engine.core.engine_core import EngineCore
from octavo_engine.models import load_model_config
from octavo_engine.models.llama import Llama
from octavo_engine.models.ops import TorchOps
from octavo_engine.models.weights import SafetensorsWeights
from octavo_engine.tokenizer import Tokenizer
from tests.engine.model_support import generate, make_core, random_tokens

pytestmark = pytest.mark.model

NUM_NEW_TOKENS = 10
NUM_BLOCKS = 512
EOS = 2
TIE = 0.5
"""Logits; two units in the last place of a bfloat16 between 32 and 64, where SmolLM2's largest logits are."""

QUESTIONS = [
    "What is the capital of France?",
    "Write a haiku about rain.",
    "Count from 1 to 20, please.",
    "Who was Isaac Newton, and what did he find out?",
    "Translate 'good morning' into Spanish.",
    "Explain photosynthesis to a child of 8 years.",
    "What is 1234 + 4321?",
    "Give me three names for a cat.",
    "List the planets of the solar system in order.",
    "Why is the sky blue?",
    "Write a Python function that reverses a list.",
    "What does HTTP stand for?",
]
TEXTS = [
    "Once upon a time",
    "The quick brown fox jumps over the lazy dog. " * 6,
    "def fibonacci(n):\n    ",
    "In 1969, the first",
    "Liebe Kolleginnen und Kollegen, heute",
    "日本の首都は",
    "El perro",
    "😀😀😀",
    "import numpy as np\n\nx = np.zeros((3, 4))\nprint(",
    "1, 2, 3, 4, 5, 6, 7, 8,",
    "A",
    "\n\n",
]


@pytest.fixture(scope="module")
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def prompts(smollm2_tokenizer: Tokenizer) -> list[list[int]]:
    """50: chats, texts in several languages and scripts, chats with a long shared beginning, and noise."""
    chats = [[{"role": "user", "content": question}] for question in QUESTIONS]
    system = {"role": "system", "content": "You answer in one short sentence. " * 6}
    shared = [[system, *chat] for chat in chats]
    noise = [random_tokens(length, length, 49152) for length in (1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 65, 130)]
    encoded = [smollm2_tokenizer.apply_chat_template(chat) for chat in chats + shared]
    return encoded + [smollm2_tokenizer.encode(text) for text in TEXTS] + noise


@pytest.fixture(scope="module")
def reference(smollm2_directory: Path, threads: None) -> Any:
    import transformers

    return transformers.AutoModelForCausalLM.from_pretrained(smollm2_directory, dtype=torch.float32)


@pytest.fixture(scope="module")
def expected(reference: Any, prompts: list[list[int]]) -> list[list[int]]:
    """Ten prompts of similar length at a time, padded on the left as transformers wants it."""
    order = sorted(range(len(prompts)), key=lambda index: len(prompts[index]))
    outputs: dict[int, list[int]] = {}
    for start in range(0, len(order), 10):
        part = order[start : start + 10]
        outputs.update(zip(part, _reference_generate(reference, [prompts[index] for index in part]), strict=True))
    return [outputs[index] for index in range(len(prompts))]


@pytest.fixture(scope="module")
def model(smollm2_directory: Path, threads: None) -> Llama:
    return _load(smollm2_directory, torch.float32)


def test_there_are_fifty_prompts(prompts: list[list[int]]) -> None:
    assert len(prompts) == 50


def test_requests_alone_equal_transformers(model: Llama, prompts: list[list[int]], expected: list[list[int]]) -> None:
    core = make_core(model, torch.float32, NUM_BLOCKS)
    assert [_generate(core, [prompt])[0] for prompt in prompts] == expected


@pytest.mark.parametrize("block_size", [8, 16, 32, 64])
def test_a_batch_of_any_block_size_equals_transformers(
    model: Llama, prompts: list[list[int]], expected: list[list[int]], block_size: int
) -> None:
    core = make_core(model, torch.float32, NUM_BLOCKS, block_size=block_size, enable_prefix_caching=False)
    assert _generate(core, prompts) == expected


@pytest.mark.parametrize("chunk_size", [1, 7, 64])
def test_chunked_prefill_equals_transformers(
    model: Llama, prompts: list[list[int]], expected: list[list[int]], chunk_size: int
) -> None:
    core = make_core(model, torch.float32, NUM_BLOCKS, prefill_chunk_size=chunk_size, enable_prefix_caching=False)
    assert _generate(core, prompts) == expected


def test_a_cold_and_a_warm_prefix_cache_equal_transformers(
    model: Llama, prompts: list[list[int]], expected: list[list[int]]
) -> None:
    core = make_core(model, torch.float32, NUM_BLOCKS)
    assert _generate(core, prompts) == expected
    hits_when_cold = core.stats().prefix_hit_tokens_total
    assert _generate(core, prompts) == expected
    assert core.stats().prefix_hit_tokens_total > hits_when_cold


@pytest.mark.parametrize("enable_prefix_caching", [True, False])
def test_preempted_requests_equal_transformers(
    model: Llama, prompts: list[list[int]], expected: list[list[int]], enable_prefix_caching: bool
) -> None:
    core = make_core(model, torch.float32, 22, block_size=8, enable_prefix_caching=enable_prefix_caching)
    assert _generate(core, prompts) == expected
    assert core.stats().preemptions_total > 0


def test_bfloat16_equals_transformers_up_to_ties(
    smollm2_directory: Path, reference: Any, prompts: list[list[int]]
) -> None:
    reference.to(torch.bfloat16)
    try:
        outputs = _generate(make_core(_load(smollm2_directory, torch.bfloat16), torch.bfloat16, NUM_BLOCKS), prompts)
        gaps = [_largest_gap(reference, prompt, output) for prompt, output in zip(prompts, outputs, strict=True)]
    finally:
        reference.to(torch.float32)
    assert max(gaps) <= TIE


def _generate(core: EngineCore, prompts: list[list[int]]) -> list[list[int]]:
    return generate(core, prompts, max_tokens=NUM_NEW_TOKENS)


def _load(directory: Path, dtype: torch.dtype) -> Llama:
    with torch.inference_mode():
        weights = SafetensorsWeights(directory, dtype, torch.device("cpu"))
        return Llama(load_model_config(directory), weights, TorchOps(), max_position=512)


def _reference_generate(reference: Any, prompts: list[list[int]]) -> list[list[int]]:
    """Up to and including the end token, with which transformers pads."""
    width = max(map(len, prompts))
    ids = torch.tensor([[EOS] * (width - len(prompt)) + prompt for prompt in prompts])
    mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts])
    output = reference.generate(
        ids, attention_mask=mask, max_new_tokens=NUM_NEW_TOKENS, do_sample=False, pad_token_id=EOS
    )
    answers = output[:, width:].tolist()
    return [answer[: answer.index(EOS) + 1] if EOS in answer else answer for answer in answers]


@torch.inference_mode()
def _largest_gap(reference: Any, prompt: list[int], output: list[int]) -> float:
    """How much less than its own choice transformers likes any of these tokens, in logits."""
    logits = reference(torch.tensor([prompt + output])).logits[0, len(prompt) - 1 : -1].float()
    chosen = logits.gather(1, torch.tensor(output).unsqueeze(1)).squeeze(1)
    return float((logits.max(dim=-1).values - chosen).max())
