"""The offline API for asyncio programs: an engine in its own process, answers as they grow.

async with AsyncLLM("bundled://smollm2-135m-instruct") as llm:
    async for output in llm.generate("Paged attention is", SamplingParams(max_tokens=32)):
        print(output.outputs[0].text)
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from octavo_engine.config import EngineConfig
from octavo_engine.engine_client import EngineClient
from octavo_engine.errors import InvalidRequest
from octavo_engine.job import Job, RequestOutput, make_config, problem_with
from octavo_engine.sampling_params import SamplingParams
from octavo_engine.tokenizer import Tokenizer, load_tokenizer


class AsyncLLM:
    """One model, used from one event loop by any number of tasks. Takes the fields of EngineConfig as keywords."""

    def __init__(self, model: str | EngineConfig, **overrides: Any) -> None:
        self.config = make_config(model, overrides)
        self.engine = EngineClient(self.config)
        self._tokenizer: Tokenizer | None = None

    @classmethod
    def from_parts(cls, engine: EngineClient, tokenizer: Tokenizer) -> Self:
        """Over an engine that `start` will start."""
        llm = cls.__new__(cls)
        llm.config, llm.engine, llm._tokenizer = engine.config, engine, tokenizer
        return llm

    async def start(self) -> None:
        """Load the model. Raises ModelError or EngineStartError."""
        if self._tokenizer is None:
            self._tokenizer = await asyncio.to_thread(_load_tokenizer, self.config)
        await self.engine.start()

    async def close(self) -> None:
        await self.engine.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    @property
    def tokenizer(self) -> Tokenizer:
        assert self._tokenizer is not None, "await start() first"
        return self._tokenizer

    def generate(
        self, prompt: str | list[int], params: SamplingParams | None = None, *, priority: int = 0
    ) -> AsyncGenerator[RequestOutput, None]:
        """Yields the output as it grows, the same object each time. Leaving the loop aborts the request.

        Raises InvalidRequest, QueueFull, RequestFailed or EngineDead.
        """
        tokens = self.tokenizer.encode(prompt) if isinstance(prompt, str) else list(prompt)
        text = prompt if isinstance(prompt, str) else None
        return self._stream(tokens, text, params or SamplingParams(), priority)

    def chat(
        self, messages: Sequence[Mapping[str, str]], params: SamplingParams | None = None, *, priority: int = 0
    ) -> AsyncGenerator[RequestOutput, None]:
        """Answer a conversation, a list of {"role", "content"}. Otherwise as `generate`."""
        return self._stream(self.tokenizer.apply_chat_template(messages), None, params or SamplingParams(), priority)

    async def _stream(
        self, prompt: list[int], text: str | None, params: SamplingParams, priority: int
    ) -> AsyncGenerator[RequestOutput, None]:
        ready = self.engine.ready
        if problem := problem_with(prompt, params, ready):
            raise InvalidRequest(problem)
        async with self.engine.generate(prompt, params, priority=priority) as events:
            job = Job(events.request_id, prompt, text, params, self.tokenizer, ready.eos_token_ids)
            async for event in events:
                is_finished = job.read(event)
                yield job.output
                if is_finished:
                    return


def _load_tokenizer(config: EngineConfig) -> Tokenizer:
    from octavo_engine.models import resolve_model

    return load_tokenizer(Path(config.tokenizer) if config.tokenizer else resolve_model(config.model, config.revision))
