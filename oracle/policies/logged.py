"""The engine's own logged rounds as a policy."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oracle.errors import InputError, printable
from oracle.policies.chosen import Named
from oracle.policies.fixed import place_of
from oracle.policies.inputs import Inputs
from oracle.policies.policy import Policy


@dataclass(frozen=True)
class Logged(Policy):
    """The draft lengths that the engine chose when the trace was recorded: ``logged``.

    A log says what the engine did where its rounds started, and nothing about any other position. Expected scores
    over match probabilities between 0 and 1 send rounds to positions where the engine never stood: whatever
    length is filled in there, the score would be that of another policy. So `logged` is scored on realised
    matches only: every match probability along a logged round is 0 or 1 and gives the logged advance. Then
    rounds start where they did, the expected score is the realised one, and it is exact. Elsewhere the nearest
    earlier logged length stands in; no round starts there. The last round's advance may reach past the end.
    """

    def __str__(self) -> str:
        return "logged"

    @property
    def columns(self) -> frozenset[str]:
        """The logged rounds."""
        return frozenset({"logged_draft_length", "logged_advance"})

    def choose(self, inputs: Inputs, parameters: NDArray[np.float64]) -> Named:
        """Lay the logged rounds out over positions."""
        traces, problem = inputs.traces, inputs.problem
        length, advance, bounds = traces.logged_draft_length, traces.logged_advance, traces.logged_offsets
        if length is None or advance is None or bounds is None:
            raise InputError(
                f"needs the columns logged_draft_length and logged_advance, which {traces.source or 'the trace'} "
                "lacks; record the engine's rounds"
            )
        rounds = np.diff(bounds)
        before = np.cumsum(advance) - advance
        at_begin = np.repeat(before[bounds[:-1][rounds > 0]], rounds[rounds > 0])
        start = before - at_begin + np.repeat(problem.offsets[:-1], rounds)
        end = np.repeat(problem.offsets[1:], rounds)
        _check_complete(inputs, advance, rounds)
        _check_matches(inputs, start, np.minimum(advance, end - start), length, end)
        latest = np.zeros(problem.positions, dtype=np.int64)
        latest[start] = np.arange(len(start))
        return Named(length[np.maximum.accumulate(latest)][:, None])


def _check_complete(inputs: Inputs, advance: NDArray[np.int64], rounds: NDArray[np.int64]) -> None:
    """Refuse a log that ends before the text does; that rounds follow one another was checked with the trace."""
    sizes = np.diff(inputs.problem.offsets)
    emitted = np.bincount(np.repeat(np.arange(len(sizes)), rounds), advance, minlength=len(sizes)).astype(np.int64)
    for g in np.flatnonzero(emitted < sizes)[:1]:
        raise InputError(
            f"generation '{printable(inputs.traces.generation[g])}' has {sizes[g]} positions, its {rounds[g]} logged "
            f"rounds advance by {emitted[g]} tokens; the log must reach from the first position to the last"
        )


def _check_matches(
    inputs: Inputs,
    start: NDArray[np.int64],
    advance: NDArray[np.int64],
    length: NDArray[np.int64],
    end: NDArray[np.int64],
) -> None:
    """Refuse match probabilities under which a round would not surely advance as logged."""
    problem = inputs.problem
    within = length <= problem.k_max
    if not within.all():
        return  # a length that may not be chosen: said with the lengths that may
    survival = np.column_stack([np.ones(problem.positions), problem.survival])
    reached = survival[start, np.minimum(advance - 1, problem.k_max)] == 1
    stopped = (advance > length) | (start + advance >= end)
    stopped |= survival[start, np.minimum(advance, problem.k_max)] == 0
    wrong = np.flatnonzero(~(reached & stopped & (advance <= length + 1)))
    if len(wrong):
        r = int(wrong[0])
        kinds = ", ".join(sorted(set(inputs.traces.match_kind)))
        raise InputError(
            f"needs realised scores: {place_of(int(start[r]), inputs)}: the match probabilities (match_kind: {kinds}) "
            f"do not say that a round with k = {length[r]} surely advances by {advance[r]}, as logged; elsewhere the "
            "log does not tell what the engine would do. Give realised matches (0 or 1), or score the rule that the "
            "engine followed"
        )
