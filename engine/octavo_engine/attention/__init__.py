"""Attention backends: one interface, a torch implementation for CPUs."""

from octavo_engine.attention.interface import AttentionBackend, BatchLayout

__all__ = ["AttentionBackend", "BatchLayout"]
