"""octavo model convert URI --output DIR"""

import argparse
from collections.abc import Sequence
from pathlib import Path


def run(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    from octavo_engine.models import convert

    print(convert(options.uri, options.output))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="octavo model", allow_abbrev=False)
    actions = parser.add_subparsers(dest="action", required=True)
    convert = actions.add_parser("convert", help="write the directory that serve reads")
    convert.add_argument("uri", metavar="URI", help="bundled://NAME or a GGUF file")
    convert.add_argument("--output", type=Path, required=True, metavar="DIR")
    return parser
