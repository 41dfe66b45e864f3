"""octavo bench serve: load on a server. octavo bench throughput: the engine alone."""

import argparse
import asyncio
import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import aiohttp
import orjson
from rich.console import Console

from octavo_engine import flags
from octavo_engine.bench.client import Target
from octavo_engine.bench.lengths import FORMS
from octavo_engine.bench.load import Load, Outcome, run_load
from octavo_engine.bench.report import show, summarize
from octavo_engine.bench.workload import Workload, make_prompts
from octavo_engine.errors import OctavoError


def run(arguments: Sequence[str]) -> int:
    """0 if every request succeeded, else 1."""
    options, rest = _parser().parse_known_args(arguments)
    workload = _from_options(Workload, options)
    load = _from_options(Load, options)
    if options.mode == "serve":
        if rest:
            raise OctavoError(f"unknown argument {rest[0]!r}; see octavo bench serve --help")
        outcome = asyncio.run(_bench_server(options, workload, load))
    else:
        outcome = asyncio.run(_bench_engine(rest, workload, load))
    report = summarize(outcome) | {"workload": dataclasses.asdict(workload), "load": dataclasses.asdict(load)}
    show(report, Console())
    if options.json:
        options.json.write_bytes(orjson.dumps(report, option=orjson.OPT_INDENT_2))
    return 1 if report["num_failed"] else 0


async def _bench_server(options: argparse.Namespace, workload: Workload, load: Load) -> Outcome:
    api_key = options.api_key or os.environ.get("OPENAI_API_KEY")
    model = options.model or await _served_model(options.url, api_key)
    target = Target(options.url, model, options.api, options.temperature, options.ignore_eos, options.extra_body)
    return await run_load(target, make_prompts(workload), load, api_key)


async def _bench_engine(engine_flags: Sequence[str], workload: Workload, load: Load) -> Outcome:
    from octavo_engine.bench.offline import run_offline

    config = flags.parse(engine_flags, os.environ).engine
    if load.max_concurrency is None:
        load = dataclasses.replace(load, max_concurrency=workload.num_prompts)
    return await run_offline(config, make_prompts(workload), load)


async def _served_model(url: str, api_key: str | None) -> str:
    headers = {"authorization": f"Bearer {api_key}"} if api_key else {}
    try:
        async with (
            aiohttp.ClientSession(headers=headers, raise_for_status=True) as session,
            session.get(f"{url.rstrip('/')}/v1/models") as response,
        ):
            return str((await response.json())["data"][0]["id"])
    except aiohttp.ClientError as error:
        raise OctavoError(f"no server answers at {url}: {error}") from error


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="octavo bench", description=__doc__, allow_abbrev=False)
    modes = parser.add_subparsers(dest="mode", required=True)
    serve = modes.add_parser("serve", help="load on a server", allow_abbrev=False)
    _add_target(serve)
    throughput = modes.add_parser(
        "throughput", help="the engine alone", epilog="Any flag of octavo serve is taken too.", allow_abbrev=False
    )
    for mode in (serve, throughput):
        _add_workload(mode)
        mode.add_argument("--json", type=Path, metavar="FILE", help="write all figures to this file")
    serve.add_argument("--request-rate", type=float, help="mean arrivals per second; without it a closed loop")
    serve.add_argument("--burstiness", type=float, default=1.0, help="1 is Poisson, less is burstier")
    serve.add_argument("--timeout-seconds", type=float, default=600.0, help="of one request")
    return parser


def _add_target(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--model", help="the first that the server lists when left out")
    parser.add_argument("--api", choices=["completions", "chat"], default="completions")
    parser.add_argument("--api-key", help="or in OPENAI_API_KEY")
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument(
        "--ignore-eos", action=argparse.BooleanOptionalAction, default=True, help="answers have the asked length"
    )
    parser.add_argument("--extra-body", type=orjson.loads, default={}, metavar="JSON", help="added to every request")


def _add_workload(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--num-prompts", type=int, default=32)
    parser.add_argument("--input-len", default="128", help=f"tokens: {FORMS}")
    parser.add_argument("--output-len", default="64", help=f"tokens: {FORMS}")
    parser.add_argument("--prefix-share", type=float, default=0.0, help="share of each prompt that others have too")
    parser.add_argument("--num-prefixes", type=int, default=1, help="number of different common beginnings")
    parser.add_argument("--id-low", type=int, default=1000, help="least token id in prompts")
    parser.add_argument("--id-high", type=int, default=30000, help="token ids in prompts are below this")
    parser.add_argument("--max-concurrency", type=int, help="requests in flight; 1 if there is no rate either")
    parser.add_argument("--num-warmups", type=int, default=0, help="this many prompts are sent once before")
    parser.add_argument("--seed", type=int, default=0)


def _from_options(kind: type[Any], options: argparse.Namespace) -> Any:
    names = {field.name for field in dataclasses.fields(kind)} & vars(options).keys()
    return kind(**{name: getattr(options, name) for name in names})
