"""From what the client sent to token ids that fit the engine."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from octavo_engine.errors import InvalidRequest
from octavo_engine.messages import EngineReady
from octavo_engine.server.interfaces import Tokenizer
from octavo_engine.server.protocol import ChatMessage

T = TypeVar("T")

LONG_TEXT = 4096
_threads = ThreadPoolExecutor(max_workers=2, thread_name_prefix="tokenizer")


async def encode_prompts(
    tokenizer: Tokenizer, prompts: Sequence[str | list[int]], max_len: int | None = None
) -> list[list[int]]:
    """Token ids of each prompt. One that cannot fit `max_len` tokens is refused before the work of encoding it."""
    return [await _encode(tokenizer, prompt, max_len) if isinstance(prompt, str) else prompt for prompt in prompts]


async def encode_chat(tokenizer: Tokenizer, messages: Sequence[ChatMessage], max_len: int | None = None) -> list[int]:
    """The conversation as the model's template writes it, up to where the assistant begins to speak."""
    if not tokenizer.has_chat_template:
        raise InvalidRequest("this model has no chat template; use /v1/completions", field="messages")
    plain = [message.as_template_input() for message in messages]
    size = sum(len(message["content"]) for message in plain)
    _check_size(size, tokenizer, max_len, "messages")
    return await _run(size, lambda: tokenizer.apply_chat_template(plain))


def check_prompts(
    prompts: Sequence[list[int]], max_tokens: int | None, ready: EngineReady, max_len: int, field: str
) -> int:
    """The number of tokens that may be generated: `max_tokens`, or what the longest prompt leaves of `max_len`.

    Raises InvalidRequest for a prompt that is empty, too long or not of this vocabulary.
    """
    if not prompts or not all(prompts):
        raise InvalidRequest(f"{field!r} is empty; send at least one token", field=field)
    largest = max(map(max, prompts))
    if largest >= ready.vocab_size:
        raise InvalidRequest(
            f"token id {largest} in {field!r} is outside the vocabulary of {ready.vocab_size} tokens", field=field
        )
    num_prompt_tokens = max(map(len, prompts))
    if num_prompt_tokens >= max_len:
        raise InvalidRequest(
            f"the prompt has {num_prompt_tokens} tokens, but at most {max_len} fit, with room for one more;"
            " shorten the prompt",
            field=field,
            code="context_length_exceeded",
        )
    if num_prompt_tokens + (max_tokens or 0) > max_len:
        raise InvalidRequest(
            f"{num_prompt_tokens} prompt tokens + {max_tokens} 'max_tokens' exceed the {max_len} tokens that fit;"
            " lower 'max_tokens' or shorten the prompt",
            field="max_tokens",
            code="context_length_exceeded",
        )
    return max_tokens or max_len - num_prompt_tokens


def _check_size(num_chars: int, tokenizer: Tokenizer, max_len: int | None, field: str) -> None:
    if max_len is None or num_chars <= max_len * tokenizer.max_chars_per_token:
        return
    raise InvalidRequest(
        f"the prompt has {num_chars} characters, which cannot fit into {max_len} tokens; shorten the prompt",
        field=field,
        code="context_length_exceeded",
    )


async def _encode(tokenizer: Tokenizer, text: str, max_len: int | None) -> list[int]:
    _check_size(len(text), tokenizer, max_len, "prompt")
    return await _run(len(text), lambda: tokenizer.encode(text))


async def _run(size: int, work: Callable[[], T]) -> T:
    """Work on a long text must not hold up the event loop; for a short one a thread would cost more."""
    if size < LONG_TEXT:
        return work()
    return await asyncio.get_running_loop().run_in_executor(_threads, work)
