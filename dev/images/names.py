"""What the images are called. The tag is a digest of all that goes into them."""

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

ROOT = Path(__file__).parents[2]
LOCAL_REGISTRY = "localhost"
SOURCES = (
    "Dockerfile",
    "pyproject.toml",
    "README.md",
    "LICENSE",
    "dev/images",
    "requirements",
    "operator",
    "engine",
    "kernels",
)

Device = Literal["cpu", "cuda"]


@dataclass(frozen=True)
class Images:
    """References of the two images."""

    operator: str
    engine: str


def image_names(device: Device = "cpu") -> Images:
    """Name the images of the sources as they are now, in the registry OCTAVO_REGISTRY if it is set."""
    registry = os.environ.get("OCTAVO_REGISTRY", LOCAL_REGISTRY)
    tag = content_digest(*SOURCES)
    return Images(f"{registry}/octavo-operator:{tag}", f"{registry}/octavo-engine:{tag}-{device}")


def content_digest(*paths: str) -> str:
    """Return 12 hexadecimal digits of the names and contents of files and folders below the project's root."""
    digest = hashlib.sha256()
    for file in _files(paths):
        digest.update(f"{file.relative_to(ROOT)} {file.stat().st_size}\n".encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


def _files(paths: tuple[str, ...]) -> Iterator[Path]:
    for path in (ROOT / each for each in paths):
        found = path.rglob("*") if path.is_dir() else [path]
        yield from sorted(each for each in found if each.is_file() and each.suffix != ".pyc")
