"""AsyncLLM over the fake model in a thread."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager

import pytest

from octavo_engine.async_llm import AsyncLLM
from octavo_engine.engine_client import EngineClient
from octavo_engine.engine_transport import ThreadTransport
from octavo_engine.errors import InvalidRequest
from octavo_engine.sampling_params import SamplingParams
from tests.engine.core_support import make_config
from tests.fakes import byte_tokenizer, expected_tokens

GREEDY = SamplingParams(max_tokens=12, temperature=0)


@asynccontextmanager
async def running(model: str = "fake://64") -> AsyncIterator[AsyncLLM]:
    engine = EngineClient(make_config(model=model), ThreadTransport("tests.fakes:load_fake_runner"))
    async with AsyncLLM.from_parts(engine, byte_tokenizer()) as llm:
        yield llm


async def test_answers_grow_until_they_are_finished() -> None:
    async with running("fake://64?step_seconds=0.005") as llm:
        lengths = [len(output.outputs[0].token_ids) async for output in llm.generate("hello", GREEDY)]
        assert lengths == sorted(lengths)
        assert len(lengths) > 1
        assert lengths[-1] == 12


async def test_many_tasks_share_one_engine() -> None:
    async def ask(llm: AsyncLLM, prompt: list[int]) -> list[int]:
        async for output in llm.generate(prompt, GREEDY):
            tokens = output.outputs[0].token_ids
        return tokens

    async with running() as llm:
        prompts = [[i, i + 1] for i in range(30)]
        answers = await asyncio.gather(*(ask(llm, prompt) for prompt in prompts))
        assert answers == [expected_tokens(prompt, GREEDY) for prompt in prompts]


async def test_chat_renders_the_template() -> None:
    async with running() as llm:
        async for output in llm.chat([{"role": "user", "content": "hi"}], GREEDY):
            assert llm.tokenizer.decode(output.prompt_token_ids) == "[user] hi\n[assistant] "


async def test_leaving_the_loop_aborts_the_request() -> None:
    async with running("fake://64?step_seconds=0.005") as llm:
        async with aclosing(llm.generate("hello", SamplingParams(max_tokens=900, temperature=0))) as outputs:
            await anext(outputs)
        assert llm.engine.num_open_streams == 0
        while not llm.engine.stats.is_idle:  # noqa: ASYNC110 - the engine says so in its next message
            await asyncio.sleep(0.01)
        assert llm.engine.stats.num_used_blocks == 0


async def test_a_bad_request_is_named() -> None:
    async with running() as llm:
        with pytest.raises(InvalidRequest, match="it is empty"):
            await anext(llm.generate("", GREEDY))
