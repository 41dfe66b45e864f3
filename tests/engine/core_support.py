"""An engine core over the fake model, driven step by step, with what it should have said."""

from collections import defaultdict
from typing import Any

from octavo_engine.config import EngineConfig
from octavo_engine.core.engine_core import EngineCore
from octavo_engine.messages import AddRequest, TokenEvent
from octavo_engine.sampling_params import SamplingParams
from tests.fakes import FakeModelRunner, expected_tokens


def make_config(**overrides: Any) -> EngineConfig:
    return EngineConfig(**{"model": "fake", "max_num_seqs": 8, "max_num_batched_tokens": 128, **overrides})


class Engine:
    def __init__(
        self, *, depth: int = 1, num_blocks: int = 64, runner: dict[str, Any] | None = None, **overrides: Any
    ) -> None:
        """`runner` are further options of FakeModelRunner, `overrides` fields of EngineConfig."""
        config = make_config(**overrides)
        self.runner = FakeModelRunner(config, num_blocks, depth, **(runner or {}))
        self.core = EngineCore(config, self.runner, [])
        self.requests: dict[str, AddRequest] = {}
        self.aborted: set[str] = set()
        self.events: dict[str, list[TokenEvent]] = defaultdict(list)

    def add(self, prompt: list[int], priority: int = 0, **params: Any) -> str:
        request_id = f"r{len(self.requests)}"
        request = AddRequest(request_id, prompt, SamplingParams(**{"temperature": 0.0, **params}), priority)
        self.core.add(request)
        self.requests[request_id] = request
        return request_id

    def abort(self, request_id: str) -> None:
        self.core.abort(request_id)
        if not self.is_finished(request_id):
            self.aborted.add(request_id)

    def step(self) -> None:
        for event in self.core.step():
            assert not self.is_finished(event.request_id), "an event after the last one"
            assert event.request_id not in self.aborted, "an event after an abort"
            self.events[event.request_id].append(event)

    def run(self, max_steps: int = 10_000) -> None:
        for _ in range(max_steps):
            if not self.core.has_work:
                return
            self.step()
        raise AssertionError(f"not done after {max_steps} steps")

    def is_finished(self, request_id: str) -> bool:
        events = self.events[request_id]
        return bool(events) and events[-1].finish_reason is not None

    def tokens(self, request_id: str) -> list[int]:
        return [token_id for event in self.events[request_id] for token_id in event.token_ids]

    def check_outputs(self) -> None:
        """Every request has exactly the tokens of an unpaged, unbatched model; an aborted one the first of them."""
        for request_id, request in self.requests.items():
            expected = expected_tokens(request.prompt_token_ids, request.params)
            tokens = self.tokens(request_id)
            assert tokens == expected[: len(tokens)]
            assert request_id in self.aborted or (self.is_finished(request_id) and len(tokens) == len(expected))
