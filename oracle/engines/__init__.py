"""Inference engines: a draft length, or a schedule of them by batch size, written as the engine's own configuration."""

from oracle.engines.batched import SGLANG_PADDED_GRAPHS
from oracle.engines.configuration import ENGINES, configuration
from oracle.engines.schedule import Schedule, schedule_of
from oracle.engines.taking import NAMES, engines_that_take

__all__ = [
    "ENGINES",
    "NAMES",
    "SGLANG_PADDED_GRAPHS",
    "Schedule",
    "configuration",
    "engines_that_take",
    "schedule_of",
]
