"""SIGTERM and SIGINT as events to wait for."""

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any


class StopSignals:
    """SIGTERM and SIGINT: the first asks to drain, the second not to wait any longer."""

    def __init__(self) -> None:
        self.first = asyncio.Event()
        self.second = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._receive)

    def _receive(self) -> None:
        (self.second if self.first.is_set() else self.first).set()


async def until(condition: Coroutine[Any, Any, Any], *tasks: asyncio.Task[Any]) -> None:
    """Wait for the condition or the end of any of the tasks, which go on otherwise."""
    waiting = asyncio.create_task(condition)
    try:
        await asyncio.wait({waiting, *tasks}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
