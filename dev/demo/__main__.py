"""`python -m dev.demo`: the demo. `python -m dev.demo stop`: removes all that it started."""

import os
import subprocess
import sys
from pathlib import Path

from rich.console import Console

from dev.cluster.choose import start_cluster, stop_cluster
from dev.cluster.interface import Cluster, ClusterError
from dev.cluster.programs import helm_program
from dev.demo.farewell import collect_logs, say_how_to_go_on, say_what_failed, summarize
from dev.demo.install import uninstall
from dev.demo.kubectl import Kubectl
from dev.demo.run import NAMESPACE, Demo
from dev.demo.steps import StepFailed, Steps
from dev.images.build import build_images
from dev.images.builder import ImageError
from dev.images.names import Images

OUT = Path("out")
LOGS = OUT / "demo-logs"


def main() -> int:
    console = Console()
    steps = Steps(console)
    try:
        cluster, images = prepare(steps)
    except (ClusterError, ImageError, OSError, subprocess.CalledProcessError) as error:
        say_what_failed(console, steps.current, error, "the lines above")
        return 1
    return show(Demo(console, steps, helm_program(), kubectl_of(cluster), OUT), images)


def prepare(steps: Steps) -> tuple[Cluster, Images]:
    """Start the cluster and give it the images. Both print what they do: a first time takes minutes."""
    with steps.step("cluster", "Start a Kubernetes cluster", spins=False):
        cluster = start_cluster()
    with steps.step("images", "Build the images of operator and engine", spins=False):
        images = build_images()
    with steps.step("load-images", "Give the images to the cluster", spins=False):
        cluster.load_images([images.operator, images.engine])
    return cluster, images


def kubectl_of(cluster: Cluster) -> Kubectl:
    return Kubectl(cluster.kubectl, cluster.kubeconfig, cluster.context, NAMESPACE)


def show(demo: Demo, images: Images) -> int:
    """Run the demo on a cluster; after a failure keep the logs and say where they are."""
    try:
        name, url = demo.run(images)
    except (StepFailed, OSError, subprocess.SubprocessError) as error:
        collect_logs(demo.kubectl, LOGS)
        demo.save()
        say_what_failed(demo.console, demo.steps.current, error, str(LOGS))
        return 1
    demo.save()
    summarize(demo.console, demo.timeline, OUT)
    say_how_to_go_on(demo.console, demo.kubectl, url, name)
    return 0 if demo.num_cut == 0 else 1


def stop() -> int:
    """Remove the demo from the cluster that OCTAVO_CONTEXT names, else the whole cluster that the demo started."""
    try:
        if os.environ.get("OCTAVO_CONTEXT"):
            uninstall(helm_program(), kubectl_of(start_cluster()))
        else:
            stop_cluster()
    except (ClusterError, StepFailed, subprocess.SubprocessError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    if sys.argv[1:] not in ([], ["stop"]):
        sys.exit("usage: python -m dev.demo [stop]")
    try:
        sys.exit(stop() if sys.argv[1:] else main())
    except KeyboardInterrupt:
        sys.exit("interrupted; what was started goes on, `make demo-stop` removes it")
