"""One request from token ids to pieces of text: admit, submit, measure, release."""

import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from msgspec import structs

from octavo_engine.config import SchedulerConfig
from octavo_engine.errors import EngineDead, InvalidRequest
from octavo_engine.sampling_params import SamplingParams
from octavo_engine.server.admission import Admission, Ticket
from octavo_engine.server.errors import ModelNotFound
from octavo_engine.server.interfaces import Engine, Tokenizer
from octavo_engine.server.metrics import Metrics, SequenceTimer
from octavo_engine.server.pieces import Piece, PieceReader, merge
from octavo_engine.server.protocol import GenerationBody
from octavo_engine.server.settings import ServerSettings


class Service:
    """Everything that the endpoints share."""

    def __init__(self, engine: Engine, tokenizer: Tokenizer, settings: ServerSettings, limits: SchedulerConfig) -> None:
        self.engine = engine
        self.tokenizer = tokenizer
        self.settings = settings
        self.model = engine.ready.model
        self.admission = Admission(limits)
        self.metrics = Metrics(engine, self.model, settings.metrics_alias)
        self.is_stopping = False
        self.drain_started_at: float | None = None

    def start_drain(self, now: float) -> None:
        """Take no new requests. `now` is in seconds of a steady clock."""
        self.admission.is_draining = True
        self.drain_started_at = now if self.drain_started_at is None else self.drain_started_at

    def end_drain(self) -> None:
        self.admission.is_draining = False
        self.drain_started_at = None

    def drain_seconds_left(self, now: float) -> float:
        """What open streams still get. A drain that began over HTTP is not given its whole time again by a signal."""
        since = now if self.drain_started_at is None else self.drain_started_at
        return max(0.0, self.settings.drain_timeout - (now - since))

    @property
    def max_len(self) -> int:
        """Most tokens of prompt and output together."""
        ready = self.engine.ready
        return min(ready.max_model_len, ready.num_blocks * ready.block_size)

    def check_model(self, model: str | None) -> None:
        if model not in (None, self.model):
            raise ModelNotFound(f"model {model!r} is not served here; {self.model!r} is")

    def check_body(self, body: GenerationBody) -> None:
        """What a body alone cannot know about itself. Raises ModelNotFound, InvalidRequest."""
        self.check_model(body.model)
        limit = self.settings.max_parallel_samples
        if body.num_choices > limit:
            raise InvalidRequest(f"'n' is {body.num_choices}, the limit is {limit}", field="n")
        vocab_size = self.engine.ready.vocab_size
        if body.stop_token_ids and max(body.stop_token_ids) >= vocab_size:
            raise InvalidRequest(
                f"'stop_token_ids' has an id outside the vocabulary of {vocab_size} tokens", field="stop_token_ids"
            )

    async def generate(
        self, prompts: Sequence[list[int]], params: SamplingParams, num_choices: int = 1, priority: int = 0
    ) -> AsyncGenerator[Piece, None]:
        """Pieces of all choices as they come; choices are numbered prompt by prompt. Closing it aborts all of them."""
        arrived = time.monotonic()
        self._check_size(len(prompts) * num_choices)
        ticket = self.admission.admit(len(prompts) * num_choices, sum(map(len, prompts)) * num_choices)
        jobs = [(prompt, _params_of_choice(params, i), priority) for prompt in prompts for i in range(num_choices)]
        try:
            choices = [self._choose(i, *job, ticket, arrived) for i, job in enumerate(jobs)]
            async with aclosing(merge(choices)) as pieces:
                async for piece in pieces:
                    yield piece
        finally:
            ticket.close()

    def _check_size(self, num_sequences: int) -> None:
        limit = self.admission.max_sequences
        if num_sequences > limit:
            raise InvalidRequest(f"{num_sequences} answers in one request are more than {limit}", field="prompt")

    async def _choose(
        self, choice: int, prompt: list[int], params: SamplingParams, priority: int, ticket: Ticket, arrived: float
    ) -> AsyncGenerator[Piece, None]:
        reader = PieceReader(choice, params, self.tokenizer, self.engine.ready.eos_token_ids)
        timer = SequenceTimer(self.metrics, arrived)
        try:
            async with aclosing(self.engine.generate(prompt, params, priority=priority)) as events:
                async for event in events:
                    ticket.start()
                    piece = reader.read(event)
                    timer.deliver(event)
                    yield piece
                    if piece.finish_reason:
                        timer.finish_reason = piece.finish_reason
                        return
        except Exception as error:
            timer.finish_reason = "error"
            if self.is_stopping and isinstance(error, EngineDead):
                raise EngineDead("the server is shutting down; the answer is not complete") from error
            raise
        finally:
            timer.close()


def _params_of_choice(params: SamplingParams, index: int) -> SamplingParams:
    """Each choice draws from its own stream, determined by (seed, index)."""
    if params.seed is None or index == 0:
        return params
    return structs.replace(params, seed=(params.seed + index * 0x9E3779B97F4A7C15) & (2**63 - 1))
