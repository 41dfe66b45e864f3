"""What the demo shows and leaves: steps, table, files; and what it says when something fails."""

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from dev.demo.chat import StreamResult
from dev.demo.farewell import LOGS, collect_logs, say_how_to_go_on, say_what_failed
from dev.demo.install import image_values
from dev.demo.kubectl import Kubectl
from dev.demo.picture import draw
from dev.demo.steps import StepFailed, Steps
from dev.demo.table import LiveTable
from dev.demo.timeline import Sample, Timeline
from dev.images.names import Images


@pytest.fixture
def output() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def console(output: io.StringIO) -> Console:
    return Console(file=output, width=200)


def fake_kubectl(folder: Path, script: str) -> Kubectl:
    program = folder / "kubectl"
    program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    program.chmod(0o755)
    return Kubectl(program, folder / "kubeconfig", "some-context", "some-namespace")


def sample(t: float, ready: int = 1, decision: str = "Keeping 1") -> Sample:
    return Sample(t, 0.5, 3, 4, ready, ready, 0, 12.0, decision)


def test_step_is_remembered_with_its_seconds(console: Console) -> None:
    steps = Steps(console)
    with steps.step("install", "Install"):
        pass
    assert [step["name"] for step in steps.finished] == ["install"]
    assert steps.finished[0]["seconds"] >= 0


def test_failed_step_is_named_with_its_reason_and_logs(console: Console, output: io.StringIO) -> None:
    steps = Steps(console)
    with pytest.raises(StepFailed) as failure, steps.step("ready", "Wait"):
        raise StepFailed("no node has room")
    say_what_failed(console, steps.current, failure.value, Path("out/demo-logs"))
    shown = output.getvalue()
    assert "'ready' failed" in shown
    assert "no node has room" in shown
    assert "out/demo-logs" in shown
    assert steps.finished == []


def test_kubectl_is_told_kubeconfig_context_and_namespace(tmp_path: Path) -> None:
    answer = fake_kubectl(tmp_path, 'echo "$@"').run("get", "pods")
    assert answer.split() == [
        *("--kubeconfig", str(tmp_path / "kubeconfig"), "--context", "some-context"),
        *("--namespace", "some-namespace", "get", "pods"),
    ]


def test_kubectl_failure_carries_its_own_words(tmp_path: Path) -> None:
    with pytest.raises(StepFailed, match="connection refused"):
        fake_kubectl(tmp_path, "echo 'connection refused' >&2; exit 1").run("get", "pods")


def test_proxy_address_is_read_and_the_proxy_ends(tmp_path: Path) -> None:
    kubectl = fake_kubectl(tmp_path, "echo 'Starting to serve on 127.0.0.1:4711'; exec sleep 60")
    with kubectl.proxy() as address:
        assert address == "http://127.0.0.1:4711"


def test_proxy_that_does_not_start_is_a_failed_step(tmp_path: Path) -> None:
    with pytest.raises(StepFailed, match="did not start"), fake_kubectl(tmp_path, "exit 1").proxy():
        pass


def test_logs_that_cannot_be_had_say_why(tmp_path: Path) -> None:
    collect_logs(fake_kubectl(tmp_path, "echo 'no such cluster' >&2; exit 1"), tmp_path / "logs")
    for name in LOGS:
        assert "no such cluster" in (tmp_path / "logs" / name).read_text(encoding="utf-8")


def test_images_become_helm_values_also_from_a_registry_with_a_port() -> None:
    values = image_values(Images("registry:5000/team/octavo-operator:1", "localhost/octavo-engine:2"))
    assert "image.repository=registry:5000/team/octavo-operator" in values
    assert "engine.image.tag=2" in values


def test_table_without_a_terminal_prints_what_is_new(console: Console, output: io.StringIO) -> None:
    with LiveTable(console) as table:
        for t, ready in ((0, 1), (1, 1), (2, 3), (3, 3), (12, 3)):
            table.show(sample(t, ready))
    times = [line.split()[0] for line in output.getvalue().splitlines()[1:]]
    assert times == ["0", "2", "12"]


def test_table_on_a_terminal_shows_decision_and_reason(output: io.StringIO) -> None:
    console = Console(file=output, width=200, force_terminal=True)
    with LiveTable(console) as table:
        table.show(sample(1, decision="Growing from 1 to 3: waitingPerReplica needs 12.00 replicas"))
    assert "waitingPerReplica needs 12.00 replicas" in output.getvalue()


def test_unreachable_service_is_explained_by_a_port_forward(
    console: Console, output: io.StringIO, tmp_path: Path
) -> None:
    say_how_to_go_on(console, fake_kubectl(tmp_path, ""), "http://127.0.0.1:1/proxy", "smollm2")
    shown = output.getvalue()
    assert "port-forward service/smollm2 8000:80" in shown
    assert "http://localhost:8000/v1/chat/completions" in shown
    assert "make demo-stop" in shown


def test_files_hold_what_was_promised(tmp_path: Path) -> None:
    timeline = Timeline(samples=[sample(0), sample(1, 3), sample(2)], marks=[(0.0, "crowd comes"), (2.0, "back to 1")])
    timeline.results = [StreamResult(num_tokens=5, finish_reason="stop", is_done=True), StreamResult(error="cut")]
    timeline.save(tmp_path / "demo.json")
    report = json.loads((tmp_path / "demo.json").read_text(encoding="utf-8"))
    assert (report["streams"], report["cut_streams"], report["tokens"]) == (2, 1, 5)
    assert report["replicas"][1] == {"t": 1, "ready": 3, "desired": 3}
    assert report.keys() >= {"steps", "decisions"}
    assert timeline.replica_counts() == [1, 3, 1]
    draw(timeline, tmp_path / "demo.png", kv_target=0.75)
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")
