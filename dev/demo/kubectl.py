"""kubectl for one cluster and namespace."""

import contextlib
import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dev.demo.steps import StepFailed


@dataclass(frozen=True)
class Kubectl:
    """Every call names kubeconfig and context, so that the user's current context is never used unasked."""

    program: Path
    kubeconfig: Path
    context: str
    namespace: str

    def command(self, *args: str) -> list[str]:
        target = ["--kubeconfig", str(self.kubeconfig), "--context", self.context, "--namespace", self.namespace]
        return [str(self.program), *target, *args]

    def run(self, *args: str, stdin: str | None = None, timeout: float = 120) -> str:
        """Return standard output; raise `StepFailed` with kubectl's own words."""
        result = subprocess.run(
            self.command(*args), input=stdin, text=True, capture_output=True, timeout=timeout, check=False
        )
        if result.returncode:
            raise StepFailed(f"kubectl {' '.join(args[:3])}: {result.stderr.strip() or result.stdout.strip()}")
        return result.stdout

    def get(self, *args: str) -> dict[str, Any]:
        parsed: dict[str, Any] = json.loads(self.run("get", *args, "--output", "json"))
        return parsed

    def apply(self, manifest: str) -> None:
        self.run("apply", "--server-side", "--field-manager", "octavo-demo", "--filename", "-", stdin=manifest)

    @contextlib.contextmanager
    def proxy(self) -> Iterator[str]:
        """Serve the API on loopback without credentials, for as long as the context lasts; gives its address."""
        with subprocess.Popen(self.command("proxy", "--port", "0"), stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            first_line = process.stdout.readline()
            found = re.search(r"127\.0\.0\.1:\d+", first_line)
            if found is None:
                raise StepFailed(f"kubectl proxy did not start: {first_line.strip()}")
            try:
                yield f"http://{found.group()}"
            finally:
                process.terminate()
