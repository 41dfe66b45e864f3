"""Builders of images. docker and podman understand the same commands; buildah has a file of its own."""

import subprocess
from collections.abc import Collection
from dataclasses import dataclass
from typing import IO, Protocol

from dev.images.names import ROOT, Device

DOCKERFILE = ROOT / "Dockerfile"


class ImageError(Exception):
    """An image cannot be built, pushed or exported; the message says which, the lines above it say why."""


class Builder(Protocol):
    def has(self, reference: str) -> bool: ...

    def build(self, target: str, reference: str, device: Device) -> None: ...

    def push(self, reference: str) -> None: ...

    def write_archive(self, reference: str, stream: IO[bytes], present: Collection[str]) -> None:
        """Write an archive that containerd imports. It may leave out blobs whose digest is in `present`."""


@dataclass(frozen=True)
class DockerBuilder:
    program: str

    def has(self, reference: str) -> bool:
        return self._run("image", "inspect", reference, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def build(self, target: str, reference: str, device: Device) -> None:
        options = ["--file", str(DOCKERFILE), "--target", target, "--build-arg", f"DEVICE={device}"]
        if not self._run("build", *options, "--tag", reference, str(ROOT)):
            raise ImageError(f"{self.program} build --target {target} failed")

    def push(self, reference: str) -> None:
        if not self._run("push", reference):
            raise ImageError(f"{self.program} push {reference} failed")

    def write_archive(self, reference: str, stream: IO[bytes], present: Collection[str]) -> None:  # noqa: ARG002
        if not self._run("save", reference, stdout=stream):
            raise ImageError(f"{self.program} save {reference} failed")

    def _run(self, *args: str, stdout: IO[bytes] | int | None = None, stderr: int | None = None) -> bool:
        return subprocess.run([self.program, *args], stdout=stdout, stderr=stderr, check=False).returncode == 0
