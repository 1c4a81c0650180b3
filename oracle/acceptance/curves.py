"""Acceptance by position of the draft, kept as survival, for each draft length it was measured at and each tenant.

Engines count *survival*: position j is accepted only if all before it were. Papers speak of *conditional*
probabilities. One is the running product of the other, and mixing them up is the commonest error in this field, so
nothing here guesses: whoever hands numbers over says which they are.
"""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from oracle.errors import Faults, InputError, InputWarning

AcceptanceIs = Literal["survival", "conditional"]
NORMAL_975 = 1.959963984540054
_ROUNDING = 1e-9
_LEAST_TO_SUSPECT = 4  # conditional rates that never rise over so many positions look like survival


@dataclass(frozen=True, eq=False)
class Curve:
    """Acceptance by position, measured at one draft length.

    Attributes
    ----------
    survival : (n,) float64
        S_1 … S_n, the chance that the first j draft tokens are all accepted.
    draft_length
        K that was drafted when it was measured; acceptance changes with it.
    tenant
        Whose traffic; None where it is not said.
    rounds
        Verification rounds behind it; None where the counts are not known.
    covariance : (n, n) float64 or None
        Of the survival's sampling errors.
    quantile
        What a standard error is multiplied by for a 95 % interval.
    interval_from
        Where the errors come from: `rounds` (binomial), `requests` (clustered), or `none`.
    by_position
        Whether each S_j is known. If not (engines that report totals), only S_1 + … + S_K is: the entries are its mean,
        so that sums and their errors come out right, and the curve speaks of k = `draft_length` alone.
    requests
        How many requests the rounds belong to, of the tenant with the fewest in a mix; None where it is not told.
    """

    survival: NDArray[np.float64]
    draft_length: int
    tenant: str | None = None
    rounds: float | None = None
    covariance: NDArray[np.float64] | None = None
    quantile: float = NORMAL_975
    interval_from: Literal["rounds", "requests", "none"] = "none"
    by_position: bool = True
    requests: int | None = None

    def mean_length(self, k: int) -> float:
        """Mean acceptance length of a draft of k tokens: 1 + S_1 + … + S_k, the bonus token included."""
        return 1.0 + float(self.survival[:k].sum())

    def length_error(self, k: int) -> float | None:
        """Standard error of the mean acceptance length of a draft of k tokens; None where no errors are known."""
        if self.covariance is None:
            return None
        return math.sqrt(max(0.0, float(self.covariance[:k, :k].sum())))

    def reaches(self, k: int) -> bool:
        """Whether it tells the acceptance of a draft of k tokens."""
        return len(self.survival) >= k and (self.draft_length == k or (self.by_position and self.draft_length > k))


@dataclass(frozen=True, eq=False)
class Acceptance:
    """Acceptance of a draft on some traffic.

    Attributes
    ----------
    curves
        At most one for each tenant and draft length.
    notes
        What a reader must know.
    """

    curves: tuple[Curve, ...]
    notes: tuple[str, ...] = field(default=())

    @property
    def tenants(self) -> tuple[str | None, ...]:
        """Whose traffic, in order of appearance; (None,) where it is not said."""
        return tuple(dict.fromkeys(curve.tenant for curve in self.curves))

    def of(self, tenant: str | None) -> "Acceptance":
        """Keep the curves of one tenant."""
        return Acceptance(tuple(curve for curve in self.curves if curve.tenant == tenant), self.notes)

    def at(self, k: int) -> Curve | None:
        """The curve for drafts of k tokens: measured at k, else the start of the nearest longer one; None if none is.

        For one tenant; nothing is ever extended beyond the positions that were measured.
        """
        reaching = [curve for curve in self.curves if curve.reaches(k)]
        return min(reaching, key=lambda curve: curve.draft_length, default=None)


def survival_from(
    rates: Sequence[float], acceptance_is: AcceptanceIs | None, place: str, *, mean_length: float | None = None
) -> NDArray[np.float64]:
    """Turn typed rates into survival.

    Parameters
    ----------
    rates
        One number a position.
    acceptance_is
        What they are; None is refused.
    mean_length
        Mean acceptance length (bonus included) that was stated beside them; contradicts a wrong reading.

    Raises
    ------
    InputError
        Not said which; a rate outside [0, 1]; survival that rises; a mean acceptance length that does not fit.
    """
    given = np.asarray(rates, dtype=np.float64)
    faults = Faults()
    if given.size == 0:
        faults.add(f"{place}: no rates; give one for each position of the draft")
    for j, rate in enumerate(given, 1):
        if not 0.0 <= rate <= 1.0:
            faults.add(f"{place}, position {j}: the rate is {rate:g}; a probability lies in [0, 1] (no percent)")
    if acceptance_is is None:
        faults.add(
            f"{place}: say what the rates are, with --acceptance-is survival (engines' counters: all tokens up to the "
            "position were accepted) or --acceptance-is conditional (papers: given that those before it were)"
        )
    faults.raise_if_any()
    if acceptance_is == "survival":
        for j in range(1, len(given)):
            if given[j] > given[j - 1] + _ROUNDING:
                faults.add(
                    f"{place}, position {j + 1}: survival rises from {given[j - 1]:g} to {given[j]:g} and never can; "
                    "if the rates are conditional, say --acceptance-is conditional"
                )
        faults.raise_if_any()
        survival: NDArray[np.float64] = given
    else:
        survival = np.asarray(np.cumprod(given), dtype=np.float64)
        if len(given) >= _LEAST_TO_SUSPECT and not (np.diff(given) > _ROUNDING).any() and given[-1] < given[0]:
            warnings.warn(
                f"{place}: the conditional rates never rise, which looks like survival; their running product would "
                "then be wrong: engines' counters are survival, say --acceptance-is survival for them",
                InputWarning,
                stacklevel=2,
            )
    if mean_length is not None:
        _check_mean_length(given, survival, mean_length, acceptance_is or "", place)
    return survival


def _check_mean_length(
    given: NDArray[np.float64], survival: NDArray[np.float64], stated: float, acceptance_is: str, place: str
) -> None:
    found = 1.0 + float(survival.sum())
    if abs(found - stated) <= 0.02 * stated:
        return
    other, name = (np.cumprod(given), "conditional") if acceptance_is == "survival" else (given, "survival")
    hint = (
        f"read as {name} they do: say --acceptance-is {name}"
        if abs(1.0 + float(other.sum()) - stated) <= 0.02 * stated
        else "check the rates and the length (it includes the bonus token)"
    )
    raise InputError(
        f"{place}: read as {acceptance_is} the rates make a mean acceptance length of {found:.3f}, but {stated:g} is "
        f"stated; {hint}"
    )


def counted(survival: NDArray[np.float64], draft_length: int, tenant: str | None, rounds: float | None) -> Curve:
    """Make a curve whose errors follow from its number of rounds: the accepted tokens of a round are multinomial.

    Cov(S_i, S_j) = (S_max(i, j) − S_i S_j) / rounds.
    """
    if not rounds:
        return Curve(survival, draft_length, tenant, None)
    deeper = np.minimum.outer(survival, survival)  # survival falls, so the smaller of two is the deeper one
    covariance = (deeper - np.outer(survival, survival)) / rounds
    return Curve(survival, draft_length, tenant, float(rounds), covariance, NORMAL_975, "rounds")


def clustered(
    at_risk: NDArray[np.float64], accepted: NDArray[np.float64], draft_length: int, tenant: str | None
) -> Curve:
    """Make a curve from counts by request; a position that was not drafted is not at risk, so it is no rejection.

    S_j is the product of accepted_i / at_risk_i over i ≤ j (Kaplan–Meier); its errors are those of the jackknife that
    leaves one request out, with Student's t.

    Parameters
    ----------
    at_risk : (R, K) float64
        Rounds of each request in which position j was drafted and all before it were accepted.
    accepted : (R, K) float64
        Those of them in which it was accepted.
    """
    risk, hits = at_risk.sum(axis=0), accepted.sum(axis=0)
    reached = int(np.argmin(np.append(risk, 0.0) > 0))  # positions that were never drafted say nothing
    if reached == 0:
        return Curve(np.empty(0), draft_length, tenant, 0.0)
    at_risk, accepted = at_risk[:, :reached], accepted[:, :reached]
    rate = hits[:reached] / risk[:reached]
    survival = np.cumprod(rate)
    requests = len(at_risk)
    if requests < 2:
        return replace(counted(survival, draft_length, tenant, float(risk[0])), requests=requests)
    others = risk[:reached] - at_risk
    without = np.divide(hits[:reached] - accepted, others, out=np.tile(rate, (requests, 1)), where=others > 0)
    left_out = np.cumprod(without, axis=1)
    deviation = left_out - left_out.mean(axis=0)
    covariance = (requests - 1) / requests * deviation.T @ deviation
    quantile = float(stdtrit(requests - 1, 0.975))
    rounds = float(risk[0])
    return Curve(survival, draft_length, tenant, rounds, covariance, quantile, "requests", requests=requests)
