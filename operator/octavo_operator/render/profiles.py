"""Engine settings proven for four kinds of traffic. Explicit fields of a service win over them.

They set memory and scheduling only: one engine computes on one GPU, so `MultiGPU` is for several replicas of one
GPU each. The two that say how much GPU memory and which type of weights to use do so only with a GPU.
"""

from collections.abc import Mapping

from octavo_operator.api.engine import Profile

PROFILES: Mapping[Profile, Mapping[str, object]] = {
    "SingleGPU": {
        "dtype": "half",
        "block_size": 16,
        "gpu_memory_utilization": "0.92",
        "max_model_len": 4096,
        "max_num_seqs": 128,
        "max_num_batched_tokens": 4096,
    },
    "MultiGPU": {
        "block_size": 16,
        "gpu_memory_utilization": "0.90",
        "max_model_len": 8192,
        "max_num_seqs": 256,
        "max_num_batched_tokens": 8192,
        "prefill_chunk_size": 512,
    },
    "Chat": {
        "block_size": 8,
        "gpu_memory_utilization": "0.88",
        "max_model_len": 2048,
        "max_num_seqs": 512,
        "max_num_batched_tokens": 2048,
    },
    "LongDocument": {
        "block_size": 32,
        "gpu_memory_utilization": "0.85",
        "max_model_len": 16384,
        "max_num_seqs": 64,
        "max_num_batched_tokens": 16384,
        "prefill_chunk_size": 1024,
    },
}
