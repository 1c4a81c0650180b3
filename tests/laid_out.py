"""Random problems of `strategies` laid out as the product's own arrays."""

import numpy as np
import strategies
from numpy.typing import NDArray

from kernels.survival import survival_along, survival_by_depth
from oracle.columns import frozen
from oracle.costs import LengthCosts
from oracle.problem import Problem


def offsets_of(problem: strategies.Problem) -> NDArray[np.int64]:
    return frozen(np.concatenate([[0], np.cumsum(problem.lengths)]).astype(np.int64))


def stacked(tables: tuple[NDArray[np.generic], ...], width: int, dtype: type) -> NDArray[np.generic]:
    return frozen(np.concatenate([np.zeros((0, width), dtype), *[np.asarray(t, dtype) for t in tables]]))


def make(problem: strategies.Problem) -> Problem:
    """The product's arrays for a random problem; survival from the kernel that fits its match probabilities."""
    offsets = offsets_of(problem)
    n = int(offsets[-1])
    survival = np.full((n, problem.K), np.nan)
    to_end = np.full(n, np.nan)
    if problem.match_prob is None:
        match_probs = stacked(problem.match_probs, problem.K, np.float32)
        survival_by_depth(match_probs, offsets, survival, to_end)
    else:
        match_prob = frozen(np.concatenate([np.zeros(0, np.float32), *problem.match_prob]))
        survival_along(match_prob, offsets, survival, to_end)
    lengths = np.diff(offsets)
    within = np.arange(n) - np.repeat(offsets[:-1], lengths)
    return Problem(
        offsets=offsets,
        context_len=frozen((np.repeat(problem.context_start, lengths) + within).astype(np.float64)),
        survival=frozen(survival),
        unique_experts=stacked(problem.unique_experts, problem.K + 1, np.float64),
        to_end=frozen(to_end),
        experts_from="recorded",
    )


def costs_of(problem: strategies.Problem) -> LengthCosts:
    allowed = np.isin(np.arange(problem.K + 1), problem.allowed)
    return LengthCosts(problem.beta0, problem.alpha, problem.context, problem.draft, problem.reject, allowed)


def parts(problem: strategies.Problem, values: NDArray[np.generic]) -> list[NDArray[np.generic]]:
    return np.split(values, np.cumsum(problem.lengths)[:-1])
