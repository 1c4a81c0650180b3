"""Acceptance by position and step times by draft length: what can be known without a trace."""

from oracle.acceptance.curves import Acceptance, Curve, survival_from
from oracle.acceptance.mixing import mixed
from oracle.acceptance.reading import acceptance_from_text, joined, read_acceptance
from oracle.acceptance.step_times import (
    StepTimes,
    read_step_times,
    step_times_from_model,
    step_times_from_text,
)
from oracle.acceptance.totals import with_constant_match

__all__ = [
    "Acceptance",
    "Curve",
    "StepTimes",
    "acceptance_from_text",
    "joined",
    "mixed",
    "read_acceptance",
    "read_step_times",
    "step_times_from_model",
    "step_times_from_text",
    "survival_from",
    "with_constant_match",
]
