"""Inference engines: a draft length, or a schedule of them by batch size, written as the engine's own configuration."""

from oracle.engines.batched import SGLANG_PADDED_GRAPHS
from oracle.engines.configuration import ENGINES, configuration
from oracle.engines.schedule import Schedule, schedule_of

__all__ = ["ENGINES", "SGLANG_PADDED_GRAPHS", "Schedule", "configuration", "schedule_of"]
