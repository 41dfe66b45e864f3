"""The operator's settings: environment variables that begin with OCTAVO_."""

from typing import Annotated

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

DEFAULT_PORT = 8080


class Settings(BaseSettings):
    """Everything that one operator process needs to start. Times are seconds."""

    model_config = SettingsConfigDict(env_prefix="OCTAVO_", frozen=True)

    namespaces: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description="namespaces to serve, separated by commas; all of them when empty"
    )
    operator_namespace: str = Field("octavo-system", description="where the Lease and the operator's own key live")
    identity: str = Field("", description="name of this replica in the Lease; host name and a random part when empty")
    engine_image: str = Field("localhost/octavo-engine:dev", description="image of engines that name none")
    image_pull_policy: str = Field("IfNotPresent", pattern="^(Always|IfNotPresent|Never)$")
    host: str = Field("0.0.0.0", description="address of health and metrics")
    port: int = Field(DEFAULT_PORT, ge=0, le=65535, description="port of health and metrics")
    num_workers: int = Field(8, ge=1, le=128, description="services reconciled at the same time")
    lease_name: str = "octavo-operator"
    lease_seconds: float = Field(15.0, gt=0, description="how long a leader that fell silent keeps its Lease")
    scrape_timeout_seconds: float = Field(2.0, gt=0)
    scrape_concurrency: int = Field(64, ge=1, description="engines asked at the same time")
    drain_poll_seconds: float = Field(1.0, gt=0, description="how often a draining replica is asked for its requests")
    endpoint_grace_seconds: float = Field(
        3.0, ge=0, description="time for every node to stop routing to a replica that left the Service"
    )
    resync_seconds: float = Field(600.0, gt=0, description="how often everything is listed again")
    log_level: str = Field("INFO", pattern="^(DEBUG|INFO|WARNING|ERROR)$")

    @field_validator("namespaces", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value

    @field_validator("port", mode="before")
    @classmethod
    def _ignore_service_link(cls, value: object) -> object:
        """Kubernetes sets OCTAVO_PORT=tcp://… in every pod beside a Service called octavo; that is no setting."""
        return DEFAULT_PORT if str(value).startswith("tcp://") else value
