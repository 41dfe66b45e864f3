"""A cluster that the user has already, named by a context of the user's kubeconfig."""

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dev.cluster.interface import ClusterError
from dev.cluster.programs import kubectl_program
from dev.images.choose import choose_builder
from dev.images.names import LOCAL_REGISTRY


@dataclass(frozen=True)
class ExistingCluster:
    kubeconfig: Path
    context: str

    @property
    def kubectl(self) -> Path:
        return kubectl_program()

    def load_images(self, references: Sequence[str]) -> None:
        """Push the images to the registry in their names, from which the nodes pull them."""
        for reference in references:
            if reference.startswith(LOCAL_REGISTRY):
                raise ClusterError(
                    f"the nodes of {self.context} cannot get {reference}: set OCTAVO_REGISTRY to a registry that this "
                    "machine may push to and the nodes pull from, for example registry.example.org/team"
                )
            choose_builder().push(reference)

    def stop(self) -> None:
        """It is not ours to stop."""


def use(context: str, kubeconfig: Path) -> ExistingCluster:
    """Copy this one context, with its credentials, to a kubeconfig of our own."""
    command = [str(kubectl_program()), "config", "view", "--minify", "--flatten", "--context", context]
    view = subprocess.run(command, capture_output=True, text=True, check=False)
    if view.returncode:
        raise ClusterError(f"OCTAVO_CONTEXT={context}: {view.stderr.strip()}. See kubectl config get-contexts.")
    kubeconfig.touch(mode=0o600)
    kubeconfig.write_text(view.stdout, encoding="utf-8")
    return ExistingCluster(kubeconfig, context)
