"""From a configuration to a warm model runner on a GPU."""

from __future__ import annotations

import gc
import logging
import time
from pathlib import Path

import torch

from octavo_engine.config import EngineConfig
from octavo_engine.errors import ConfigError
from octavo_engine.messages import EngineReady
from octavo_engine.models import ModelConfig
from octavo_engine.models.weights import RandomWeights, SafetensorsWeights, Weights
from octavo_engine.runner import load
from octavo_engine.runner.cuda import CudaRunner
from octavo_engine.runner.cuda_decode import KvCaches
from octavo_engine.runner.cuda_model import CudaModel
from octavo_engine.runner.cuda_table import CudaRowTable
from octavo_engine.runner.cuda_tuning import tuned_plans
from octavo_engine.runner.cuda_weights import load_cuda_weights

logger = logging.getLogger(__name__)

_GRAPH_BYTES = 2 << 30


@torch.no_grad()
def load_cuda(config: EngineConfig, directory: Path, model_config: ModelConfig) -> tuple[CudaRunner, EngineReady]:
    """Loads the weights, measures the matrix products, fills the rest of the memory with KV cache, records graphs."""
    started = time.perf_counter()
    device = torch.device("cuda", torch.cuda.current_device())
    dtype = load.resolve_dtype(config, model_config)
    if dtype == torch.float32:
        raise ConfigError("the GPU kernels compute in 16 bits; pass --dtype bfloat16 or float16")
    longest = load.requested_max_model_len(config, model_config)
    weights = load_cuda_weights(model_config, _weights(config, directory, dtype, device), longest + 1)
    model = CudaModel(weights, max(config.max_num_batched_tokens, config.max_num_seqs), config.max_num_seqs)
    plans = tuned_plans(model, config.max_num_seqs)
    num_blocks = _num_kv_blocks(config, model_config, dtype, longest, device)
    max_model_len = load.effective_max_model_len(config, longest, num_blocks)
    caches = _allocate_caches(model_config, num_blocks, config.block_size, dtype, device)
    table = CudaRowTable(config.max_num_seqs, max_model_len, config.block_size)
    runner = CudaRunner(model, caches, table, plans, max_model_len)
    runner.warm_up()
    # Collections while serving then skip the millions of objects of torch, Triton and the model.
    gc.collect()
    gc.freeze()
    logger.info("loaded in %.1f s with %d KV blocks", time.perf_counter() - started, num_blocks)
    ready = load.make_ready(config, directory, model_config, runner, dtype, device="cuda", attention="triton")
    return runner, ready


def _weights(config: EngineConfig, directory: Path, dtype: torch.dtype, device: torch.device) -> Weights:
    if config.load_format == "dummy":
        return RandomWeights(dtype, device, config.seed)
    return SafetensorsWeights(directory, dtype, device)


def _num_kv_blocks(
    config: EngineConfig, model_config: ModelConfig, dtype: torch.dtype, longest: int, device: torch.device
) -> int:
    """What `gpu_memory_utilization` leaves beside weights, buffers and graphs; at most what all sequences can use."""
    torch.cuda.synchronize(device)
    torch.cuda.empty_cache()
    free, total = torch.cuda.mem_get_info(device)
    budget = int(total * config.gpu_memory_utilization) - (total - free) - _GRAPH_BYTES
    per_block = load.bytes_per_block(config, model_config, dtype)
    if budget < per_block:
        raise ConfigError(
            f"weights and buffers leave no GPU memory for a KV cache ({free >> 20} MiB free of {total >> 20});"
            " raise gpu_memory_utilization or lower max_num_batched_tokens"
        )
    return min(budget // per_block, config.max_num_seqs * -(-longest // config.block_size))


def _allocate_caches(
    config: ModelConfig, num_blocks: int, block_size: int, dtype: torch.dtype, device: torch.device
) -> KvCaches:
    shape = (num_blocks, config.num_kv_heads, block_size, config.head_dim)

    def cache() -> torch.Tensor:
        return torch.zeros(shape, dtype=dtype, device=device)

    return [(cache(), cache()) for _ in range(config.num_layers)]
