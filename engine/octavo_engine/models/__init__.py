"""Models: where they come from, what shape they have, and the decoder that computes them."""

from octavo_engine.models.config import ModelConfig, load_model_config
from octavo_engine.models.resolve import convert, resolve_model

__all__ = ["ModelConfig", "convert", "load_model_config", "resolve_model"]
