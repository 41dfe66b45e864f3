"""Runs batches of the scheduler on a device."""

import os

# OpenMP's threads spin while they wait, by default. On a machine that others use too, each product then waits for a
# spinning thread to lose its time slice, which makes a step tens of times slower. Read when torch is first imported.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from octavo_engine.runner.load import load_runner

__all__ = ["load_runner"]
