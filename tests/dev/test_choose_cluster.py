"""`make cluster` takes OCTAVO_CONTEXT, else kind, else the embedded cluster, and keeps to a kubeconfig of its own."""

from pathlib import Path

import pytest

from dev.cluster.choose import has_kind, own_kubeconfig, start_cluster, stop_cluster
from dev.cluster.existing import ExistingCluster
from dev.cluster.interface import ClusterError
from dev.cluster.kind import KindCluster
from dev.cluster.programs import kubectl_program
from tests.dev.conftest import FakeCommand

USERS_KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: production
contexts:
- {name: production, context: {cluster: production, user: admin}}
- {name: staging, context: {cluster: staging, user: admin}}
clusters:
- {name: production, cluster: {server: "https://production.example"}}
- {name: staging, cluster: {server: "https://staging.example"}}
users:
- {name: admin, user: {token: secret}}
"""


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kubectl_program()  # it may come from the cache that the tests do not use
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("OCTAVO_CONTEXT", raising=False)


@pytest.fixture
def users_kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "users-config"
    path.write_text(USERS_KUBECONFIG)
    monkeypatch.setenv("KUBECONFIG", str(path))
    return path


def test_named_context_is_copied_alone_and_the_users_file_stays(
    users_kubeconfig: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OCTAVO_CONTEXT", "staging")
    cluster = start_cluster()
    copied = cluster.kubeconfig.read_text()
    assert cluster.context == "staging"
    assert "staging.example" in copied
    assert "production.example" not in copied
    assert cluster.kubeconfig.stat().st_mode & 0o077 == 0
    assert users_kubeconfig.read_text() == USERS_KUBECONFIG


@pytest.mark.usefixtures("users_kubeconfig")
def test_unknown_context_is_an_error_that_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCTAVO_CONTEXT", "misspelt")
    with pytest.raises(ClusterError, match=r"OCTAVO_CONTEXT=misspelt.*get-contexts"):
        start_cluster()


def test_local_image_cannot_be_given_to_an_existing_cluster() -> None:
    with pytest.raises(ClusterError, match="OCTAVO_REGISTRY"):
        ExistingCluster(Path("kubeconfig"), "staging").load_images(["localhost/octavo-engine:1"])


def test_images_of_a_registry_are_pushed_for_an_existing_cluster(fake_command: FakeCommand) -> None:
    docker = fake_command("docker", "")
    ExistingCluster(Path("kubeconfig"), "staging").load_images(["registry.example/octavo-engine:1"])
    assert docker.read_text().splitlines()[-1] == "push registry.example/octavo-engine:1"


def test_kind_is_created_with_a_kubeconfig_of_its_own(fake_command: FakeCommand) -> None:
    fake_command("docker", "")
    kind = fake_command("kind", "")
    cluster = start_cluster()
    assert isinstance(cluster, KindCluster)
    assert kind.read_text().splitlines() == [
        "get clusters",
        f"create cluster --name octavo --kubeconfig {own_kubeconfig('kind')} --wait 3m",
    ]


def test_kind_cluster_that_runs_is_used_again(fake_command: FakeCommand) -> None:
    fake_command("docker", "")
    kind = fake_command("kind", 'if [ "$1" = get ]; then echo octavo; fi')
    start_cluster()
    assert kind.read_text().splitlines()[-1] == f"export kubeconfig --name octavo --kubeconfig {own_kubeconfig('kind')}"


def test_kind_gets_images_and_is_deleted(fake_command: FakeCommand) -> None:
    fake_command("docker", "")
    kind = fake_command("kind", "")
    KindCluster(own_kubeconfig("kind")).load_images(["localhost/a:1", "localhost/b:1"])
    stop_cluster()
    assert kind.read_text().splitlines() == [
        "load docker-image localhost/a:1 localhost/b:1 --name octavo",
        f"delete cluster --name octavo --kubeconfig {own_kubeconfig('kind')}",
    ]


def test_failure_of_kind_is_an_error_that_names_the_command(fake_command: FakeCommand) -> None:
    fake_command("docker", "")
    fake_command("kind", 'test "$1" = get')
    with pytest.raises(ClusterError, match="kind create cluster"):
        start_cluster()


def test_kind_without_a_docker_daemon_is_not_used(fake_command: FakeCommand) -> None:
    fake_command("docker", "exit 1")
    fake_command("kind", "")
    assert not has_kind()
