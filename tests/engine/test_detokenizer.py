"""Streamed text, for every way to cut tokens into pushes. Tokens are bytes here: any character can be cut."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from octavo_engine.tokenizer import IncrementalDetokenizer

STOPS = st.lists(st.text("abé日😀 ", min_size=1, max_size=4), max_size=3)
BYTES = st.one_of(st.text("abé日😀 ", max_size=40).map(str.encode), st.binary(max_size=40))


def one_byte(token_id: int) -> bytes:
    return bytes((token_id,))


def stream(data: bytes, cuts: list[int], stop: list[str], include_stop: bool) -> tuple[list[str], str | None]:
    detokenizer = IncrementalDetokenizer(one_byte, stop, include_stop)
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    pieces = [detokenizer.push(list(data[start:end])) for start, end in itertools.pairwise(edges)]
    return [*pieces, detokenizer.flush()], detokenizer.stop_reason


@given(BYTES, st.lists(st.integers(0, 100), max_size=20), STOPS, st.booleans())
def test_pieces_joined_are_the_text_however_tokens_are_cut(
    data: bytes, cuts: list[int], stop: list[str], include_stop: bool
) -> None:
    pieces, reason = stream(data, cuts, stop, include_stop)
    whole, whole_reason = stream(data, [], stop, include_stop)
    assert "".join(pieces) == "".join(whole)
    assert reason == whole_reason


@given(BYTES, st.lists(st.integers(0, 100), max_size=20))
def test_without_stop_strings_the_text_is_the_whole_decoding(data: bytes, cuts: list[int]) -> None:
    pieces, _ = stream(data, cuts, [], False)
    assert "".join(pieces) == data.decode("utf-8", errors="replace")


@given(BYTES, st.lists(st.integers(0, 100), max_size=20), STOPS)
def test_a_stop_string_never_leaks(data: bytes, cuts: list[int], stop: list[str]) -> None:
    pieces, reason = stream(data, cuts, stop, False)
    text = "".join(pieces)
    assert not any(string in text for string in stop)
    assert (reason is not None) == any(string in data.decode("utf-8", errors="replace") for string in stop)


@given(st.text("abc", max_size=40), STOPS.filter(bool))
def test_no_more_than_the_longest_beginning_of_a_stop_string_is_held_back(text: str, stop: list[str]) -> None:
    detokenizer = IncrementalDetokenizer(one_byte, stop)
    shown = ""
    for position, char in enumerate(text.encode(), 1):
        shown += detokenizer.push([char])
        if detokenizer.stop_reason is not None:
            return
        held = text[len(shown) : position]
        assert not held or any(string.startswith(held) and string != held for string in stop)


def test_the_stop_string_that_is_complete_first_ends_the_text() -> None:
    pieces, reason = stream(b"xabcd", [], ["abcd", "bc"], False)
    assert ("".join(pieces), reason) == ("xa", "bc")


def test_a_stop_string_can_be_part_of_the_text_if_asked() -> None:
    pieces, reason = stream(b"one. two", [], ["."], True)
    assert ("".join(pieces), reason) == ("one.", ".")


def test_a_character_arrives_whole() -> None:
    detokenizer = IncrementalDetokenizer(one_byte)
    assert [detokenizer.push([byte]) for byte in "é😀".encode()] == ["", "é", "", "", "", "😀"]


def test_what_was_held_back_is_flushed_at_the_end() -> None:
    detokenizer = IncrementalDetokenizer(one_byte, ["<end>"])
    assert detokenizer.push(list(b"text <en")) == "text "
    assert detokenizer.flush() == "<en"


def test_nothing_follows_a_stop_string() -> None:
    detokenizer = IncrementalDetokenizer(one_byte, ["."])
    assert detokenizer.push(list(b"a. b")) == "a"
    assert detokenizer.push(list(b"c")) == ""
    assert detokenizer.flush() == ""


def test_one_space_at_the_very_beginning_is_dropped_if_the_tokenizer_adds_it() -> None:
    detokenizer = IncrementalDetokenizer(one_byte, strips_space=True)
    assert [detokenizer.push([byte]) for byte in b" a b"] == ["", "a", " ", "b"]
