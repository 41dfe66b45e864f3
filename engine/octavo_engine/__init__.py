"""Octavo's paged-attention engine. The names below load on first use, so that a server need not import torch."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from octavo_engine.async_llm import AsyncLLM
    from octavo_engine.config import EngineConfig, SchedulerConfig
    from octavo_engine.llm import LLM
    from octavo_engine.sampling_params import SamplingParams

__all__ = ["LLM", "AsyncLLM", "EngineConfig", "SamplingParams", "SchedulerConfig"]

_MODULES = {
    "LLM": "octavo_engine.llm",
    "AsyncLLM": "octavo_engine.async_llm",
    "EngineConfig": "octavo_engine.config",
    "SamplingParams": "octavo_engine.sampling_params",
    "SchedulerConfig": "octavo_engine.config",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
