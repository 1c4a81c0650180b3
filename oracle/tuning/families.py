"""The families of policies that are tuned, and what their members cost one batch."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from oracle import scores
from oracle.policies import Inputs, Policy, lengths_of
from oracle.policies.candidates import BEST_STATIC
from oracle.scores import PolicyTotals

FAMILIES = (
    BEST_STATIC,
    "budget",
    "confidence",
    "confidence@keep",
    "survival",
    "survival@keep",
    "survival!",
    "goodput",
    "goodput!",
    "slope",
    "slope!",
)


def totals_of(batch: Inputs, policies: Sequence[Policy | str]) -> PolicyTotals:
    """Expected totals by generation: the policies are laid out in one call and scored in one call."""
    laid, traces = lengths_of(policies, batch), batch.traces
    return scores.total(batch.problem, batch.costs, laid, traces.generation, traces.cluster_of)


def total_ms(batch: Inputs, policies: Sequence[Policy]) -> NDArray[np.float64]:
    """Expected milliseconds, (G, P)."""
    totals = totals_of(batch, policies)
    return totals.total_ms[:, [totals.policies.index(str(policy)) for policy in policies]]
