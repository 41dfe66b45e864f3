"""Calls of buildah, with a storage of the project's own in the user's cache. Needs root."""

import contextlib
import os
import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from dev.images.builder import DOCKERFILE, ImageError
from dev.images.names import ROOT

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "octavo" / "images"
STORAGE = CACHE / "storage"
RUN = CACHE / "run"
LOG = CACHE / "build.log"
# What lets pip and uv trust this machine's certificates while they run; nothing of it stays in the image.
TRUST = [
    f"--volume={path}:{path}:ro"
    for path in ("/etc/ssl/certs/ca-certificates.crt", "/etc/pip.conf")
    if Path(path).exists()
]


def buildah(*args: str) -> None:
    """Run to the end. All output goes to the log; of a build, the steps that take time are shown."""
    logged(_command(*args))


def succeeds(*args: str) -> bool:
    return subprocess.run(_command(*args), capture_output=True, check=False).returncode == 0


def output(*args: str) -> str:
    return subprocess.run(_command(*args), stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def has_image(reference: str) -> bool:
    return succeeds("inspect", "--type", "image", reference)


def build_stage(target: str, reference: str, *options: str) -> None:
    """Build a stage of the Dockerfile. Layers that exist already are used again."""
    where = ["--isolation=chroot", "--network=host", "--pull-never", "--layers", f"--file={DOCKERFILE}"]
    buildah("bud", *where, *TRUST, *options, f"--target={target}", f"--tag={reference}", str(ROOT))


@contextlib.contextmanager
def container(base: str, image: str) -> Iterator[tuple[str, Path]]:
    """Give a container's name and its mounted root; what it is at the end becomes `image`."""
    name = output("from", "--pull-never", base)
    try:
        yield name, Path(output("mount", name))
        buildah("commit", "--quiet", name, image)
    finally:
        buildah("rm", name)


def logged(command: list[str]) -> None:
    CACHE.mkdir(parents=True, exist_ok=True)
    last: deque[str] = deque(maxlen=20)
    with (
        LOG.open("a", encoding="utf-8") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            log.write(line)
            last.append(line)
            if " STEP " in line and ": RUN " in line:
                say(f"  {line.strip():.100}")
    if process.returncode:
        say("".join(last))
        raise ImageError(f"{' '.join(command[:5])} … failed: see {LOG}")


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _command(*args: str) -> list[str]:
    return ["buildah", f"--root={STORAGE}", f"--runroot={RUN}", "--storage-driver=overlay", *args]
