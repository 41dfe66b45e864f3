"""The live table: a growing one on a terminal, plain lines elsewhere."""

from collections.abc import Iterable
from types import TracebackType
from typing import Self

from rich import box
from rich.console import Console
from rich.live import Live
from rich.table import Table

from dev.demo.timeline import Sample

MAX_ROWS = 18


class LiveTable:
    """Shows the newest samples. Lines that say nothing new are left out where there is no terminal."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._rows: list[Sample] = []
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal else None

    def __enter__(self) -> Self:
        if self._live:
            self._live.__enter__()
        else:
            self._console.print("   time   KV %  waiting  ready/desired  tokens/s  decision")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._live.__exit__(kind, error, trace)

    def show(self, sample: Sample) -> None:
        is_news = not self._rows or _is_news(self._rows[-1], sample)
        if self._live:
            self._rows = [*self._rows, sample][-MAX_ROWS:]
            self._live.update(as_table(self._rows), refresh=True)
        elif is_news:
            self._rows = [sample]
            self._console.print(_line(sample), markup=False, highlight=False, soft_wrap=True)


def _is_news(last: Sample, sample: Sample) -> bool:
    before = (last.ready, last.desired, last.draining, last.decision)
    return sample.t - last.t >= 10 or before != (sample.ready, sample.desired, sample.draining, sample.decision)


def _cells(sample: Sample) -> tuple[str, str, str, str, str, str]:
    draining = f" (-{sample.draining})" if sample.draining else ""
    return (
        f"{sample.t:.0f} s",
        f"{100 * sample.kv:.0f}",
        f"{sample.waiting}",
        f"{sample.ready}/{sample.desired}{draining}",
        f"{sample.tokens_per_second:.0f}",
        sample.decision,
    )


def _line(sample: Sample) -> str:
    time, kv, waiting, replicas, speed, decision = _cells(sample)
    return f"{time:>7} {kv:>6} {waiting:>8} {replicas:>14} {speed:>9}  {decision}"


def as_table(samples: Iterable[Sample]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, expand=True)
    for name in ("time", "KV %", "waiting", "ready/desired", "tokens/s"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("decision and reason", ratio=1, overflow="ellipsis", no_wrap=True)
    for sample in samples:
        table.add_row(*_cells(sample))
    return table
