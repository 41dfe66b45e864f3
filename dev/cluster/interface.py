"""What the demo and the tests need of a cluster, whichever it is."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol


class ClusterError(Exception):
    """A cluster cannot be used; the message says why, and the remedy."""


class Cluster(Protocol):
    """A running cluster. Its kubeconfig is a file of the project's own, never the user's."""

    @property
    def kubeconfig(self) -> Path: ...

    @property
    def context(self) -> str: ...

    @property
    def kubectl(self) -> Path: ...

    def load_images(self, references: Sequence[str]) -> None:
        """Give the nodes images that dev.images built."""

    def stop(self) -> None:
        """Remove the cluster if the project started it; leave it alone if not."""
