"""Flags of `octavo serve`, spelled as vLLM's: every field of the configuration is a flag, an environment variable and a
key of the YAML file. The command line wins over the environment, and that over the file."""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, NoReturn, TypeVar, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from octavo_engine.config import EngineConfig
from octavo_engine.errors import ConfigError
from octavo_engine.server.settings import ServerSettings
from octavo_engine.unsupported_flags import UNSUPPORTED

ENV_PREFIX = "OCTAVO_"
FIELDS: dict[str, FieldInfo] = {**EngineConfig.model_fields, **ServerSettings.model_fields}
Values = dict[str, Any]
C = TypeVar("C", bound=BaseModel)


@dataclass(frozen=True)
class ServeConfig:
    engine: EngineConfig
    server: ServerSettings


def parse(argv: Sequence[str], environ: Mapping[str, str]) -> ServeConfig:
    """Read all sources. Raises ConfigError that names the flag at fault; prints help and exits if asked to."""
    given = _from_command_line(argv)
    config_file = given.pop("config", None) or environ.get(f"{ENV_PREFIX}CONFIG")
    values = (_from_file(Path(config_file)) if config_file else {}) | _from_environment(environ) | given
    if not values.get("model"):
        raise ConfigError("no model given: octavo serve MODEL, for example bundled://smollm2-135m-instruct")
    return ServeConfig(_build(EngineConfig, values), _build(ServerSettings, values))


def make_parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="octavo serve",
        description="Serve a model over the OpenAI API.",
        epilog=f"Every flag is also an environment variable ({ENV_PREFIX}MAX_NUM_SEQS) and a key of the --config file.",
        allow_abbrev=False,
        argument_default=argparse.SUPPRESS,
    )
    parser.add_argument("model_argument", nargs="?", metavar="MODEL", help=FIELDS["model"].description)
    parser.add_argument("--config", metavar="FILE", help="YAML file with any of these flags")
    for name, field in FIELDS.items():
        _add_flag(parser, name, field)
    for name in UNSUPPORTED:
        parser.add_argument(flag_of(name), nargs="?", const="true", help=argparse.SUPPRESS)
    return parser


def flag_of(name: str) -> str:
    return "--" + name.replace("_", "-")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ConfigError(message)


def _add_flag(parser: argparse.ArgumentParser, name: str, field: FieldInfo) -> None:
    if field.annotation is bool:
        parser.add_argument(
            flag_of(name), action=argparse.BooleanOptionalAction, help=f"{field.description} (default: {field.default})"
        )
    elif _is_list(field):
        parser.add_argument(flag_of(name), action="append", metavar=name.upper(), help=field.description)
    else:
        parser.add_argument(flag_of(name), metavar=name.upper(), help=_help(field))


def _help(field: FieldInfo) -> str:
    text = (field.description or "").replace("%", "%%")
    return text if field.is_required() or field.default is None else f"{text} (default: {field.default})"


def _from_command_line(argv: Sequence[str]) -> Values:
    namespace, unknown = make_parser().parse_known_args([_with_dashes(argument) for argument in argv])
    if unknown:
        raise _unknown(unknown[0].split("=")[0], "flag")
    given = vars(namespace)
    positional = given.pop("model_argument", None)
    if positional and given.setdefault("model", positional) != positional:
        raise ConfigError(f"two models given: {positional!r} and --model {given['model']!r}")
    return _without_unsupported(given)


def _with_dashes(argument: str) -> str:
    if not argument.startswith("--"):
        return argument
    name, equals, value = argument.partition("=")
    return name.replace("_", "-") + equals + value


def _from_environment(environ: Mapping[str, str]) -> Values:
    values: Values = {}
    for name in (*FIELDS, *UNSUPPORTED):
        text = environ.get(ENV_PREFIX + name.upper())
        if text is not None and not _is_service_link(text):
            values[name] = text.split(",") if name in FIELDS and _is_list(FIELDS[name]) else text
    return _without_unsupported(values)


def _is_service_link(text: str) -> bool:
    """Kubernetes sets OCTAVO_PORT=tcp://… in every pod beside a Service called octavo; that is no flag."""
    return text.startswith(("tcp://", "udp://"))


def _from_file(path: Path) -> Values:
    try:
        content = yaml.safe_load(path.read_text())
    except OSError as error:
        raise ConfigError(f"--config {path}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"--config {path}: not valid YAML: {error}") from error
    if not isinstance(content or {}, dict):
        raise ConfigError(f"--config {path}: expected a mapping of flags to values")
    values = {str(key).replace("-", "_"): value for key, value in (content or {}).items()}
    for name in values.keys() - FIELDS.keys() - UNSUPPORTED.keys():
        raise _unknown(name, f"key in --config {path}")
    return _without_unsupported(values)


def _without_unsupported(values: Values) -> Values:
    """Refuse what does not work yet, unless the value asks for what happens anyway."""
    for name, flag in UNSUPPORTED.items():
        if name in values and str(values[name]).lower() not in flag.neutral:
            raise ConfigError(f"{flag_of(name)} {values[name]}: {flag.reason}")
    return {name: value for name, value in values.items() if name not in UNSUPPORTED}


def _unknown(name: str, kind: str) -> ConfigError:
    if not name.startswith("-") and kind == "flag":
        return ConfigError(f"unexpected argument {name!r}; only one MODEL may be given")
    known = [flag_of(field) for field in FIELDS] if name.startswith("-") else list(FIELDS)
    close = get_close_matches(name, known, n=1)
    hint = f"; did you mean {close[0]}?" if close else "; see octavo serve --help"
    return ConfigError(f"unknown {kind} {name}{hint}")


def _build(config: type[C], values: Values) -> C:
    fields = config.model_fields
    mine = {name: _coerce(fields[name], value) for name, value in values.items() if name in fields}
    try:
        return config.model_validate(mine)
    except ValidationError as error:
        raise ConfigError(_explain(error.errors()[0])) from error


def _explain(error: ErrorDetails) -> str:
    message = error["msg"].removeprefix("Value error, ")
    return f"{flag_of(str(error['loc'][0]))} {error['input']}: {message}" if error["loc"] else message


def _coerce(field: FieldInfo, value: Any) -> Any:
    """Texts become numbers where pydantic would not do it by itself: in a choice of numbers."""
    choices = get_args(field.annotation) if get_origin(field.annotation) is Literal else ()
    if isinstance(value, str) and value.isdecimal() and int(value) in choices:
        return int(value)
    return [value] if _is_list(field) and isinstance(value, str) else value


def _is_list(field: FieldInfo) -> bool:
    return get_origin(field.annotation) is tuple
