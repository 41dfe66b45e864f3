"""From what a user calls a model to a local Hugging Face directory."""

import os
from pathlib import Path

from octavo_engine.errors import ModelError
from octavo_engine.models.bundled import bundled_directory, bundled_gguf, cache_directory

_PATTERNS = ["*.json", "*.safetensors", "*.jinja", "tokenizer.model"]


def resolve_model(uri: str, revision: str | None = None) -> Path:
    """A directory with config.json, from `bundled://name`, `hf://org/name`, `file:///path` or a plain path.

    Bundled models are converted and hub models downloaded on first use. Raises `ModelError` naming the remedy.
    """
    scheme, separator, rest = uri.partition("://")
    if not separator:
        return _local_directory(Path(uri), uri)
    match scheme:
        case "bundled":
            return bundled_directory(rest)
        case "file":
            return _local_directory(Path(rest), uri)
        case "hf":
            return _hub_directory(rest, revision)
    raise ModelError(f"model {uri!r} has an unknown scheme {scheme!r}; use bundled://, hf://, file:/// or a path")


def convert(uri: str, output: Path) -> Path:
    """Converts a bundled model or a GGUF file into the Hugging Face directory `output`."""
    from octavo_engine.models.gguf_convert import convert_gguf

    scheme, _, rest = uri.partition("://")
    gguf = bundled_gguf(rest) if scheme == "bundled" else Path(rest if scheme == "file" else uri)
    if not gguf.is_file():
        raise ModelError(f"{uri!r} is no GGUF file; give bundled://name or the path of a .gguf file")
    return convert_gguf(gguf, output)


def _local_directory(path: Path, uri: str) -> Path:
    path = path.expanduser()
    if not path.is_dir():
        remedy = "" if path.exists() else "; for a model from the hub write hf://org/name"
        raise ModelError(f"model {uri!r}: {path} is not a directory{remedy}")
    if not (path / "config.json").is_file():
        raise ModelError(f"model {uri!r}: {path} has no config.json; it must be a Hugging Face model directory")
    return path


def _hub_directory(repository: str, revision: str | None) -> Path:
    if repository.count("/") != 1 or not all(repository.split("/")):
        raise ModelError(f"model 'hf://{repository}' is not of the form hf://org/name")
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError

    try:
        cache = cache_directory() / "hub"
        directory = snapshot_download(
            repository, revision=revision, token=_hub_token(), cache_dir=cache, allow_patterns=_PATTERNS
        )
    except (HfHubHTTPError, OSError, ValueError) as error:
        at = f" at revision {revision!r}" if revision else ""
        remedy = "check the name and the network; a gated model needs HF_TOKEN or HF_TOKEN_PATH"
        raise ModelError(f"cannot download hf://{repository}{at}: {error}; {remedy}") from error
    return _local_directory(Path(directory), f"hf://{repository}")


def _hub_token() -> str | None:
    """From $HF_TOKEN, else from the file $HF_TOKEN_PATH (a mounted Secret), else the hub's own default."""
    if token := os.environ.get("HF_TOKEN"):
        return token.strip()
    path = os.environ.get("HF_TOKEN_PATH")
    return Path(path).read_text().strip() if path and Path(path).is_file() else None
