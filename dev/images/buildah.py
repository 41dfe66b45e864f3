"""buildah needs no daemon. Its images live in a storage of the project's own, in the user's cache. Needs root.

Without a registry the base image is made of Debian's packages. For CPU nodes the Dockerfile's stage engine-dependencies
is replaced by an image that uv fills from its cache and that is slimmed outside the build: a third of the time.
"""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import IO

from dev.images import slim_torch
from dev.images.builder import DOCKERFILE, ImageError
from dev.images.names import ROOT, Device, content_digest

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "octavo" / "images"
STORAGE = CACHE / "storage"
RUN = CACHE / "run"
PYTHON_IMAGE = "docker.io/library/python:3.11-slim"
PYTHON_STAGE = "localhost/octavo-python:3.11"
DEBIAN_PACKAGES = "ca-certificates,python3,python3-venv"
DEPENDENCIES = (
    "dev/images/buildah.py",
    "requirements/engine.txt",
    "requirements/bundled-model.txt",
    "dev/images/slim_torch.py",
)
# What lets pip and uv trust this machine's certificates while they run; nothing of it stays in the image.
TRUST = [
    f"--volume={path}:{path}:ro"
    for path in ("/etc/ssl/certs/ca-certificates.crt", "/etc/pip.conf")
    if Path(path).exists()
]


class BuildahBuilder:
    def has(self, reference: str) -> bool:
        return _succeeds("inspect", "--type", "image", reference)

    def build(self, target: str, reference: str, device: Device) -> None:
        make_base_image()
        options = [f"--build-arg=DEVICE={device}"]
        if target == "engine" and device == "cpu":
            options.append(f"--build-context=engine-dependencies=container-image://{make_cpu_dependencies()}")
        _build(target, reference, *options)

    def push(self, reference: str) -> None:
        _buildah("push", reference)

    def write_archive(self, reference: str, stream: IO[bytes], present: Collection[str]) -> None:
        layout = _export(reference)
        with tarfile.open(fileobj=stream, mode="w|", bufsize=1 << 20) as archive:
            for path in [layout / "oci-layout", layout / "index.json", *_blobs(layout, present)]:
                archive.add(path, path.relative_to(layout))


def make_base_image() -> None:
    """Get the official Python image, or make one of the same name from Debian's packages."""
    if _succeeds("inspect", "--type", "image", PYTHON_IMAGE) or _succeeds("pull", "--quiet", PYTHON_IMAGE):
        return
    _say("no registry answers: making the base image from Debian's packages (a minute)")
    with _container("scratch", PYTHON_IMAGE) as (container, root):
        options = ["--variant=minbase", f"--include={DEBIAN_PACKAGES}", "bookworm", str(root)]
        _check(["debootstrap", *options], stdout=subprocess.DEVNULL)
        (root / "usr/bin/python").symlink_to("python3")
        for unneeded in ("var/cache/apt/archives", "var/lib/apt/lists", "usr/share/doc", "usr/share/locale"):
            shutil.rmtree(root / unneeded)
        _buildah("config", "--env=LANG=C.UTF-8", "--cmd=python3", container)


def make_cpu_dependencies() -> str:
    """Return the image that stands in for the stage engine-dependencies where there is no GPU."""
    image = f"localhost/octavo-engine-dependencies:{content_digest(*DEPENDENCIES)}-cpu"
    if _succeeds("inspect", "--type", "image", image):
        return image
    _say("installing the engine's dependencies for CPU nodes (one to three minutes)")
    _build("python", PYTHON_STAGE)
    with _container(PYTHON_STAGE, image) as (container, root):
        run = ["run", "--isolation=chroot", "--network=host", *TRUST, *_uv_options(), container]
        install = ["uv", "pip", "install", "--python=/opt/octavo", "--require-hashes"]
        _buildah(*run, "python3", "-m", "venv", "/opt/octavo")
        _buildah(*run, *install, "--requirement=/requirements/engine.txt")
        (site_packages,) = root.glob("opt/octavo/lib/python3.*/site-packages")
        slim_torch.main(site_packages)
        _buildah(*run, "python3", "-m", "compileall", "-q", "-j0", "-x", "torch/testing/_internal", "/opt/octavo/lib")
    return image


def _uv_options() -> list[str]:
    uv = Path(sys.executable).with_name("uv")
    cache = subprocess.run([uv, "cache", "dir"], capture_output=True, text=True, check=True).stdout.strip()
    volumes = [f"{uv}:/usr/local/bin/uv:ro", f"{cache}:/uv-cache", f"{ROOT}/requirements:/requirements:ro"]
    settings = ["UV_CACHE_DIR=/uv-cache", "UV_LINK_MODE=copy", "UV_SYSTEM_CERTS=1"]
    return [*(f"--volume={each}" for each in volumes), *(f"--env={each}" for each in settings)]


@contextlib.contextmanager
def _container(base: str, image: str) -> Iterator[tuple[str, Path]]:
    """Give a container's name and its mounted root; what it is at the end becomes `image`."""
    container = _output("from", "--pull-never", base)
    try:
        yield container, Path(_output("mount", container))
        _buildah("commit", "--quiet", container, image)
    finally:
        _buildah("rm", container)


def _build(target: str, reference: str, *options: str) -> None:
    """Build a stage of the Dockerfile. Layers that exist already are used again."""
    where = ["--isolation=chroot", "--network=host", "--pull-never", "--layers", f"--file={DOCKERFILE}"]
    _buildah("bud", *where, *TRUST, *options, f"--target={target}", f"--tag={reference}", str(ROOT))


def _export(reference: str) -> Path:
    """Copy an image to a directory in the OCI layout; uncompressed, so that layers are recognized by their digests."""
    layout = CACHE / "layouts" / reference.rpartition(":")[0].replace("/", "_")
    layout.mkdir(parents=True, exist_ok=True)
    (layout / "index.json").unlink(missing_ok=True)
    source = f"containers-storage:[overlay@{STORAGE}+{RUN}]{reference}"
    _check(["skopeo", "copy", "--quiet", "--dest-oci-accept-uncompressed-layers", source, f"oci:{layout}:{reference}"])
    wanted = set(_blobs(layout, ()))
    for blob in (layout / "blobs/sha256").iterdir():
        if blob not in wanted:
            blob.unlink()
    return layout


def _blobs(layout: Path, present: Collection[str]) -> list[Path]:
    """Return the files of an image's manifest, settings and layers, without those whose digest is in `present`."""
    manifest_digest = json.loads((layout / "index.json").read_text())["manifests"][0]["digest"]
    manifest = json.loads(_blob(layout, manifest_digest).read_text())
    digests = [manifest_digest, manifest["config"]["digest"], *(layer["digest"] for layer in manifest["layers"])]
    return [_blob(layout, digest) for digest in dict.fromkeys(digests) if digest not in present]


def _blob(layout: Path, digest: str) -> Path:
    return layout / "blobs" / digest.replace(":", "/")


def _command(*args: str) -> list[str]:
    return ["buildah", f"--root={STORAGE}", f"--runroot={RUN}", "--storage-driver=overlay", *args]


def _succeeds(*args: str) -> bool:
    return subprocess.run(_command(*args), capture_output=True, check=False).returncode == 0


def _output(*args: str) -> str:
    return subprocess.run(_command(*args), stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def _buildah(*args: str) -> None:
    _check(_command(*args), stdout=sys.stderr)


def _check(command: list[str], stdout: IO[str] | int | None = None) -> None:
    if subprocess.run(command, stdout=stdout, check=False).returncode:
        raise ImageError(f"{' '.join(command)} failed")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
