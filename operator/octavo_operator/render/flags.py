"""The engine's command line: `--flag=value`, spelled as the engine's own reference gives them."""

from octavo_operator.api.engine import EngineSpec
from octavo_operator.api.model import ModelSpec
from octavo_operator.render.profiles import PROFILES
from octavo_operator.resource import InferenceService

PORT = 8000
MODELS_MOUNT = "/models"

# Fields of EngineSpec that are flags of the same name.
FLAG_FIELDS = (
    "dtype",
    "block_size",
    "gpu_memory_utilization",
    "kv_cache_memory_gib",
    "max_model_len",
    "max_num_seqs",
    "max_num_batched_tokens",
    "prefill_chunk_size",
    "enable_prefix_caching",
    "enable_chunked_prefill",
)


def render_flags(service: InferenceService) -> list[str]:
    """Return the arguments of the engine container; the user's own come last."""
    spec = service.spec
    values: dict[str, object] = {
        "model": model_location(spec.model),
        "served_model_name": spec.model.served_name or service.name,
        "revision": spec.model.revision,
        "host": "0.0.0.0",
        "port": PORT,
        "drain_timeout": spec.engine.drain_timeout_seconds,
        **engine_values(spec.engine, on_accelerator=spec.accelerator.count > 0),
    }
    return [_flag(name, value) for name, value in values.items() if value is not None] + list(spec.engine.args)


def engine_values(engine: EngineSpec, *, on_accelerator: bool) -> dict[str, object]:
    """Return the engine's settings: explicit fields over the profile's values."""
    profile = dict(PROFILES[engine.profile]) if engine.profile else {}
    if not on_accelerator:
        profile.pop("gpu_memory_utilization", None)
        profile.pop("dtype", None)
    explicit = {name: getattr(engine, name) for name in FLAG_FIELDS if getattr(engine, name) is not None}
    values = profile | explicit
    if not engine.enable_chunked_prefill:
        values.pop("prefill_chunk_size", None)
    return values


def model_location(model: ModelSpec) -> str:
    """Return what the engine loads: a path for what the pod mounts, else the URI itself."""
    scheme, _, rest = model.uri.partition("://")
    if scheme != "pvc":
        return model.uri
    _, _, path = rest.partition("/")
    return f"{MODELS_MOUNT}/{path}".rstrip("/")


def _flag(name: str, value: object) -> str:
    flag = name.replace("_", "-")
    if isinstance(value, bool):
        return f"--{flag}" if value else f"--no-{flag}"
    return f"--{flag}={value}"
