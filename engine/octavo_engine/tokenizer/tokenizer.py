"""The tokenizer of one model directory. Needs neither torch nor transformers."""

import json
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import tokenizers

from octavo_engine.errors import InvalidRequest, ModelError
from octavo_engine.tokenizer.chat_template import ChatTemplate, Messages, find_chat_template, find_special_tokens
from octavo_engine.tokenizer.detokenizer import IncrementalDetokenizer
from octavo_engine.tokenizer.token_bytes import make_token_bytes, strips_leading_space

_MARKS = [chr(code) for code in range(0xFDD0, 0xFDF0)]
"""Unicode noncharacters: no text has a use for all of them, and no vocabulary a special token with one."""


class Tokenizer:
    def __init__(self, description: str, chat_template: ChatTemplate | None) -> None:
        """`description` is the content of tokenizer.json."""
        self._description = description
        self._tokenizer = tokenizers.Tokenizer.from_str(description)
        self._chat_template = chat_template
        decoder = json.loads(description).get("decoder")
        self._visible_bytes = make_token_bytes(self._tokenizer, decoder, skip_special=True)
        self._all_bytes = make_token_bytes(self._tokenizer, decoder, skip_special=False)
        self._strips_space = strips_leading_space(decoder)
        added = self._tokenizer.get_added_tokens_decoder()
        self._special_ids = {token.content: token_id for token_id, token in added.items() if token.special}
        self._special = re.compile(
            "|".join(map(re.escape, sorted(self._special_ids, key=len, reverse=True))) or r"(?!)"
        )

    @property
    def has_chat_template(self) -> bool:
        return self._chat_template is not None

    @property
    def vocab_size(self) -> int:
        return int(self._tokenizer.get_vocab_size())

    @cached_property
    def max_chars_per_token(self) -> int:
        """No token covers more characters of a text than this."""
        return max(map(len, self._tokenizer.get_vocab()))

    def encode(self, text: str) -> list[int]:
        """Token ids of a raw prompt: special tokens in it are recognised, and the model's own prefix is added."""
        return _ids(self._tokenizer, text, add_special_tokens=True)

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of token ids, special tokens included."""
        detokenizer = IncrementalDetokenizer(self._all_bytes, strips_space=self._strips_space)
        return detokenizer.push(token_ids) + detokenizer.flush()

    def detokenizer(self, stop: Sequence[str] = (), include_stop: bool = False) -> IncrementalDetokenizer:
        """For the tokens of one answer; special tokens are not shown."""
        return IncrementalDetokenizer(self._visible_bytes, stop, include_stop, self._strips_space)

    def apply_chat_template(self, messages: Messages) -> list[int]:
        """Token ids up to where the assistant begins. What a message contains is text, never a special token.

        Raises `InvalidRequest` when there is no template, or it refuses the messages.
        """
        if self._chat_template is None:
            raise InvalidRequest("the model has no chat template; use /v1/completions", field="messages")
        mark, marked = self._mark_special(messages)
        rendered = self._chat_template.render(marked)
        if mark is None:
            return _ids(self._tokenizer, rendered)
        return self._encode_marked(rendered, mark)

    def _mark_special(self, messages: Messages) -> tuple[str | None, Messages]:
        """Puts a mark into each special token typed in a message, so that it survives the template as text."""
        contents = "".join(value for message in messages for value in message.values())
        if not self._special.search(contents):
            return None, messages
        mark = next((mark for mark in _MARKS if mark not in contents), None)
        if mark is None:
            raise InvalidRequest("a message holds every Unicode noncharacter; remove one", field="messages")
        return mark, [{key: self._mark(value, mark) for key, value in message.items()} for message in messages]

    def _mark(self, text: str, mark: str) -> str:
        return self._special.sub(lambda match: match[0][0] + mark + match[0][1:], text)

    def _encode_marked(self, rendered: str, mark: str) -> list[int]:
        ids: list[int] = []
        start = 0
        for match in self._special.finditer(rendered):
            ids += self._encode_plain(rendered[start : match.start()].replace(mark, ""))
            ids.append(self._special_ids[match[0]])
            start = match.end()
        return ids + self._encode_plain(rendered[start:].replace(mark, ""))

    def _encode_plain(self, text: str) -> list[int]:
        return _ids(self._plain_tokenizer, text)

    @cached_property
    def _plain_tokenizer(self) -> tokenizers.Tokenizer:
        """Reads special tokens as text. Made when first needed, for it takes as much memory as the other."""
        tokenizer = tokenizers.Tokenizer.from_str(self._description)
        tokenizer.encode_special_tokens = True
        return tokenizer


def _ids(tokenizer: tokenizers.Tokenizer, text: str, add_special_tokens: bool = False) -> list[int]:
    """As a batch of one: unlike `encode` that lets other threads run meanwhile, and skips the offsets."""
    ids: list[int] = tokenizer.encode_batch_fast([text], add_special_tokens=add_special_tokens)[0].ids
    return ids


def load_tokenizer(directory: Path) -> Tokenizer:
    """From tokenizer.json and tokenizer_config.json. Raises `ModelError` when they are missing or broken."""
    path = directory / "tokenizer.json"
    if not path.is_file():
        raise ModelError(f"{directory} has no tokenizer.json; save it in the fast format, or pass --tokenizer")
    config = _read_config(directory)
    source = find_chat_template(directory, config)
    template = ChatTemplate(source, find_special_tokens(config)) if source else None
    try:
        return Tokenizer(path.read_text(), template)
    except ModelError:
        raise
    except Exception as error:  # the library raises plain Exception for a broken file
        raise ModelError(f"{path} cannot be read ({error}); download or convert the model again") from error


def _read_config(directory: Path) -> Mapping[str, Any]:
    path = directory / "tokenizer_config.json"
    if not path.is_file():
        return {}
    try:
        config: Mapping[str, Any] = json.loads(path.read_text())
    except ValueError as error:
        raise ModelError(f"{path} is not valid JSON ({error})") from error
    return config
