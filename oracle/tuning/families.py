"""The families of policies that are tuned, what their members cost, and what online ones learn."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from oracle import scores
from oracle.errors import InputError
from oracle.policies import Inputs, Policy, Static, Training, lengths_of
from oracle.policies.candidates import BEST_STATIC
from oracle.policies.learning import Learnt, learnt_from
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


def learn(batches: Sequence[Inputs]) -> Training:
    """Learn the constants of online policies from all generations of some batches.

    Returns
    -------
    Training
        Mean U by draft length over windows that end inside their text (of a length without such a window: as for
        the nearest length), and the best static lengths, over all and by category.

    Raises
    ------
    InputError
        There is no position to learn from.
    """
    learnt = learnt_of(batches)
    return learnt.training(np.ones(len(learnt.category), dtype=bool))


def learnt_of(batches: Sequence[Inputs]) -> Learnt:
    """What training constants are made of, by generation."""
    if not any(batch.problem.positions for batch in batches):
        raise InputError("there is no position to learn from; give traces with positions")
    lengths = batches[0].costs.lengths
    return learnt_from(batches, lengths, total_ms(batches, [Static(k) for k in lengths]))


def total_ms(batches: Sequence[Inputs], policies: Sequence[Policy]) -> NDArray[np.float64]:
    """Expected milliseconds, (G, P)."""
    totals = totals_of(batches, policies)
    return totals.total_ms[:, [totals.policies.index(str(policy)) for policy in policies]]


def totals_of(batches: Sequence[Inputs], policies: Sequence[Policy | str]) -> PolicyTotals:
    """Expected totals: a batch's policies are laid out in one call and scored in one call."""
    parts = []
    for batch in batches:
        laid, traces = lengths_of(policies, batch), batch.traces
        parts.append(scores.total(batch.problem, batch.costs, laid, traces.generation, traces.cluster_of))
    return scores.join(parts)
