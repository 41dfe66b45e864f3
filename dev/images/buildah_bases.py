"""What the Dockerfile's stages start from, where buildah cannot or need not take the ordinary way."""

import shutil
import subprocess
import sys
from pathlib import Path

from dev.images import slim_torch
from dev.images.buildah_command import TRUST, build_stage, buildah, container, has_image, logged, say, succeeds
from dev.images.names import ROOT, content_digest

PYTHON_IMAGE = "docker.io/library/python:3.11-slim"
PYTHON_STAGE = "localhost/octavo-python:3.11"
DEBIAN_PACKAGES = "ca-certificates,python3,python3-venv"
DEPENDENCIES = ("dev/images/buildah_bases.py", "dev/images/slim_torch.py", "requirements/engine.txt")


def make_base_image() -> None:
    """Get the official Python image, or make one of the same name from Debian's packages."""
    if has_image(PYTHON_IMAGE) or succeeds("pull", "--quiet", PYTHON_IMAGE):
        return
    say("no registry answers: making the base image from Debian's packages (a minute)")
    with container("scratch", PYTHON_IMAGE) as (name, root):
        logged(["debootstrap", "--variant=minbase", f"--include={DEBIAN_PACKAGES}", "bookworm", str(root)])
        (root / "usr/bin/python").symlink_to("python3")
        for unneeded in ("var/cache/apt/archives", "var/lib/apt/lists", "usr/share/doc", "usr/share/locale"):
            shutil.rmtree(root / unneeded)
        buildah("config", "--env=LANG=C.UTF-8", "--cmd=python3", name)


def make_cpu_dependencies() -> str:
    """Return the image that stands in for the stage engine-dependencies where there is no GPU."""
    image = f"localhost/octavo-engine-dependencies:{content_digest(*DEPENDENCIES)}-cpu"
    if has_image(image):
        return image
    say("installing the engine's dependencies for CPU nodes (one to four minutes)")
    build_stage("python", PYTHON_STAGE)
    with container(PYTHON_STAGE, image) as (name, root):
        run = ["run", "--isolation=chroot", "--network=host", *TRUST, *_uv_options(), name]
        install = ["uv", "pip", "install", "--python=/opt/octavo", "--require-hashes"]
        buildah(*run, "python3", "-m", "venv", "/opt/octavo")
        buildah(*run, *install, "--requirement=/requirements/engine.txt")
        say("  leaving out what only a GPU needs")
        (site_packages,) = root.glob("opt/octavo/lib/python3.*/site-packages")
        slim_torch.main(site_packages)
        say("  compiling bytecode")
        # Some of these files are written for other versions of Python.
        buildah(*run, "python3", "-m", "compileall", "-q", "-j0", "-x", "torch/testing/_internal", "/opt/octavo/lib")
    return image


def _uv_options() -> list[str]:
    uv = Path(sys.executable).with_name("uv")
    cache = subprocess.run([uv, "cache", "dir"], capture_output=True, text=True, check=True).stdout.strip()
    volumes = [f"{uv}:/usr/local/bin/uv:ro", f"{cache}:/uv-cache", f"{ROOT}/requirements:/requirements:ro"]
    settings = ["UV_CACHE_DIR=/uv-cache", "UV_LINK_MODE=copy", "UV_SYSTEM_CERTS=1"]
    return [*(f"--volume={each}" for each in volumes), *(f"--env={each}" for each in settings)]
