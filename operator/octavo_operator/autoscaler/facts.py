"""Everything that a rule may look at, and what a rule is."""

from collections.abc import Callable
from dataclasses import dataclass

from octavo_operator.autoscaler.types import AutoscalerState, AutoscalingSpec, Inputs, Observation, Step, TargetReading


@dataclass(frozen=True, slots=True)
class Facts:
    """`state` has this look's records and history in it already."""

    seen: Observation
    spec: AutoscalingSpec
    now: float
    inputs: Inputs
    targets: tuple[TargetReading, ...]
    state: AutoscalerState

    @property
    def replicas(self) -> int:
        return self.seen.replicas

    @property
    def driver(self) -> TargetReading | None:
        """The target that needs most; None without fresh pods."""
        return max(self.targets, key=lambda target: target.needed, default=None)

    @property
    def is_blind(self) -> bool:
        """Fewer than half of the ready pods are fresh, or none is."""
        return self.inputs.num_fresh == 0 or 2 * self.inputs.num_fresh < self.inputs.num_ready

    def has_observed(self, seconds: float) -> bool:
        """Whether the history has no gap over the last `seconds`."""
        since = self.state.observed_since
        return since is not None and self.now - since >= seconds


Rule = Callable[[int, Facts], Step | None]
"""Takes the number that the rules before it left; returns what it makes of it, or None if it has nothing to say."""
