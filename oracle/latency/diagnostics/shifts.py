"""Alpha and c under a check, compared with the full fit."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from oracle.latency.estimates import Estimate
from oracle.latency.moments import Floats


@dataclass(frozen=True)
class Shift:
    """A coefficient under one check; the unit is that of the coefficient.

    Parameters
    ----------
    value
        The coefficient; None where the check does not identify it.
    low, high
        95 % interval: CR3 of the full fit, percentiles of the bootstrap; None for other checks.
    percent, errors
        Value minus that of the full fit, in percent of it and in its CR3 errors.
    """

    value: float | None
    low: float | None
    high: float | None
    percent: float | None
    errors: float | None


@dataclass(frozen=True)
class Check:
    """Alpha and c under one check.

    Parameters
    ----------
    name
        ``"full fit"``, ``"bootstrap"``, ``"Huber"``, ``"trimmed"``, ``"first half"``, ``"second half"``,
        ``"without category"`` or ``"without cluster"``.
    of
        The category or cluster left out; empty for other checks.
    rounds
        Rounds it uses.
    alpha
        At each m of `Robustness.ms`.
    context
        c; None where context does not vary.
    """

    name: str
    of: str
    rounds: int
    alpha: tuple[Shift, ...]
    context: Shift | None


@dataclass(frozen=True)
class Watch:
    """The coefficients under watch: alpha at each measured m, then c."""

    ms: tuple[int, ...]
    report: Floats
    estimates: Sequence[Estimate]

    def shift(self, i: int, value: float, low: float | None = None, high: float | None = None) -> Shift:
        """Compare a value of the i-th coefficient with the full fit."""
        full, error = self.estimates[i].value, self.estimates[i].error_cr3
        if not np.isfinite(value):
            return Shift(None, None, None, None, None)
        moved = float(value) - full
        return Shift(float(value), low, high, 100 * moved / full if full else None, moved / error if error else None)

    def check(self, name: str, of: str, rounds: int, theta: Floats, interval: Floats | None = None) -> Check:
        """Set out one check; theta may be NaN, `interval` is (2, coefficients)."""
        values = self.report @ theta
        ends = [(None, None)] * len(values) if interval is None else [(float(a), float(b)) for a, b in interval.T]
        shifts = [self.shift(i, value, *ends[i]) for i, value in enumerate(values.tolist())]
        alphas = len(self.ms)
        return Check(name, of, rounds, tuple(shifts[:alphas]), shifts[alphas] if len(shifts) > alphas else None)
