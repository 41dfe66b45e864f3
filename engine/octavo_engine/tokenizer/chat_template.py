"""Renders a model's chat template in a sandbox."""

import datetime
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import jinja2
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from octavo_engine.errors import InvalidRequest, ModelError

Messages = Sequence[Mapping[str, str]]


class ChatTemplate:
    """A template sees `messages`, `add_generation_prompt`, and the names of the special tokens (`bos_token`, …)."""

    def __init__(self, source: str, special_tokens: Mapping[str, str]) -> None:
        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
        environment.filters["tojson"] = _to_json
        environment.globals["raise_exception"] = _raise
        environment.globals["strftime_now"] = _strftime_now
        try:
            self._template = environment.from_string(source)
        except jinja2.TemplateSyntaxError as error:
            raise ModelError(f"the model's chat template is not valid ({error}); give a corrected tokenizer") from error
        self._special_tokens = dict(special_tokens)

    def render(self, messages: Messages) -> str:
        """The conversation up to where the assistant begins. Raises `InvalidRequest` if the template refuses it."""
        try:
            return self._template.render(
                messages=[dict(message) for message in messages], add_generation_prompt=True, **self._special_tokens
            )
        except jinja2.TemplateError as error:
            raise InvalidRequest(
                f"the model's chat template refuses these messages: {error}", field="messages"
            ) from error


def find_chat_template(directory: Path, tokenizer_config: Mapping[str, Any]) -> str | None:
    """From chat_template.jinja, else tokenizer_config.json; of several named ones the one called default."""
    path = directory / "chat_template.jinja"
    if path.is_file():
        return path.read_text()
    template = tokenizer_config.get("chat_template")
    if isinstance(template, list):
        template = {entry["name"]: entry["template"] for entry in template}.get("default")
    return template


def find_special_tokens(tokenizer_config: Mapping[str, Any]) -> dict[str, str]:
    """Their contents by name; older files have objects where newer ones have strings."""
    values = {name: value for name, value in tokenizer_config.items() if name.endswith("_token") and value}
    contents = {name: value["content"] if isinstance(value, dict) else value for name, value in values.items()}
    return {name: content for name, content in contents.items() if isinstance(content, str)}


def _to_json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _raise(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def _strftime_now(format: str) -> str:
    return datetime.datetime.now().strftime(format)
