"""Traces: what a target model emitted, how probably the draft matched it, and which experts it took."""

from oracle.traces.reading import TraceFiles, load_traces
from oracle.traces.schema import MATCH_KINDS, VERSION
from oracle.traces.traces import Traces
from oracle.traces.writing import write_traces

__all__ = ["MATCH_KINDS", "VERSION", "TraceFiles", "Traces", "load_traces", "write_traces"]
