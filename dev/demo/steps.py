"""Named steps with progress and times. A step that fails says which one, why, and where the logs are."""

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

from rich.console import Console


class StepFailed(Exception):
    """Something the demo needs did not happen; the message says what and, where there is one, the remedy."""


class Steps:
    """Shows each step while it runs, and remembers its seconds."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.finished: list[dict[str, Any]] = []
        self.current = ""

    @contextlib.contextmanager
    def step(self, name: str, text: str, *, spins: bool = True) -> Iterator[Callable[[str], None]]:
        """Run a block as one step; the block may call what it is given to say what it is doing now."""
        self.current = name
        started = time.monotonic()
        if spins and self.console.is_terminal:
            with self.console.status(f"[bold]{text}[/]") as status:
                yield lambda detail: status.update(f"[bold]{text}[/]  [dim]{detail}[/]")
        else:
            self.console.print(f"… {text}")
            yield lambda _: None
        seconds = time.monotonic() - started
        self.finished.append({"name": name, "seconds": round(seconds, 1)})
        self.console.print(f"[green]✓[/] {text} [dim]{seconds:.1f} s[/]")
