"""Who gets in. Pure: the counts are the server's own, so that a decision needs no answer from the engine."""

from octavo_engine.config import SchedulerConfig
from octavo_engine.errors import OctavoError, QueueFull


class Draining(OctavoError):
    """No new requests: another replica should take this one (HTTP 503). `retry_after` is in seconds."""

    retry_after = 1


class Ticket:
    """One admitted HTTP request: waiting until its first token, then running, then closed."""

    def __init__(self, admission: "Admission", num_sequences: int, num_tokens: int) -> None:
        self._admission = admission
        self._num_sequences = num_sequences
        self._num_tokens = num_tokens
        self._is_waiting = True

    def start(self) -> None:
        if self._is_waiting:
            self._is_waiting = False
            self._admission.num_waiting -= self._num_sequences
            self._admission.num_waiting_tokens -= self._num_tokens
            self._admission.num_running += self._num_sequences

    def close(self) -> None:
        self.start()
        self._admission.num_running -= self._num_sequences
        self._admission.num_requests -= 1


class Admission:
    """Bounds what waits by sequences and by prompt tokens. Free places among the running ones do not count as waiting.

    `num_requests` are HTTP requests, `num_waiting` and `num_running` are sequences (a request with n = 4 has four).
    """

    def __init__(self, limits: SchedulerConfig) -> None:
        self._limits = limits
        self.is_draining = False
        self.num_requests = 0
        self.num_waiting = 0
        self.num_waiting_tokens = 0
        self.num_running = 0

    def admit(self, num_sequences: int, num_tokens: int) -> Ticket:
        """Let a request in or raise Draining or QueueFull. Close the ticket in any case when the request ends."""
        if self.is_draining:
            raise Draining("the server is draining and takes no new requests; try again")
        self._check_queue(num_sequences, num_tokens)
        self.num_requests += 1
        self.num_waiting += num_sequences
        self.num_waiting_tokens += num_tokens
        return Ticket(self, num_sequences, num_tokens)

    @property
    def max_sequences(self) -> int:
        """As many as an idle server lets in; a request with more could never run."""
        return self._limits.max_num_seqs + self._limits.max_num_waiting

    def _check_queue(self, num_sequences: int, num_tokens: int) -> None:
        limits = self._limits
        num_free = max(0, limits.max_num_seqs - self.num_running)
        if self.num_waiting + num_sequences > limits.max_num_waiting + num_free:
            raise self._queue_full(f"{self.num_waiting} sequences wait already; the limit is {limits.max_num_waiting}")
        if self.num_waiting and self.num_waiting_tokens + num_tokens > limits.max_waiting_tokens:
            raise self._queue_full(
                f"{self.num_waiting_tokens} prompt tokens wait already; the limit is {limits.max_waiting_tokens}"
            )

    def _queue_full(self, reason: str) -> QueueFull:
        num_rounds = self.num_waiting // self._limits.max_num_seqs
        return QueueFull(f"{reason}; try again later", retry_after=min(1 + num_rounds, 30))
