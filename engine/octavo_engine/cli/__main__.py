"""python -m octavo_engine.cli, where the `octavo` script is not on the path."""

import sys

from octavo_engine.cli import main

if __name__ == "__main__":
    sys.exit(main())
