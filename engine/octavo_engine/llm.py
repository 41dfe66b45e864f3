"""The offline API: an engine in the calling thread, text in, text out.

llm = LLM("bundled://smollm2-135m-instruct", max_num_seqs=64)
for output in llm.generate(["Paged attention is"], SamplingParams(max_tokens=32)):
    print(output.outputs[0].text)
"""

from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from octavo_engine.config import EngineConfig
from octavo_engine.core.batch import ModelRunner
from octavo_engine.core.engine_core import EngineCore
from octavo_engine.errors import InvalidRequest, QueueFull
from octavo_engine.job import Job, RequestOutput, make_config, problem_with
from octavo_engine.messages import EngineReady, EngineStats, TokenEvent
from octavo_engine.sampling_params import SamplingParams
from octavo_engine.tokenizer import Tokenizer, load_tokenizer

Message = Mapping[str, str]
Prompt = str | list[int]


class LLM:
    """One model, used by one thread. Takes the fields of EngineConfig as keywords.

    Raises ConfigError or ModelError when the model cannot be served as asked.
    """

    def __init__(self, model: str | EngineConfig, **overrides: Any) -> None:
        from octavo_engine.models import resolve_model
        from octavo_engine.runner import load_runner

        config = make_config(model, overrides)
        directory = resolve_model(config.model, config.revision)
        tokenizer = load_tokenizer(Path(config.tokenizer) if config.tokenizer else directory)
        self._setup(config, *load_runner(config), tokenizer)

    @classmethod
    def from_parts(cls, config: EngineConfig, runner: ModelRunner, ready: EngineReady, tokenizer: Tokenizer) -> Self:
        """An LLM over a runner that is loaded already."""
        llm = cls.__new__(cls)
        llm._setup(config, runner, ready, tokenizer)
        return llm

    def _setup(self, config: EngineConfig, runner: ModelRunner, ready: EngineReady, tokenizer: Tokenizer) -> None:
        self.config = config.for_device(ready.device)
        self.ready = ready
        self.tokenizer = tokenizer
        self._core = EngineCore(self.config, runner, ready.eos_token_ids)
        self._num_requests = 0

    @property
    def stats(self) -> EngineStats:
        return self._core.stats()

    def generate(
        self,
        prompts: Prompt | Sequence[Prompt],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
        *,
        progress: bool = True,
    ) -> list[RequestOutput]:
        """Complete one prompt or many, given as text or token ids; outputs are in the order of the prompts.

        `sampling_params` are one for all or one each. Raises InvalidRequest, before anything runs, naming the prompt at
        fault. `progress` shows a bar on a terminal.
        """
        batch = _as_prompts(prompts)
        tokens = [self.tokenizer.encode(prompt) if isinstance(prompt, str) else list(prompt) for prompt in batch]
        texts = [prompt if isinstance(prompt, str) else None for prompt in batch]
        return self._run(tokens, texts, _as_params(sampling_params, len(batch)), progress)

    def chat(
        self,
        conversations: Sequence[Message] | Sequence[Sequence[Message]],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
        *,
        progress: bool = True,
    ) -> list[RequestOutput]:
        """Answer one conversation (a list of {"role", "content"}) or many. Otherwise as `generate`."""
        batch = _as_conversations(conversations)
        tokens = [self.tokenizer.apply_chat_template(messages) for messages in batch]
        return self._run(tokens, [None] * len(batch), _as_params(sampling_params, len(batch)), progress)

    def _run(
        self, prompts: list[list[int]], texts: list[str | None], params: list[SamplingParams], progress: bool
    ) -> list[RequestOutput]:
        for i, (prompt, its_params) in enumerate(zip(prompts, params, strict=True)):
            if problem := problem_with(prompt, its_params, self.ready):
                raise InvalidRequest(f"prompt {i}: {problem}")
        jobs = {}
        for prompt, text, its_params in zip(prompts, texts, params, strict=True):
            job = Job(f"{self._num_requests}", prompt, text, its_params, self.tokenizer, self.ready.eos_token_ids)
            jobs[job.request_id] = job
            self._num_requests += 1
        try:
            self._finish_all(jobs, progress)
        finally:
            for request_id in jobs:
                self._core.abort(request_id)
        return [job.output for job in jobs.values()]

    def _finish_all(self, jobs: dict[str, Job], progress: bool) -> None:
        unsent, num_open = deque(jobs.values()), len(jobs)
        num_tokens_before = self.stats.generation_tokens_total
        with _progress_bar(progress) as bar:
            task = bar.add_task("generating", total=num_open, rate="")
            while num_open:
                self._feed(unsent)
                num_finished = self._deliver(self._core.step(), jobs)
                num_open -= num_finished
                num_tokens = self.stats.generation_tokens_total - num_tokens_before
                bar.update(task, advance=num_finished, rate=_rate(num_tokens, bar.tasks[task].elapsed))

    def _feed(self, unsent: deque[Job]) -> None:
        """Hand over as many requests as the engine's queue takes."""
        while unsent:
            try:
                self._core.add(unsent[0].request)
            except QueueFull:
                return
            unsent.popleft()

    def _deliver(self, events: list[TokenEvent], jobs: dict[str, Job]) -> int:
        """Returns how many requests ended; one whose text met a stop string is aborted."""
        num_finished = 0
        for event in events:
            if jobs[event.request_id].read(event):
                num_finished += 1
                self._core.abort(event.request_id)
        return num_finished


def _as_prompts(prompts: Prompt | Sequence[Prompt]) -> list[Prompt]:
    if isinstance(prompts, str):
        return [prompts]
    if prompts and isinstance(prompts[0], int):
        return [list(prompts)]  # type: ignore[arg-type]
    return list(prompts)  # type: ignore[arg-type]


def _as_conversations(conversations: Sequence[Message] | Sequence[Sequence[Message]]) -> list[Sequence[Message]]:
    if conversations and isinstance(conversations[0], Mapping):
        return [conversations]  # type: ignore[list-item]
    return list(conversations)  # type: ignore[arg-type]


def _as_params(params: SamplingParams | Sequence[SamplingParams] | None, count: int) -> list[SamplingParams]:
    if params is None or isinstance(params, SamplingParams):
        return [params or SamplingParams()] * count
    if len(params) != count:
        raise InvalidRequest(f"{len(params)} sampling_params for {count} prompts; give one for all or one each")
    return list(params)


def _progress_bar(is_shown: bool) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    bar = Progress(*columns, TextColumn("{task.fields[rate]}"))
    bar.disable = not (is_shown and bar.console.is_terminal)
    return bar


def _rate(num_tokens: int, seconds: float | None) -> str:
    return f"{num_tokens / seconds:.0f} tokens/s" if seconds else ""
