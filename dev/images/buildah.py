"""The builder of machines without docker and podman: buildah needs no daemon."""

import json
import tarfile
from collections.abc import Collection
from pathlib import Path
from typing import IO

from dev.images.buildah_bases import make_base_image, make_cpu_dependencies
from dev.images.buildah_command import CACHE, RUN, STORAGE, build_stage, buildah, has_image, logged
from dev.images.names import Device


class BuildahBuilder:
    """Without a registry the base image is made of Debian's packages. For CPU nodes the Dockerfile's stage
    engine-dependencies is replaced by an image that uv fills from its cache, without another download."""

    def has(self, reference: str) -> bool:
        return has_image(reference)

    def build(self, target: str, reference: str, device: Device) -> None:
        make_base_image()
        options = [f"--build-arg=DEVICE={device}"]
        if target == "engine" and device == "cpu":
            options.append(f"--build-context=engine-dependencies=container-image://{make_cpu_dependencies()}")
        build_stage(target, reference, *options)

    def push(self, reference: str) -> None:
        buildah("push", reference)

    def write_archive(self, reference: str, stream: IO[bytes], present: Collection[str]) -> None:
        layout = _export(reference)
        with tarfile.open(fileobj=stream, mode="w|", bufsize=1 << 20) as archive:
            for path in [layout / "oci-layout", layout / "index.json", *_blobs(layout, present)]:
                archive.add(path, path.relative_to(layout))


def _export(reference: str) -> Path:
    """Copy an image to a directory in the OCI layout; uncompressed, so that layers are recognized by their digests."""
    layout = CACHE / "layouts" / reference.rpartition(":")[0].replace("/", "_")
    layout.mkdir(parents=True, exist_ok=True)
    (layout / "index.json").unlink(missing_ok=True)
    source = f"containers-storage:[overlay@{STORAGE}+{RUN}]{reference}"
    logged(["skopeo", "copy", "--quiet", "--dest-oci-accept-uncompressed-layers", source, f"oci:{layout}:{reference}"])
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
