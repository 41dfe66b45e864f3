"""What is said at the end: the summary, how to go on, and, after a failure, where to look."""

from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.panel import Panel

from dev.demo.kubectl import Kubectl
from dev.demo.route import is_reachable
from dev.demo.steps import StepFailed
from dev.demo.timeline import Timeline

LOGS = {
    "operator.log": ["logs", "--namespace", "octavo-system", "--selector", "app.kubernetes.io/name=octavo-operator"],
    "engines.log": ["logs", "--selector", "app.kubernetes.io/name=octavo-engine", "--prefix", "--tail", "500"],
    "events.txt": ["get", "events", "--all-namespaces", "--sort-by", ".lastTimestamp"],
    "pods.txt": ["describe", "pods", "--all-namespaces"],
    "service.yaml": ["get", "infsvc", "--output", "yaml"],
}


def summarize(console: Console, timeline: Timeline, out: Path) -> None:
    figures = timeline.as_json()
    counts = " → ".join(str(count) for count in timeline.replica_counts())
    seconds = sum(step["seconds"] for step in timeline.steps)
    lines = [
        f"[bold]{figures['streams']}[/] streams, [bold]{figures['tokens']}[/] tokens, "
        f"[bold]{figures['cut_streams']}[/] streams cut",
        f"replicas {counts}",
        f"{seconds / 60:.1f} minutes; timeline in {out / 'demo.png'} and {out / 'demo.json'}",
    ]
    lines += [f"[red]cut: {escape(error)}[/]" for error in figures["errors"]]
    console.print(Panel("\n".join(lines), title="Summary", expand=False))


def say_how_to_go_on(console: Console, kubectl: Kubectl, url: str, name: str) -> None:
    if not is_reachable(url):
        forward = " ".join(kubectl.command("port-forward", f"service/{name}", "8000:80"))
        console.print(f"Let this machine reach the service:\n\n  {forward} &\n", markup=False, soft_wrap=True)
        url = "http://localhost:8000"
    command = " ".join(kubectl.command("get", "infsvc", name, "--watch"))
    body = f'{{"model": "{name}", "messages": [{{"role": "user", "content": "Hello!"}}], "stream": true}}'
    console.print("The service keeps running. Talk to it:\n", highlight=False)
    console.print(
        f"  curl --no-buffer {url}/v1/chat/completions -H 'Content-Type: application/json' \\\n    -d '{body}'\n",
        markup=False, highlight=False, soft_wrap=True,
    )  # fmt: skip
    console.print(f"Watch it:\n\n  {command}\n\nStop everything:\n\n  make demo-stop\n", markup=False, soft_wrap=True)


def say_what_failed(console: Console, step: str, error: Exception, logs: Path | str) -> None:
    console.print(f"[bold red]✗ The step '{step}' failed.[/]")
    console.print(f"  why:  {error}", markup=False, highlight=False, soft_wrap=True)
    console.print(f"  logs: {logs}", markup=False, highlight=False)


def collect_logs(kubectl: Kubectl, folder: Path) -> None:
    """Keep what explains a failure. What cannot be had says why in its own file."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, command in LOGS.items():
        try:
            text = kubectl.run(*command)
        except StepFailed as error:
            text = f"{error}\n"
        (folder / name).write_text(text, encoding="utf-8")
