"""From a configuration to a warm model runner."""

import logging
import time
from pathlib import Path

import torch

from octavo_engine.attention.torch_backend import TorchAttention
from octavo_engine.config import EngineConfig
from octavo_engine.core.batch import ModelRunner
from octavo_engine.errors import ConfigError, ModelError
from octavo_engine.messages import EngineReady
from octavo_engine.models import ModelConfig, load_model_config, resolve_model
from octavo_engine.models.llama import Llama
from octavo_engine.models.ops import TorchOps
from octavo_engine.models.weights import RandomWeights, SafetensorsWeights, Weights
from octavo_engine.runner.host import memory_limit_bytes, num_usable_cpus, release_freed_memory
from octavo_engine.runner.torch_runner import TorchRunner

logger = logging.getLogger(__name__)

_DTYPES = {
    "half": torch.float16,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float32": torch.float32,
}
_DEFAULT_KV_BYTES = 4 << 30


def load_runner(config: EngineConfig) -> tuple[ModelRunner, EngineReady]:
    """Loads the model on its device and warms it up. Raises `ConfigError` when the configuration cannot work."""
    directory = resolve_model(config.model, config.revision)
    if _device(config) == "cuda":
        from octavo_engine.runner.cuda_load import load_cuda  # needs Triton, which a CPU image lacks

        return load_cuda(config, directory, load_model_config(directory))
    return _load_cpu(config, directory, load_model_config(directory))


def _load_cpu(config: EngineConfig, directory: Path, model_config: ModelConfig) -> tuple[ModelRunner, EngineReady]:
    started = time.perf_counter()
    torch.set_num_threads(config.num_threads or num_usable_cpus())
    dtype = resolve_dtype(config, model_config)
    longest = requested_max_model_len(config, model_config)
    with torch.inference_mode():
        model = Llama(model_config, _weights(config, directory, dtype), TorchOps(), longest)
    release_freed_memory()
    num_blocks = num_kv_blocks(config, model_config, dtype, longest)
    max_model_len = effective_max_model_len(config, longest, num_blocks)
    attention = TorchAttention(model_config, num_blocks, config.block_size, dtype)
    runner = TorchRunner(config, model, attention, num_blocks, max_model_len)
    runner.warm_up()
    logger.info("loaded in %.1f s with %d threads", time.perf_counter() - started, torch.get_num_threads())
    ready = make_ready(config, directory, model_config, runner, dtype, device="cpu", attention=attention.name)
    return runner, ready


def make_ready(
    config: EngineConfig,
    directory: Path,
    model_config: ModelConfig,
    runner: ModelRunner,
    dtype: torch.dtype,
    device: str,
    attention: str,
) -> EngineReady:
    return EngineReady(
        model=config.served_model_name or directory.name,
        max_model_len=runner.max_model_len,
        vocab_size=model_config.vocab_size,
        eos_token_ids=list(model_config.eos_token_ids),
        num_blocks=runner.num_blocks,
        block_size=config.block_size,
        device=device,
        dtype=str(dtype).removeprefix("torch."),
        attention_backend=attention,
    )


def resolve_dtype(config: EngineConfig, model_config: ModelConfig) -> torch.dtype:
    name = model_config.dtype if config.dtype == "auto" else config.dtype
    if name not in _DTYPES:
        raise ModelError(f"the checkpoint's dtype {name!r} is not supported; pass --dtype bfloat16 or float32")
    return _DTYPES[name]


def requested_max_model_len(config: EngineConfig, model_config: ModelConfig) -> int:
    """In tokens. Raises `ConfigError` if more is asked for than the model has positions."""
    if config.max_model_len is None:
        return model_config.max_position
    if config.max_model_len > model_config.max_position:
        raise ConfigError(
            f"max_model_len {config.max_model_len} exceeds the {model_config.max_position} tokens"
            " that the model was made for; lower it or leave it unset"
        )
    return config.max_model_len


def effective_max_model_len(config: EngineConfig, longest: int, num_blocks: int) -> int:
    """One sequence must fit into the KV cache. A limit that was asked for is kept or refused, never lowered."""
    capacity = num_blocks * config.block_size
    if longest <= capacity:
        return longest
    if config.max_model_len is not None:
        raise ConfigError(
            f"max_model_len {longest} does not fit the KV cache of {capacity} tokens;"
            f" lower it to {capacity} or raise kv_cache_memory_gib"
        )
    logger.warning("the KV cache limits sequences to %d of the model's %d tokens", capacity, longest)
    return capacity


def bytes_per_block(config: EngineConfig, model_config: ModelConfig, dtype: torch.dtype) -> int:
    return 2 * model_config.num_layers * config.block_size * model_config.kv_size * dtype.itemsize


def num_kv_blocks(config: EngineConfig, model_config: ModelConfig, dtype: torch.dtype, longest: int) -> int:
    """As many as the budget holds, but no more than all sequences at their longest can use."""
    per_block = bytes_per_block(config, model_config, dtype)
    budget = int(config.kv_cache_memory_gib * 2**30) if config.kv_cache_memory_gib else _default_kv_bytes()
    useful = config.max_num_seqs * -(-longest // config.block_size)
    num_blocks = min(budget // per_block, useful)
    if num_blocks < 1:
        raise ConfigError(
            f"the KV cache has {budget} bytes, but one block of {config.block_size} tokens takes {per_block};"
            " raise kv_cache_memory_gib"
        )
    return num_blocks


def _default_kv_bytes() -> int:
    """Half of the memory that the loaded model leaves, at most 4 GiB; pages are only taken when first written."""
    statm = Path("/proc/self/statm").read_text().split()
    resident = int(statm[1]) * 4096
    return min(_DEFAULT_KV_BYTES, max(0, memory_limit_bytes() - resident) // 2)


def _device(config: EngineConfig) -> str:
    if config.device != "auto":
        return config.device
    return "cuda" if torch.cuda.is_available() else "cpu"


def _weights(config: EngineConfig, directory: Path, dtype: torch.dtype) -> Weights:
    device = torch.device("cpu")
    if config.load_format == "dummy":
        return RandomWeights(dtype, device, config.seed)
    return SafetensorsWeights(directory, dtype, device)
