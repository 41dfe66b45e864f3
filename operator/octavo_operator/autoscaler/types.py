"""The autoscaler's nouns: what is seen, what is wanted, what is remembered, what was decided.

All are frozen plain values. Times are Unix seconds, and so is the `now` given to `decide()`; numbers of tokens and
requests are floats because they come from metrics.
"""

from dataclasses import dataclass, field
from typing import Literal

Mode = Literal["Auto", "Advisory", "External"]
PodPhase = Literal["Ready", "Starting", "Unschedulable", "CrashLooping", "Draining"]
ConditionStatus = Literal["True", "False", "Unknown"]
ProblemKind = Literal["Unreachable", "Invalid", "Frozen", "Restarted", "Stale"]


# What is seen


@dataclass(frozen=True, slots=True)
class EngineMetrics:
    """What one engine says of itself. KV counts are tokens that its blocks have room for; a token counter is not."""

    kv_total_tokens: float
    kv_used_tokens: float
    waiting_prompt_tokens: float
    num_running: float
    num_waiting: float
    num_swapped: float
    steps_total: float
    is_idle: bool

    @property
    def has_work(self) -> bool:
        return not self.is_idle or self.num_running + self.num_waiting + self.num_swapped > 0


@dataclass(frozen=True, slots=True)
class PodSample:
    """One scrape of one pod: either `metrics`, or `failure`, a sentence that says why there are none."""

    pod: str
    ip: str
    at: float
    metrics: EngineMetrics | None = None
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class PodView:
    """A pod as the autoscaler sees it, in exactly one phase.

    Ready          passes its readiness probe and is selected by the Service
    Starting       not ready, but on its way (scheduled or about to be, pulling, loading), or unready for a while
    Unschedulable  the scheduler says that it fits nowhere
    CrashLooping   its container keeps ending, or cannot be started
    Draining       out of the Service, finishing its requests before it goes
    """

    name: str
    phase: PodPhase
    revision: str = ""


@dataclass(frozen=True, slots=True)
class Observation:
    """One look at a service.

    `replicas` is the number the operator asks for now: it does not count draining pods, nor a rollout's extra ones.
    `samples` are the newest scrapes of its ready pods; a pod without one counts as not heard of.
    """

    replicas: int
    pods: tuple[PodView, ...] = ()
    samples: tuple[PodSample, ...] = ()

    def pods_in(self, phase: PodPhase) -> tuple[str, ...]:
        return tuple(pod.name for pod in self.pods if pod.phase == phase)

    def num_in(self, phase: PodPhase) -> int:
        return len(self.pods_in(phase))


# What is wanted


@dataclass(frozen=True, slots=True)
class Targets:
    """What one replica should carry; None leaves the target out."""

    kv_cache_utilization: float | None = 0.75
    waiting_per_replica: float | None = 2.0
    concurrency_per_replica: float | None = None

    def __post_init__(self) -> None:
        targets = (self.kv_cache_utilization, self.waiting_per_replica, self.concurrency_per_replica)
        given = [target for target in targets if target is not None]
        if not given or min(given) <= 0:
            raise ValueError("autoscaling.targets: set at least one target, and each above 0")


@dataclass(frozen=True, slots=True)
class MetricsSpec:
    scrape_interval_seconds: float = 5.0
    stale_after_seconds: float = 15.0


@dataclass(frozen=True, slots=True)
class ScaleUpSpec:
    tolerance: float = 0.10
    stabilization_seconds: float = 0.0
    max_percent: int = 100
    max_pods: int = 4
    period_seconds: float = 15.0


@dataclass(frozen=True, slots=True)
class ScaleDownSpec:
    tolerance: float = 0.20
    stabilization_seconds: float = 300.0
    max_pods: int = 1
    period_seconds: float = 60.0


@dataclass(frozen=True, slots=True)
class AutoscalingSpec:
    """`spec.autoscaling` of an InferenceService as plain values, and its `spec.suspend`."""

    max_replicas: int
    min_replicas: int = 1
    mode: Mode = "Auto"
    is_suspended: bool = False
    targets: Targets = field(default_factory=Targets)
    metrics: MetricsSpec = field(default_factory=MetricsSpec)
    scale_up: ScaleUpSpec = field(default_factory=ScaleUpSpec)
    scale_down: ScaleDownSpec = field(default_factory=ScaleDownSpec)


# What is remembered


@dataclass(frozen=True, slots=True)
class Point:
    at: float
    value: float


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a pod's newest sample does not count.

    Unreachable   the scrape failed
    Invalid       a figure is impossible
    Frozen        there is work, and the step counter stands still
    Restarted     the step counter went backwards
    Stale         there is no newer sample
    """

    kind: ProblemKind
    detail: str


@dataclass(frozen=True, slots=True)
class PodRecord:
    """What is known of a pod that was ready at least once.

    newest   the last sample with possible figures, to which the next one's step counter is compared
    trusted  the last sample that counted; it keeps counting until it is stale
    problem  why the last look gave nothing better
    """

    pod: str
    newest: PodSample | None = None
    trusted: PodSample | None = None
    problem: Problem | None = None


@dataclass(frozen=True, slots=True)
class AutoscalerState:
    """What the next decision needs of the earlier ones. `AutoscalerState()` is that of an operator that just started.

    observed_since  since when the history has no gap; None before the first decision
    decided_at      when the last decision was made
    replicas        what was asked for then
    pods            what is known of each pod's engine
    highs           replicas that had to stay, over time: what shrinking looks back at (see `window.py`)
    lows            replicas that were needed, over time: what growing looks back at
    changes         by how much `replicas` moved, and when
    """

    observed_since: float | None = None
    decided_at: float | None = None
    replicas: int = 0
    pods: tuple[PodRecord, ...] = ()
    highs: tuple[Point, ...] = ()
    lows: tuple[Point, ...] = ()
    changes: tuple[Point, ...] = ()


# What was decided


@dataclass(frozen=True, slots=True)
class Inputs:
    """The figures that the decision rests on: sums over the fresh pods, except for the ratio.

    kv_cache_utilization    KV tokens used over those there are, 0 to 1; None without fresh pods
    demand_tokens           KV tokens used, and prompt tokens that wait
    num_missing             pods that were ready at least once, are not draining, and are not fresh
    num_supply              replicas that serve or will soon: neither unschedulable nor crash-looping
    """

    kv_cache_utilization: float | None
    demand_tokens: float
    num_running: float
    num_waiting: float
    num_ready: int
    num_fresh: int
    num_missing: int
    num_supply: int


@dataclass(frozen=True, slots=True)
class TargetReading:
    """One target: `load` over what `per_replica` may carry is `needed`, in replicas. `name` is the field's name."""

    name: str
    load: float
    per_replica: float
    needed: float


@dataclass(frozen=True, slots=True)
class Step:
    """What one rule made of the number, and why. `rule` is one word, as `limitedBy` shows it."""

    rule: str
    before: int
    after: int
    why: str


@dataclass(frozen=True, slots=True)
class Condition:
    """A status condition without its times and generation, which whoever writes the status adds."""

    type: str
    status: ConditionStatus
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do, and the whole chain of reasons for it.

    desired      replicas to ask for now; in modes Advisory and External what is asked for already
    recommended  what the rules say, whoever acts on it
    steps        the rules that spoke, in order; each starts from the number that the previous one left
    limited_by   names of the rules that kept the number from what the load needs
    reason       the decision in one sentence
    conditions   MetricsAvailable, ScalingActive, ScalingLimited
    state        to be given to the next decision
    """

    desired: int
    recommended: int
    inputs: Inputs
    targets: tuple[TargetReading, ...]
    steps: tuple[Step, ...]
    limited_by: tuple[str, ...]
    reason: str
    conditions: tuple[Condition, ...]
    state: AutoscalerState
