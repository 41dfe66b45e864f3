"""Images are named by their content, built once, and only with a builder that works here."""

import io
from pathlib import Path

import pytest

from dev.images.build import build_images
from dev.images.builder import DockerBuilder, ImageError
from dev.images.choose import choose_builder
from dev.images.names import ROOT, image_names
from tests.dev.conftest import FakeCommand


def test_names_follow_the_device_and_the_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    local = image_names("cpu")
    monkeypatch.setenv("OCTAVO_REGISTRY", "registry.example/team")
    assert local.engine.startswith("localhost/octavo-engine:")
    assert image_names("cuda").engine.startswith("registry.example/team/octavo-engine:")
    assert local.engine.endswith("-cpu")
    assert image_names("cuda").engine.endswith("-cuda")


def test_docker_without_a_daemon_is_passed_over(fake_command: FakeCommand) -> None:
    fake_command("docker", "exit 1")
    fake_command("podman", "")
    assert choose_builder() == DockerBuilder("podman")


def test_images_that_exist_are_not_built_again(fake_command: FakeCommand) -> None:
    docker = fake_command("docker", "")
    images = build_images("cpu")
    assert docker.read_text().splitlines() == [
        "info",
        f"image inspect {images.operator}",
        f"image inspect {images.engine}",
    ]


def test_docker_builds_the_target_for_the_device(fake_command: FakeCommand) -> None:
    docker = fake_command("docker", "")
    DockerBuilder("docker").build("engine", "localhost/engine:1", "cpu")
    assert docker.read_text().split() == [
        *("build", "--file", str(ROOT / "Dockerfile"), "--target", "engine", "--build-arg", "DEVICE=cpu"),
        *("--tag", "localhost/engine:1", str(ROOT)),
    ]


def test_failed_build_names_the_command(fake_command: FakeCommand) -> None:
    fake_command("docker", "exit 1")
    with pytest.raises(ImageError, match="docker build --target engine"):
        DockerBuilder("docker").build("engine", "localhost/engine:1", "cuda")


def test_archive_is_what_docker_saves(fake_command: FakeCommand, tmp_path: Path) -> None:
    fake_command("docker", 'test "$1" = save && echo archive of "$2"')
    with (tmp_path / "archive").open("w+b") as stream:
        DockerBuilder("docker").write_archive("localhost/engine:1", stream, ())
        stream.seek(0, io.SEEK_SET)
        assert stream.read() == b"archive of localhost/engine:1\n"
