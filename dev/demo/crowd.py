"""Many people chatting at once: each asks, reads the streamed answer, and asks again."""

import asyncio
import random
from collections.abc import Awaitable, Callable

from dev.demo.chat import StreamResult
from dev.demo.questions import question

Chat = Callable[[str, StreamResult], Awaitable[None]]


class Crowd:
    """Keeps `size` chats going. `size` may change at any time; nobody leaves in the middle of an answer."""

    def __init__(self, chat: Chat, answer_tokens: tuple[int, int] = (12, 32), seed: int = 0) -> None:
        self._chat = chat
        self._answer_tokens = answer_tokens
        self._rng = random.Random(seed)
        self._people: set[asyncio.Task[None]] = set()
        self._size = 0
        self._open: list[StreamResult] = []
        self.results: list[StreamResult] = []

    @property
    def num_active(self) -> int:
        return len(self._people)

    @property
    def num_tokens(self) -> int:
        """Tokens received so far, those of unfinished answers included."""
        return sum(result.num_tokens for result in (*self.results, *self._open))

    def resize(self, size: int) -> None:
        """Let people come until there are `size`, or let the surplus leave after their current answer."""
        self._size = size
        while len(self._people) < size:
            person = asyncio.create_task(self._ask_again_and_again())
            self._people.add(person)
            person.add_done_callback(self._people.discard)

    async def leave(self) -> None:
        """Ask nothing more, and return when every answer has been read."""
        self.resize(0)
        while self._people:
            await asyncio.wait(self._people)

    async def dismiss(self) -> None:
        """Stop at once, in the middle of answers: for when the demo has failed."""
        for person in list(self._people):
            person.cancel()
        await asyncio.gather(*self._people, return_exceptions=True)

    async def _ask_again_and_again(self) -> None:
        me = asyncio.current_task()
        while len(self._people) <= self._size:
            await self._ask_once()
        self._people -= {me}  # at once, so that two who end together do not both count as the one surplus

    async def _ask_once(self) -> None:
        result = StreamResult(max_tokens=self._rng.randint(*self._answer_tokens))
        self._open.append(result)
        await self._chat(question(self._rng), result)
        self._open.remove(result)
        self.results.append(result)
        if result.error:
            await asyncio.sleep(1)
