"""Chooses the builder."""

import shutil
import subprocess

from dev.images.buildah import BuildahBuilder
from dev.images.builder import Builder, DockerBuilder, ImageError
from dev.images.names import ROOT

BUILDAH_PACKAGES = ("buildah", "skopeo", "debootstrap", "binutils", "gcc", "libc6-dev")


def choose_builder() -> Builder:
    """Return docker if its daemon runs, else podman if it is installed, else buildah, which is installed if need be."""
    if docker_answers():
        return DockerBuilder("docker")
    if shutil.which("podman"):
        return DockerBuilder("podman")
    if subprocess.run([ROOT / "dev" / "packages.sh", *BUILDAH_PACKAGES], check=False).returncode:
        raise ImageError("no Docker daemon and no podman here, and buildah cannot be installed: see the lines above")
    return BuildahBuilder()


def docker_answers() -> bool:
    """Whether a Docker daemon runs: the client is often there without one."""
    if shutil.which("docker") is None:
        return False
    return subprocess.run(["docker", "info"], capture_output=True, check=False).returncode == 0
