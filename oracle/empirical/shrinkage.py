"""Rates by depth and context, shrunk towards what the other contexts say, with intervals.

At each depth, x_c of n_c rounds at risk matched in context c. The model is beta-binomial:

    p_c ~ Beta(s_c μ_c, s_c (1 − μ_c)),   x_c | p_c ~ Binomial(n_c, p_c)
    μ_c = (X − x_c + ½) / (N − n_c + 1),  s_c = min(s, N − n_c + 1)

with X and N summed over contexts: the prior mean comes from the *other* contexts, with Jeffreys' half a match and half
a rejection, and the prior never weighs more than the rounds behind it, so no round counts twice. A single context gets
Jeffreys' prior. The strength s, in rounds, is not known: estimates are averaged over a grid of 1 … 10⁶, weighted by the
marginal likelihood of the depth's counts and a prior that is flat in the standard deviation between contexts
(s^-1/2 a step of the grid, which is even in log s). A best s alone would too often say that contexts do not differ.

Rounds of one request resemble one another. Counts are therefore divided by a design effect, one a depth: the variance
of the rates between clusters over the binomial one, at least 1 (Rao & Scott 1992). Without it, requests that differ
would pass for contexts that differ, and intervals would be too narrow.

Intervals are equal-tailed 95 % of the Beta distribution with the posterior's mean and variance.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, betaln

from oracle.empirical.risk_sets import Context, RiskTable
from oracle.errors import InputError

MOST_ROUNDS = 1e12  # far above, a rate near 1 can no longer be told from 1
STRENGTHS = np.logspace(0, 6, 61)


@dataclass(frozen=True, eq=False)
class Rates:
    """Conditional match probabilities by context and depth.

    Attributes
    ----------
    contexts : (C,) labels
    at_risk, matched : (C, K) float64, rounds
        Raw counts.
    rate, low, high : (C, K) float64
        Posterior mean and its 95 % interval.
    design_effect : (K,) float64
        What counts were divided by.
    prior_rounds : (C, K) float64
        What the prior weighs, in rounds after division: posterior mean of s_c.
    clusters
        Clusters that the design effect rests on.
    """

    contexts: tuple[Context, ...]
    at_risk: NDArray[np.float64]
    matched: NDArray[np.float64]
    rate: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    design_effect: NDArray[np.float64]
    prior_rounds: NDArray[np.float64]
    clusters: int

    @property
    def depth(self) -> int:
        """K, the deepest position that was ever at risk."""
        return int(self.rate.shape[1])

    def of(self, context: Context) -> NDArray[np.float64]:
        """Rates (K,) of a context; a context without any counts takes what all others say together."""
        if context in self.contexts:
            return np.asarray(self.rate[self.contexts.index(context)])
        return np.asarray((self.matched.sum(axis=0) + 0.5) / (self.at_risk.sum(axis=0) + 1.0))


def shrunk(tables: Sequence[RiskTable]) -> Rates:
    """Estimate the rates.

    Parameters
    ----------
    tables
        One a context, all of one depth.

    Raises
    ------
    InputError
        Nothing was ever at risk, or more than `MOST_ROUNDS` rounds are said to have been.
    """
    if not tables or tables[0].at_risk.shape[1] == 0:
        raise InputError("no request drafted anything, so nothing is known of its matches; is speculative decoding on?")
    at_risk = np.stack([table.at_risk.sum(axis=0) for table in tables])
    matched = np.stack([table.matched.sum(axis=0) for table in tables])
    if at_risk.max() > MOST_ROUNDS:
        raise InputError(
            f"{at_risk.max():,.0f} rounds at one position of a draft cannot be; at most {MOST_ROUNDS:,.0f} are taken: "
            "look at the counts that were recorded"
        )
    effect = _design_effect(tables)
    n, x = at_risk / effect, matched / effect
    others_n, others_x = n.sum(axis=0) - n, x.sum(axis=0) - x
    mean = (np.maximum(others_x, 0) + 0.5) / (np.maximum(others_n, 0) + 1.0)
    most = np.maximum(others_n, 0) + 1.0
    weights = _weights(n, x)[:, None]  # (S, 1, K)
    strength = np.minimum(STRENGTHS[:, None, None], most)  # (S, C, K)
    total = strength + n
    p = (strength * mean + x) / total
    rate = (weights * p).sum(axis=0)
    prior_rounds = (weights * strength).sum(axis=0)
    variance = (weights * (p * (1 - p) / (total + 1) + (p - rate) ** 2)).sum(axis=0)
    size = rate * (1 - rate) / variance - 1
    return Rates(
        contexts=tuple(table.context for table in tables),
        at_risk=at_risk,
        matched=matched,
        rate=rate,
        low=betaincinv(rate * size, (1 - rate) * size, 0.025),
        high=betaincinv(rate * size, (1 - rate) * size, 0.975),
        design_effect=effect,
        prior_rounds=prior_rounds,
        clusters=len({name for table in tables for name in table.clusters}),
    )


def _design_effect(tables: Sequence[RiskTable]) -> NDArray[np.float64]:
    """Variance of the rate between clusters over the binomial variance, (K,), pooled over contexts; at least 1."""
    depth = tables[0].at_risk.shape[1]
    between, binomial = np.zeros(depth), np.zeros(depth)
    for table in tables:
        n, x = table.at_risk, table.matched
        there = (n > 0).sum(axis=0)
        total = n.sum(axis=0)
        p = np.divide(x.sum(axis=0), total, out=np.zeros(depth), where=total > 0)
        squares = ((x - p * n) ** 2).sum(axis=0)
        several = there > 1
        between += np.where(several, squares * there / np.maximum(there - 1, 1), 0.0)
        binomial += np.where(several, total * p * (1 - p), 0.0)
    return np.asarray(np.maximum(1.0, np.divide(between, binomial, out=np.ones(depth), where=binomial > 0)))


def _weights(n: NDArray[np.float64], x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Posterior weight of each s at each depth, (S, K), around the pooled mean."""
    mean = (x.sum(axis=0) + 0.5) / (n.sum(axis=0) + 1.0)
    a, b = STRENGTHS[:, None] * mean, STRENGTHS[:, None] * (1 - mean)
    likelihood = np.stack(
        [
            (betaln(a_s + x, b_s + np.maximum(n - x, 0)) - betaln(a_s, b_s)).sum(axis=0)
            for a_s, b_s in zip(a, b, strict=True)
        ]
    )
    logarithm = likelihood - 0.5 * np.log(STRENGTHS)[:, None]
    weight = np.exp(logarithm - logarithm.max(axis=0))
    return np.asarray(weight / weight.sum(axis=0))
