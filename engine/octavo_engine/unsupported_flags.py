"""vLLM's flags that do not work here yet. Each is refused by name, unless its value asks for what happens anyway."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Unsupported:
    reason: str
    neutral: frozenset[str] = frozenset()


def _flag(reason: str, *neutral: str) -> Unsupported:
    return Unsupported(reason, frozenset(neutral))


_ONE_GPU = "one engine runs on one GPU so far; run more replicas instead"
_SPECULATION = "speculative decoding is not implemented yet; remove the flag"
_LORA = "LoRA adapters are not implemented yet; merge the adapter into the model"
_TOOLS = "tool calls are not implemented yet; remove the flag"

UNSUPPORTED: dict[str, Unsupported] = {
    "tensor_parallel_size": _flag(_ONE_GPU, "1"),
    "pipeline_parallel_size": _flag(_ONE_GPU, "1"),
    "data_parallel_size": _flag(_ONE_GPU, "1"),
    "enable_expert_parallel": _flag(_ONE_GPU, "false"),
    "quantization": _flag("quantized weights are not implemented yet; use a bf16 checkpoint", "none"),
    "kv_cache_dtype": _flag("the KV cache has the dtype of the model; use auto", "auto"),
    "swap_space": _flag("blocks are never swapped to host memory; preempted requests are recomputed", "0", "0.0"),
    "cpu_offload_gb": _flag("weights are never offloaded; use a smaller model", "0", "0.0"),
    "speculative_model": _flag(_SPECULATION),
    "speculative_config": _flag(_SPECULATION),
    "num_speculative_tokens": _flag(_SPECULATION, "0"),
    "enable_lora": _flag(_LORA, "false"),
    "lora_modules": _flag(_LORA),
    "enable_auto_tool_choice": _flag(_TOOLS, "false"),
    "tool_call_parser": _flag(_TOOLS),
    "reasoning_parser": _flag("reasoning is not taken apart yet; it is part of the content"),
    "trust_remote_code": _flag("code from a model repository is never run", "false"),
    "chat_template": _flag("the model's own chat template is used; put yours into its tokenizer_config.json"),
    "tokenizer_mode": _flag("there is one tokenizer mode; use auto", "auto"),
    "scheduling_policy": _flag("requests are ordered by priority, then arrival", "priority", "fcfs"),
    "enforce_eager": _flag("there is no such mode yet; remove the flag", "false"),
    "ssl_keyfile": _flag("TLS is not implemented yet; put a proxy in front"),
    "ssl_certfile": _flag("TLS is not implemented yet; put a proxy in front"),
    "allowed_origins": _flag("CORS is off; put a proxy in front"),
}
