"""A queue of keys: a key waits at most once, is worked on by one worker at a time, and backs off when it fails."""

import asyncio

FIRST_RETRY_SECONDS = 0.5
LONGEST_RETRY_SECONDS = 60.0


class KeyedQueue:
    """Keys to work on. A key added while it is worked on is handed out again afterwards."""

    def __init__(self) -> None:
        self._ready: asyncio.Queue[str] = asyncio.Queue()
        self._waiting: set[str] = set()
        self._working: set[str] = set()
        self._again: set[str] = set()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._failures: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, key: str) -> None:
        """Ask for work on a key, unless that is asked for already."""
        if key in self._working:
            self._again.add(key)
        elif key not in self._waiting:
            self._waiting.add(key)
            self._ready.put_nowait(key)

    def add_after(self, key: str, seconds: float) -> None:
        """Ask for work on a key later; of several such wishes the earliest counts."""
        due = asyncio.get_running_loop().time() + seconds
        timer = self._timers.get(key)
        if timer is not None and timer.when() <= due:
            return
        if timer is not None:
            timer.cancel()
        self._timers[key] = asyncio.get_running_loop().call_at(due, self._fire, key)

    async def get(self) -> str:
        """Wait for a key; follow it with `done` or `retry`."""
        key = await self._ready.get()
        self._waiting.discard(key)
        self._working.add(key)
        return key

    def done(self, key: str) -> None:
        """The work on a key succeeded."""
        self._failures.pop(key, None)
        self._finish(key)

    def retry(self, key: str, at_least: float = 0.0) -> float:
        """The work on a key failed: ask again later, each time twice as late. Returns the delay in seconds."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        delay = max(at_least, min(FIRST_RETRY_SECONDS * 2.0**failures, LONGEST_RETRY_SECONDS))
        self._finish(key)
        self.add_after(key, delay)
        return delay

    def _finish(self, key: str) -> None:
        self._working.discard(key)
        if key in self._again:
            self._again.discard(key)
            self.add(key)

    def _fire(self, key: str) -> None:
        self._timers.pop(key, None)
        self.add(key)
