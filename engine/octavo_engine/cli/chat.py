"""octavo chat: a conversation with a server in the terminal."""

import argparse
import os
from collections.abc import Iterator, Sequence
from typing import Any

import httpx
import orjson
from rich.console import Console

from octavo_engine.errors import OctavoError

HELP = "Ctrl-D ends the chat, Ctrl-C stops an answer, /new begins a new conversation."


def run(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    console = Console(highlight=False)
    key = options.api_key or os.environ.get("OPENAI_API_KEY")
    headers = {"authorization": f"Bearer {key}"} if key else {}
    with httpx.Client(base_url=options.url, headers=headers, timeout=httpx.Timeout(10, read=600)) as client:
        try:
            model = options.model or _served_model(client)
            console.print(f"[bold]{model}[/bold] at {options.url}. {HELP}")
            _talk(client, model, options.system, console)
        except httpx.HTTPError as error:
            raise OctavoError(f"no server answers at {options.url}: {error}") from error
    return 0


def _talk(client: httpx.Client, model: str, system: str | None, console: Console) -> None:
    start = [{"role": "system", "content": system}] if system else []
    messages = list(start)
    while (question := _read(console)) is not None:
        if question == "/new":
            messages = list(start)
        elif question:
            messages.append({"role": "user", "content": question})
            messages.append({"role": "assistant", "content": _show(_answer(client, model, messages), console)})


def _read(console: Console) -> str | None:
    try:
        return console.input("[bold cyan]> [/bold cyan]").strip()
    except EOFError:
        return None


def _show(parts: Iterator[str], console: Console) -> str:
    """Print the answer as it comes; what was said until Ctrl-C is kept."""
    said = []
    try:
        for part in parts:
            said.append(part)
            console.print(part, end="", markup=False)
    except KeyboardInterrupt:
        pass
    console.print()
    return "".join(said)


def _answer(client: httpx.Client, model: str, messages: list[dict[str, str]]) -> Iterator[str]:
    body = {"model": model, "messages": messages, "stream": True}
    with client.stream("POST", "/v1/chat/completions", json=body) as response:
        if response.status_code != 200:
            raise OctavoError(_message(response.read(), response.status_code))
        for line in response.iter_lines():
            if line.startswith("data: {"):
                yield _text(orjson.loads(line[6:]))


def _text(event: dict[str, Any]) -> str:
    if error := event.get("error"):
        raise OctavoError(error["message"])
    return "".join(choice["delta"].get("content") or "" for choice in event["choices"])


def _message(body: bytes, status: int) -> str:
    try:
        return str(orjson.loads(body)["error"]["message"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return f"the server answered with HTTP {status}"


def _served_model(client: httpx.Client) -> str:
    response = client.get("/v1/models")
    if response.status_code != 200:
        raise OctavoError(_message(response.content, response.status_code))
    return str(response.json()["data"][0]["id"])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="octavo chat", description=HELP, allow_abbrev=False)
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--model", help="the first that the server lists when left out")
    parser.add_argument("--api-key", help="or in OPENAI_API_KEY")
    parser.add_argument("--system", help="instruction that begins the conversation")
    return parser
