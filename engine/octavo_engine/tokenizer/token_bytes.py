"""The bytes that each token stands for, from the description in tokenizer.json."""

import functools
import re
from collections.abc import Iterator
from typing import Any

from tokenizers import Tokenizer

from octavo_engine.errors import ModelError
from octavo_engine.tokenizer.detokenizer import TokenBytes

_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")


def make_token_bytes(tokenizer: Tokenizer, decoder: dict[str, Any] | None, skip_special: bool) -> TokenBytes:
    """A cached function from token id to bytes. Unknown ids, and special tokens if asked, give none.

    `decoder` is that part of tokenizer.json. Raises `ModelError` for kinds other than byte-level and sentencepiece.
    """
    kinds = {part["type"] for part in _parts(decoder)}
    if "ByteLevel" in kinds:
        to_bytes = _byte_level_bytes
    elif kinds & {"ByteFallback", "Metaspace"}:
        to_bytes = _sentencepiece_bytes
    else:
        raise ModelError(f"tokenizer.json has the decoder {sorted(kinds)}; supported are ByteLevel and ByteFallback")
    added = tokenizer.get_added_tokens_decoder()

    @functools.cache
    def token_bytes(token_id: int) -> bytes:
        if token_id in added:
            return b"" if skip_special and added[token_id].special else added[token_id].content.encode()
        token = tokenizer.id_to_token(token_id)
        return b"" if token is None else to_bytes(token)

    return token_bytes


def strips_leading_space(decoder: dict[str, Any] | None) -> bool:
    """Whether a space that begins the whole text is an artefact of the tokenizer."""
    for part in _parts(decoder):
        if part["type"] == "Strip" and part["content"] == " " and part["start"] == 1:
            return True
        if part["type"] == "Metaspace" and part.get("prepend_scheme", "always") != "never":
            return True
    return False


def _parts(decoder: dict[str, Any] | None) -> Iterator[dict[str, Any]]:
    if decoder is None:
        return
    if decoder["type"] != "Sequence":
        yield decoder
        return
    for part in decoder["decoders"]:
        yield from _parts(part)


def _byte_level_bytes(token: str) -> bytes:
    alphabet = _byte_alphabet()
    return b"".join(bytes((alphabet[char],)) if char in alphabet else char.encode() for char in token)


def _sentencepiece_bytes(token: str) -> bytes:
    if match := _BYTE_TOKEN.fullmatch(token):
        return bytes.fromhex(match[1])
    return token.replace("▁", " ").encode()


@functools.cache
def _byte_alphabet() -> dict[str, int]:
    """The printable character that stands for each byte in byte-level vocabularies. Source: GPT-2's encoder."""
    printable = {*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)}
    others = [byte for byte in range(256) if byte not in printable]
    shifted = {chr(256 + index): byte for index, byte in enumerate(others)}
    return {chr(byte): byte for byte in printable} | shifted
