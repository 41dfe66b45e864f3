"""Rotary position embedding: the table of cosines and sines."""

import math

import torch
from torch import Tensor

from octavo_engine.models.config import Llama3Scaling, ModelConfig


def rotary_table(config: ModelConfig, num_positions: int, device: torch.device) -> Tensor:
    """(num_positions, head_dim) float32: the cosines of the head_dim / 2 angles, then their sines."""
    frequencies = _frequencies(config)
    angles = torch.outer(torch.arange(num_positions, dtype=torch.float32), frequencies)
    return torch.cat((angles.cos(), angles.sin()), dim=-1).to(device)


def _frequencies(config: ModelConfig) -> Tensor:
    exponents = torch.arange(0, config.head_dim, 2, dtype=torch.float32) / config.head_dim
    frequencies = 1.0 / config.rope_theta**exponents
    return frequencies if config.rope_scaling is None else _scale_llama3(frequencies, config.rope_scaling)


def _scale_llama3(frequencies: Tensor, scaling: Llama3Scaling) -> Tensor:
    """Source: the reference implementation of Llama 3.1."""
    turns = scaling.original_max_position * frequencies / (2 * math.pi)
    span = scaling.high_freq_factor - scaling.low_freq_factor
    smooth = ((turns - scaling.low_freq_factor) / span).clamp(0.0, 1.0)
    return frequencies * (smooth + (1.0 - smooth) / scaling.factor)
