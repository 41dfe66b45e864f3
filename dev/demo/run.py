"""The demo's steps in their order."""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

import yaml
from rich.console import Console

from dev.demo.ask import ask
from dev.demo.chat import StreamResult, make_client, stream_chat
from dev.demo.crowd import Crowd
from dev.demo.install import SYSTEM_NAMESPACE, create_namespace, install_operator, wait_ready
from dev.demo.kubectl import Kubectl
from dev.demo.load import LoadPlan, LoadTest
from dev.demo.observe import Watcher
from dev.demo.picture import draw
from dev.demo.route import service_url
from dev.demo.steps import Steps
from dev.demo.table import LiveTable
from dev.demo.timeline import Timeline
from dev.images.names import ROOT, Images

MANIFEST = ROOT / "manifests" / "smollm2-autoscale.yaml"
NAMESPACE = "octavo-demo"


@dataclass
class Demo:
    """One run. `kubectl` works in the demo's namespace."""

    console: Console
    steps: Steps
    helm: Path
    kubectl: Kubectl
    out: Path
    plan: LoadPlan = field(default_factory=LoadPlan)
    timeline: Timeline = field(default_factory=Timeline)

    def run(self, images: Images) -> tuple[str, str]:
        """From an empty cluster to replicas that came and went. Returns the service's name and URL."""
        self.install(images)
        name = self.serve()
        with self.kubectl.proxy() as proxy:
            url = service_url(self.kubectl, name, proxy)
            self.ask(url, name)
            self.load(url, proxy, name)
        return name, url

    def install(self, images: Images) -> None:
        with self.steps.step("install", "Install the operator with Helm"):
            create_namespace(self.kubectl, SYSTEM_NAMESPACE)
            install_operator(self.helm, self.kubectl, images)

    def serve(self) -> str:
        """Apply the example service, wait until it is Ready, and return its name."""
        manifest = MANIFEST.read_text(encoding="utf-8")
        name: str = yaml.safe_load(manifest)["metadata"]["name"]
        with self.steps.step("apply", f"Apply {MANIFEST.relative_to(ROOT)}"):
            create_namespace(self.kubectl, NAMESPACE)
            self.kubectl.run("delete", "infsvc", name, "--ignore-not-found")  # of an earlier demo
            self.kubectl.apply(manifest)
        with self.steps.step("ready", f"Wait until {name} is Ready"):
            wait_ready(self.kubectl, name, seconds=300)
        return name

    def ask(self, url: str, name: str) -> str:
        with self.steps.step("ask", "Ask a question through the OpenAI client", spins=False):
            return ask(url, name, self.console)

    def load(self, url: str, proxy: str, name: str) -> None:
        with self.steps.step("load", "A crowd comes and leaves; replicas follow", spins=False):
            asyncio.run(self.drive(url, proxy, name))

    async def drive(self, url: str, proxy: str, name: str) -> None:
        """Let the crowd come and leave; what is seen goes into the timeline."""
        watcher = Watcher(proxy, NAMESPACE, name)
        with LiveTable(self.console) as table:
            async with make_client(url) as client:

                async def chat(question: str, result: StreamResult) -> None:
                    await stream_chat(client, name, question, result)

                crowd = Crowd(chat)
                self.timeline.results = crowd.results
                await LoadTest(crowd, watcher, self.timeline, self.plan, table.show).run()

    @property
    def num_cut(self) -> int:
        return sum(result.is_cut for result in self.timeline.results)

    def save(self) -> None:
        """Write what was seen, whether the demo succeeded or not."""
        self.timeline.steps = self.steps.finished
        self.timeline.save(self.out / "demo.json")
        if self.timeline.samples:
            draw(self.timeline, self.out / "demo.png", kv_target=_kv_target())


def _kv_target() -> float:
    spec = yaml.safe_load(MANIFEST.read_text(encoding="utf-8"))["spec"]
    return float(spec["autoscaling"]["targets"]["kvCacheUtilization"])
