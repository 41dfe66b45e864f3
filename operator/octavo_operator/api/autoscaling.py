"""`spec.autoscaling`: scaling on the engines' own KV-cache use and queues."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from octavo_operator.api.base import Fraction, OpenFraction, Schema, rule, rules


class Targets(Schema):
    """Load that one replica should carry."""

    kv_cache_utilization: OpenFraction = Field("0.75", description="Share of the KV cache in use.")
    waiting_per_replica: Annotated[int, Field(ge=1, le=100000)] = Field(2, description="Requests that wait.")
    concurrency_per_replica: Annotated[int, Field(ge=1, le=100000)] | None = Field(
        None, description="Requests that run or wait."
    )


class MetricsSpec(Schema):
    """How the engines are asked for their load."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "self.staleAfterSeconds >= self.scrapeIntervalSeconds",
                "autoscaling.metrics.staleAfterSeconds: must not be below scrapeIntervalSeconds",
            )
        )
    )

    scrape_interval_seconds: int = Field(5, ge=1, le=300, description="How often each replica is asked.")
    stale_after_seconds: int = Field(15, ge=1, le=3600, description="Age from which an answer no longer counts.")


class ScaleUpSpec(Schema):
    """How fast replicas are added."""

    tolerance: Fraction = Field("0.10", description="Load above target that is left alone, as a share.")
    stabilization_seconds: int = Field(
        0, ge=0, le=3600, description="How long more replicas must have been needed before they are added."
    )
    max_percent: int = Field(100, ge=1, le=10000, description="Most growth in one period, percent of replicas.")
    max_pods: int = Field(4, ge=1, le=1000, description="Most growth in one period, replicas.")
    period_seconds: int = Field(15, ge=1, le=1800, description="Length of one period.")


class ScaleDownSpec(Schema):
    """How fast replicas are removed."""

    tolerance: Fraction = Field("0.20", description="Load below target that is left alone, as a share.")
    stabilization_seconds: int = Field(
        300, ge=0, le=3600, description="How long fewer replicas must have been enough before any is removed."
    )
    max_pods: int = Field(1, ge=1, le=1000, description="Most replicas removed in one period.")
    period_seconds: int = Field(60, ge=1, le=1800, description="Length of one period.")


class AutoscalingSpec(Schema):
    """Scaling on the engines' own KV-cache use and queues."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "self.minReplicas <= self.maxReplicas",
                "autoscaling.minReplicas: must not be above maxReplicas",
            ),
        )
    )

    mode: Literal["Auto", "Advisory", "External"] = Field(
        "Auto",
        description="Auto decides and acts. Advisory decides and reports, spec.replicas acts. "
        "External reports metrics; something else writes spec.replicas through /scale.",
    )
    min_replicas: int = Field(1, ge=1, le=1000, description="Fewest replicas, whatever the load.")
    max_replicas: int = Field(ge=1, le=1000, description="Most replicas, whatever the load.")
    targets: Targets = Targets()
    metrics: MetricsSpec = MetricsSpec()
    scale_up: ScaleUpSpec = ScaleUpSpec()
    scale_down: ScaleDownSpec = ScaleDownSpec()
