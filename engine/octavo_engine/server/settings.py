"""The server's own settings, beside those of the engine. Both are flags, environment variables and YAML keys."""

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class ServerSettings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    host: str = Field("0.0.0.0", description="address to listen on")
    port: int = Field(8000, ge=0, le=65535, description="port to listen on; 0 takes a free one")
    api_key: tuple[str, ...] = Field((), description="key that /v1 asks for; may be given several times")
    api_key_file: Path | None = Field(None, description="file with one API key a line")
    admin_token: str | None = Field(
        None, description="bearer token for draining from another host; better set as OCTAVO_ADMIN_TOKEN"
    )
    drain_timeout: float = Field(
        120.0, ge=0, description="seconds that open streams get from POST /drain or SIGTERM, whichever comes first"
    )
    stall_timeout: float = Field(
        120.0, gt=0, description="seconds without a step, with work pending, after which liveness fails"
    )
    max_request_bytes: int = Field(8 << 20, ge=1024, description="largest request body; beyond it 413")
    max_parallel_samples: int = Field(16, ge=1, le=128, description="largest n of one request")
    metrics_alias: Literal["vllm"] | None = Field(None, description="export the metrics under these names as well")
    log_format: Literal["text", "json"] = Field("text", description="one line of text or one JSON object per record")
    access_log: bool = Field(False, description="log every request")

    def api_keys(self) -> tuple[str, ...]:
        """The keys from both places. Raises OSError if the file cannot be read."""
        lines = self.api_key_file.read_text().splitlines() if self.api_key_file else []
        return self.api_key + tuple(line.strip() for line in lines if line.strip())
