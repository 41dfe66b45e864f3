"""Text from a growing sequence of tokens."""

import codecs
from collections.abc import Callable, Sequence

TokenBytes = Callable[[int], bytes]


class IncrementalDetokenizer:
    """Releases whole characters as tokens arrive, and holds back what may yet become a stop string.

    The pieces of `push` and `flush` joined are the same text however the tokens are cut into pushes. Of several stop
    strings the one that is complete first ends the text; of those complete at once, the longest. `strips_space` drops
    one space that begins the whole text.
    """

    def __init__(
        self, token_bytes: TokenBytes, stop: Sequence[str] = (), include_stop: bool = False, strips_space: bool = False
    ) -> None:
        self._token_bytes = token_bytes
        self._stop = tuple(stop)
        self._include_stop = include_stop
        self._strips_space = strips_space
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""
        self._stop_reason: str | None = None

    @property
    def stop_reason(self) -> str | None:
        """The stop string that ended the text; what is pushed after it is ignored."""
        return self._stop_reason

    def push(self, token_ids: Sequence[int]) -> str:
        return self._release(self._decoder.decode(b"".join(map(self._token_bytes, token_ids))))

    def flush(self) -> str:
        """What was held back. An unfinished character becomes U+FFFD."""
        text = self._release(self._decoder.decode(b"", final=True))
        held, self._held = self._held, ""
        return text + held

    def _release(self, text: str) -> str:
        if self._stop_reason is not None:
            return ""
        if self._strips_space and text:
            text, self._strips_space = text.removeprefix(" "), False
        self._held += text
        if not self._stop:
            return self._take(len(self._held))
        found = _first_complete(self._held, self._stop)
        if found is None:
            return self._take(len(self._held) - _longest_beginning(self._held, self._stop))
        start, self._stop_reason = found
        released = self._take(start + len(self._stop_reason) if self._include_stop else start)
        self._held = ""
        return released

    def _take(self, length: int) -> str:
        released, self._held = self._held[:length], self._held[length:]
        return released


def _first_complete(text: str, stop: Sequence[str]) -> tuple[int, str] | None:
    """(start, stop string) of the occurrence that ends first in `text`."""
    found = [(start, string) for string in stop if (start := text.find(string)) >= 0]
    return min(found, key=lambda match: (match[0] + len(match[1]), match[0]), default=None)


def _longest_beginning(text: str, stop: Sequence[str]) -> int:
    """Length of the longest end of `text` with which some stop string begins."""
    longest = min(len(text), max(map(len, stop)) - 1)
    return next(
        (size for size in range(longest, 0, -1) if any(string.startswith(text[-size:]) for string in stop)),
        0,
    )
