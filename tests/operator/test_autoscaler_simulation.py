"""A burst of chats against a small service with the demo's short windows: up, and down again."""

from collections import deque
from dataclasses import dataclass, field

from octavo_operator.autoscaler import decide
from octavo_operator.autoscaler.types import (
    AutoscalerState,
    AutoscalingSpec,
    Decision,
    EngineMetrics,
    MetricsSpec,
    Observation,
    PodSample,
    PodView,
    ScaleDownSpec,
)

DEMO = AutoscalingSpec(
    max_replicas=3,
    metrics=MetricsSpec(scrape_interval_seconds=2, stale_after_seconds=10),
    scale_down=ScaleDownSpec(stabilization_seconds=30, period_seconds=15),
)
START_SECONDS = 8
CHAT_TOKENS = 200
KV_TOKENS = 2048
TOKENS_PER_SECOND = 120.0


@dataclass
class Chat:
    tokens_left: float = CHAT_TOKENS


@dataclass
class Engine:
    """Runs as many chats as fit its cache, and shares its speed among them."""

    name: str
    ready_at: float
    chats: deque[Chat] = field(default_factory=deque)
    steps: int = 0

    @property
    def running(self) -> list[Chat]:
        return list(self.chats)[: KV_TOKENS // CHAT_TOKENS]

    def run(self) -> None:
        self.steps += bool(self.chats)
        for chat in self.running:
            chat.tokens_left -= TOKENS_PER_SECOND / len(self.running)
        self.chats = deque(chat for chat in self.chats if chat.tokens_left > 0)

    def metrics(self) -> EngineMetrics:
        running, waiting = len(self.running), len(self.chats) - len(self.running)
        return EngineMetrics(
            kv_total_tokens=KV_TOKENS,
            kv_used_tokens=running * CHAT_TOKENS,
            waiting_prompt_tokens=waiting * 50,
            num_running=running,
            num_waiting=waiting,
            num_swapped=0,
            steps_total=self.steps,
            is_idle=not self.chats,
        )


@dataclass
class Cluster:
    """One second a tick. An engine that is not wanted drains: it gets no new chats, and goes when it is done."""

    now: float = 0.0
    engines: list[Engine] = field(default_factory=lambda: [Engine("pod-0", 0.0)])
    draining: list[Engine] = field(default_factory=list)
    num_made: int = 1

    def tick(self, num_clients: int) -> None:
        self.now += 1
        for _ in range(num_clients - sum(len(engine.chats) for engine in self.engines + self.draining)):
            min(self.ready, key=lambda engine: len(engine.chats)).chats.append(Chat())
        for engine in self.engines + self.draining:
            engine.run()
        self.draining = [engine for engine in self.draining if engine.chats]

    @property
    def ready(self) -> list[Engine]:
        return [engine for engine in self.engines if engine.ready_at <= self.now]

    def scale(self, replicas: int) -> None:
        while len(self.engines) < replicas:
            self.engines.append(Engine(f"pod-{self.num_made}", self.now + START_SECONDS))
            self.num_made += 1
        while len(self.engines) > replicas:
            self.draining.append(self.engines.pop())

    def observe(self) -> Observation:
        ready = self.ready
        pods = [PodView(e.name, "Ready" if e in ready else "Starting") for e in self.engines]
        pods += [PodView(e.name, "Draining") for e in self.draining]
        samples = tuple(PodSample(e.name, "", self.now, metrics=e.metrics()) for e in ready)
        return Observation(len(self.engines), tuple(pods), samples)


def play(cluster: Cluster, num_clients: dict[int, int], seconds: int) -> list[Decision]:
    """Decisions, one every two seconds; `num_clients` says how many chat at once from which second on."""
    state, clients = AutoscalerState(), 0
    decisions = []
    for second in range(seconds):
        clients = num_clients.get(second, clients)
        cluster.tick(clients)
        if second % DEMO.metrics.scrape_interval_seconds == 0:
            decision = decide(state, cluster.observe(), DEMO, cluster.now)
            state = decision.state
            cluster.scale(decision.desired)
            decisions.append(decision)
    return decisions


def numbers_without_repeats(decisions: list[Decision]) -> list[int]:
    numbers = [decision.desired for decision in decisions]
    return [n for i, n in enumerate(numbers) if i == 0 or numbers[i - 1] != n]


def test_a_burst_takes_the_service_from_one_to_three_and_back_to_one() -> None:
    decisions = play(Cluster(), {10: 25, 90: 0}, seconds=200)
    assert numbers_without_repeats(decisions) == [1, 3, 2, 1]


def test_growth_comes_with_the_first_look_at_the_burst_and_shrinking_after_its_window() -> None:
    decisions = play(Cluster(), {10: 25, 90: 0}, seconds=200)
    assert decisions[10 // 2].desired == 3
    shrinks = [2 * i for i, d in enumerate(decisions) if d.reason.startswith("Shrinking")]
    assert 90 + 30 <= shrinks[0] < 90 + 45
    assert shrinks[1] - shrinks[0] >= DEMO.scale_down.period_seconds


def test_the_decisions_of_a_burst_read_as_an_account_of_it() -> None:
    reasons = [decision.reason for decision in play(Cluster(), {10: 25, 90: 0}, seconds=200)]
    growth = "waitingPerReplica needs 7.50 replicas; at most 5 are allowed 15 s after 1; maxReplicas is 3"
    need = "kvCacheUtilization needs 0.00 replicas"
    account = [
        f"Keeping 1: {need}",
        f"Growing from 1 to 3: {growth}",
        f"Keeping 3: {growth}",
        "Keeping 3: kvCacheUtilization needs 2.77 replicas",
        "Keeping 3: kvCacheUtilization needs 3.26 replicas, within tolerance",
        f"Keeping 3: {need}; 4.07 replicas had to stay at some time in the last 30 s",
        f"Shrinking from 3 to 2: {need}; 1.46 replicas had to stay at some time in the last 30 s",
        f"Keeping 2: {need}; at least 2 must stay 15 s after 3",
        f"Shrinking from 2 to 1: {need}",
        f"Keeping 1: {need}",
    ]
    remaining = iter(reasons)
    assert all(sentence in remaining for sentence in account), reasons


def test_a_second_burst_during_the_wait_keeps_the_replicas() -> None:
    decisions = play(Cluster(), {10: 25, 60: 0, 80: 25, 150: 0}, seconds=160)
    assert numbers_without_repeats(decisions) == [1, 3]
