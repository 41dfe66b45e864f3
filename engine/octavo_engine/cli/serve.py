"""octavo serve MODEL"""

import os
from collections.abc import Sequence

from octavo_engine import flags, logs


def run(arguments: Sequence[str]) -> int:
    config = flags.parse(arguments, os.environ)
    logs.setup(config.server.log_format)
    from octavo_engine.server.run import run as run_server

    return run_server(config)
