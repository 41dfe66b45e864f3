"""The command line: `octavo serve`, `octavo bench`, `octavo chat`, `octavo model`."""

import importlib
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version

from octavo_engine.errors import OctavoError

COMMANDS = {
    "serve": "serve a model over the OpenAI API",
    "bench": "measure a server, or the engine alone",
    "chat": "talk to a server from the terminal",
    "model": "convert a model into the directory that serve reads",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; its exit status. Commands are imported only when asked for, since some need torch."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    match arguments:
        case ["--version" | "-V", *_]:
            print(f"octavo {version('octavo')}")
            return 0
        case [command, *rest] if command in COMMANDS:
            return _run(_load(command), rest)
        case [] | ["--help" | "-h", *_]:
            print(_usage())
            return 0
    print(f"octavo: unknown command {arguments[0]!r}\n\n{_usage()}", file=sys.stderr)
    return 2


def _load(command: str) -> Callable[[Sequence[str]], int]:
    run: Callable[[Sequence[str]], int] = importlib.import_module(f"octavo_engine.cli.{command}").run
    return run


def _run(command: Callable[[Sequence[str]], int], arguments: Sequence[str]) -> int:
    try:
        return command(arguments)
    except OctavoError as error:
        print(f"octavo: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def _usage() -> str:
    lines = [f"  {name:8} {text}" for name, text in COMMANDS.items()]
    return "\n".join(["usage: octavo COMMAND [--help] …", "", *lines, "", "octavo --version prints the version."])
