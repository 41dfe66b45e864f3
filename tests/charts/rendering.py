"""Runs Helm on the chart. `python -m tests.charts.rendering` writes the goldens anew."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from dev.cluster.programs import helm_program

CHART = Path(__file__).parents[2] / "charts" / "octavo"
GOLDEN = Path(__file__).parent / "golden"

# Each golden is one way to install the chart.
CASES: dict[str, list[str]] = {
    "default": [],
    "two-replicas": ["--set", "replicaCount=2"],
    "namespaced": ["--set", "watchNamespaces={team-a,team-b}", "--set", "crds.install=false"],
    "digests": [
        *("--set", f"image.digest=sha256:{'a' * 64}"),
        *("--set", f"engine.image.digest=sha256:{'b' * 64}"),
    ],
}


def helm(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(helm_program()), *args], text=True, capture_output=True, check=False)


def template(*args: str, release: str = "octavo") -> list[dict[str, Any]]:
    """Return the objects of the chart, sorted as Helm installs them."""
    result = helm("template", release, str(CHART), "--namespace", "octavo-system", *args)
    if result.returncode:
        raise ValueError(result.stderr)
    return [document for document in yaml.safe_load_all(result.stdout) if document]


def golden_text(case: str) -> str:
    """Return the case's objects, but for the CustomResourceDefinition, which has a source and tests of its own."""
    objects = [each for each in template(*CASES[case]) if each["kind"] != "CustomResourceDefinition"]
    return yaml.safe_dump_all(objects, sort_keys=False, width=120)


if __name__ == "__main__":
    for name in sys.argv[1:] or CASES:
        (GOLDEN / f"{name}.yaml").write_text(golden_text(name), encoding="utf-8")
