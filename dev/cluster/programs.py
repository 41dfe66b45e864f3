"""kubectl and helm: those on PATH if they are new enough, else the ones that the embedded cluster is built with."""

import functools
import re
import shutil
import subprocess
from pathlib import Path

BUILD = Path(__file__).parent / "build.sh"
OLDEST_KUBECTL = (1, 30)
OLDEST_HELM = (3, 16)


@functools.cache
def embedded_programs() -> Path:
    """Return the directory of the embedded cluster's programs; builds them first if the cache has none."""
    built = subprocess.run([str(BUILD)], stdout=subprocess.PIPE, text=True, check=True)
    return Path(built.stdout.strip())


@functools.cache
def kubectl_program() -> Path:
    return _on_path("kubectl", ["version", "--client"], OLDEST_KUBECTL) or embedded_programs() / "kubectl"


@functools.cache
def helm_program() -> Path:
    return _on_path("helm", ["version", "--short"], OLDEST_HELM) or embedded_programs() / "helm"


def _on_path(name: str, version_args: list[str], oldest: tuple[int, int]) -> Path | None:
    program = shutil.which(name)
    if program is None:
        return None
    answer = subprocess.run([program, *version_args], capture_output=True, text=True, check=False).stdout
    found = re.search(r"v(\d+)\.(\d+)", answer)
    if found is None or (int(found[1]), int(found[2])) < oldest:
        return None
    return Path(program)
