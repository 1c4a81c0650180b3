"""The latency model: what a verification round costs, typed by hand or fitted from recorded rounds.

Only the model is imported here; fitting (`oracle.latency.fit`) loads SciPy and stays where it is needed.
"""

from oracle.latency.model import DraftLine, DraftTable, LatencyModel, missing_m_error

__all__ = ["DraftLine", "DraftTable", "LatencyModel", "missing_m_error"]
