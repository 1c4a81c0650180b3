"""One decision explained: its numbers taken apart, its texts, and what it rests on."""

from oracle.explanation.decision import COMPONENTS, Comparison, Explanation, ScaleChanges, explain
from oracle.explanation.explained import Explained, explain_decision

__all__ = ["COMPONENTS", "Comparison", "Explained", "Explanation", "ScaleChanges", "explain", "explain_decision"]
