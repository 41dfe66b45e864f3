"""Requests that are not running: new ones and preempted ones, the most urgent first."""

from bisect import insort

from octavo_engine.core.request import Request, rank_of
from octavo_engine.errors import QueueFull


class WaitingQueue:
    """Sorted by rank. `num_prompt_tokens` counts the prompts of all that wait."""

    def __init__(self, max_num_requests: int, max_num_tokens: int) -> None:
        self._max_num_requests = max_num_requests
        self._max_num_tokens = max_num_tokens
        self._requests: list[Request] = []
        self.num_prompt_tokens = 0

    def __len__(self) -> int:
        return len(self._requests)

    @property
    def first(self) -> Request:
        return self._requests[0]

    def check(self, request: Request, num_free_rows: int) -> None:
        """Raise QueueFull if one more may not wait. Those who will find a free row do not count as waiting."""
        if len(self) >= self._max_num_requests + num_free_rows:
            raise QueueFull(f"{len(self)} requests wait already (max_num_waiting); try again later")
        if len(self) and self.num_prompt_tokens + request.num_prompt_tokens > self._max_num_tokens:
            num_tokens = self.num_prompt_tokens
            raise QueueFull(f"{num_tokens} prompt tokens wait already (max_waiting_tokens); try again later")

    def add(self, request: Request) -> None:
        insort(self._requests, request, key=rank_of)
        self.num_prompt_tokens += request.num_prompt_tokens

    def remove(self, request: Request) -> None:
        self._requests.remove(request)
        self.num_prompt_tokens -= request.num_prompt_tokens
