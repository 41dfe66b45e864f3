"""The example of docs/autoscaling.md is what the autoscaler says."""

from pathlib import Path

from octavo_operator.autoscaler.types import AutoscalingSpec, EngineMetrics
from tests.operator.autoscaler_fakes import Service, engine

DOCUMENT = Path(__file__).parents[2] / "docs" / "autoscaling.md"
SPEC = AutoscalingSpec(max_replicas=4)


def replica(used: float, waiting: float = 0, prompt_tokens: float = 0) -> EngineMetrics:
    return engine(used, waiting, prompt_tokens, kv_tokens=4096)


def example() -> list[str]:
    """The sentences that the document quotes, each indented by six spaces."""
    return [line.strip() for line in DOCUMENT.read_text().splitlines() if line.startswith(" " * 6)]


def test_the_documented_example_is_what_happens() -> None:
    service = Service(SPEC, replicas=2)
    rush = (replica(2800, 3, 600), replica(2600, 2, 400))
    said = [service.look(*rush).reason, service.look(*rush, others=["Starting"]).reason]
    said.append(service.look_until_moved(replica(900), replica(700), replica(500)).reason)
    said.append(service.look_until_moved(replica(1200), replica(900)).reason)
    one_is_silent = Service(SPEC, replicas=3)
    one_is_silent.look_for(310, replica(900), replica(700), None)
    said.append(one_is_silent.look(replica(900), replica(700), None).reason)
    assert said == example()
