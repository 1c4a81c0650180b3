"""Taking the regimes out: one alpha for all m, and beta0 on a straight line in m."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from oracle.changes.record import borrowed, recorded
from oracle.changes.terms import Priced, Term, kept_mean_ms


@dataclass(frozen=True)
class FlatRegime(Term):
    """One alpha and a beta0 that is linear in m: ``regime=flat``.

    alpha is the mean over the allowed lengths whose alpha was measured, weighted by the rounds of the fit where its
    record tells them for all of these, else equally. A length whose alpha is borrowed does not count, unless fewer
    than two others are left: then all count.

    As is, beta0 is the weighted least-squares line in m through the beta0 of the lengths that count. Refitted, it is
    the line through what the means leave, beta0 + (alpha - alpha') · mean U, of all allowed lengths: where alpha is
    borrowed that sum is measured all the same. A line cannot keep each length's mean cost; it keeps the weighted mean
    over all of them. The context coefficients stay.
    """

    def __str__(self) -> str:
        return "regime=flat"

    def as_is(self, now: Priced) -> Priced:
        """Average alpha, and lay a line through beta0."""
        count = counted(now)
        alpha = _one_alpha(now, count)
        line = _line(now.costs.verify_ms, weights(now, count))
        costs = now.costs
        allowed = costs.allowed
        flat = replace(costs, alpha_ms=np.where(allowed, alpha, 0.0), verify_ms=np.where(allowed, line, 0.0))
        return replace(now, costs=flat)

    def refitted(self, now: Priced) -> Priced | None:
        """Average alpha, and lay a line through what the means leave."""
        allowed = now.costs.allowed
        flat = replace(now.costs, alpha_ms=np.where(allowed, _one_alpha(now, counted(now)), 0.0))
        kept = kept_mean_ms(now, flat)
        if kept is None:
            return None
        line = _line(now.costs.verify_ms + kept, weights(now, allowed))
        return replace(now, costs=replace(flat, verify_ms=np.where(allowed, line, 0.0)))


def counted(now: Priced) -> NDArray[np.bool_]:
    """Mark the allowed lengths that alpha is averaged over; (K + 1,)."""
    allowed = now.costs.allowed
    own = allowed.copy()
    own[list(borrowed(now.model, now.costs.k_max))] = False
    return own if own.sum() >= 2 else allowed


def weights(now: Priced, count: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Shares of the lengths that count: by rounds if all are told, else equal; 0 for the others; (K + 1,)."""
    rounds = recorded(now.model, "rounds", now.costs.k_max)
    weight = np.where(count, rounds if rounds_told(now, count) else 1.0, 0.0)
    share: NDArray[np.float64] = weight / weight.sum()
    return share


def rounds_told(now: Priced, count: NDArray[np.bool_]) -> bool:
    """Whether the model's record tells the rounds of every length that counts."""
    rounds = recorded(now.model, "rounds", now.costs.k_max)[count]
    return bool(np.isfinite(rounds).all() and (rounds > 0).all())


def _one_alpha(now: Priced, count: NDArray[np.bool_]) -> float:
    """Average alpha; equal ones stay exactly what they are."""
    alpha = now.costs.alpha_ms[count]
    return float(alpha[0] + weights(now, count)[count] @ (alpha - alpha[0]))


def _line(values: NDArray[np.float64], share: NDArray[np.float64]) -> NDArray[np.float64]:
    """The weighted least-squares line in k through `values`, at every k; level if one point counts."""
    k = np.arange(len(values), dtype=np.float64)
    middle, level = float(share @ k), float(share @ values)
    spread = float(share @ (k - middle) ** 2)
    slope = float(share @ ((k - middle) * (values - level))) / spread if spread > 0 else 0.0
    line: NDArray[np.float64] = level + slope * (k - middle)
    return line
