"""Whether a few rounds far from the fit decide its coefficients: least squares against Huber's weights and trimming.

A pass that stalls for a second weighs as much as a million that are a millisecond off: it moves alpha, and it inflates
every error, so that alpha seems to be anything. Robust refits are compared at the scale that the other rounds have: the
CR3 interval times (robust standard deviation of the residuals / plain one).
"""

from dataclasses import dataclass

from oracle.latency.diagnostics.residuals import Tails
from oracle.latency.diagnostics.robustness import Robustness
from oracle.latency.diagnostics.shifts import Shift

MOVED_PERCENT = 20.0
SWOLLEN = 2.0  # plain over robust standard deviation: errors are twice what the bulk of the rounds says


@dataclass(frozen=True)
class Disagreement:
    """An alpha that a robust refit puts elsewhere.

    Parameters
    ----------
    check
        ``"Huber"`` or ``"trimmed"``.
    m
        Where.
    full, robust
        Alpha by least squares and by the refit, ms per expert.
    percent
        How far it moved, of the full fit.
    """

    check: str
    m: int
    full: float
    robust: float
    percent: float


def disagreements(joint: Robustness, tails: Tails) -> tuple[Disagreement, ...]:
    """Alphas of the joint fit that Huber's weights or trimming move.

    An alpha counts if it moves by more than 20 % and by more than the half-width of its interval at the robust scale;
    or if the intervals at the two scales differ in whether they hold 0, where far rounds at least double the errors.
    """
    scale = tails.robust_sd_ms / tails.sd_ms if tails.sd_ms > 0 else 1.0
    found = []
    for check in joint.checks:
        if check.name in ("Huber", "trimmed"):
            for m, full, other in zip(joint.ms, joint.full.alpha, check.alpha, strict=True):
                if full.value is not None and other.value is not None and _differ(full, other, min(scale, 1.0)):
                    found.append(Disagreement(check.name, m, full.value, other.value, other.percent or 0.0))
    return tuple(found)


def _differ(full: Shift, other: Shift, scale: float) -> bool:
    """Whether a robust refit contradicts the full fit."""
    if full.low is None or full.high is None or full.value is None or other.value is None:
        return False
    half = scale * (full.high - full.low) / 2
    moved = abs(other.value - full.value) > max(half, MOVED_PERCENT / 100 * abs(full.value))
    turned = (full.low <= 0 <= full.high) != (abs(other.value) <= half)
    return moved or (turned and scale * SWOLLEN <= 1)
