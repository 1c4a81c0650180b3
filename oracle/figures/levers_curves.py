"""What figures of serving levers draw, as numbers: curves over concurrency, batch and acceptance, and observed values.

Numbers apart from drawing, so that the data given beside a figure are what it draws.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from oracle.levers.advised import admitted_regime, set_in
from oracle.levers.answer import Answer
from oracle.levers.break_even import precision_ratio, prefix_share_needed, repetitiveness_needed
from oracle.levers.cost import accept, capacity, overhead, round_length
from oracle.levers.deployment import Precision
from oracle.levers.matches import Reading, below_one, mean_length
from oracle.levers.regime import Numbers

_POINTS = 200
_CHAINS: tuple[Reading, ...] = ("independent", "stationary", "gated", "renewal")
_X = 0.4  # autocorrelation of the chains drawn where the deployment states none


@dataclass(frozen=True)
class Curve:
    """One line of a figure.

    Attributes
    ----------
    name
        Of its precision or reading.
    x, y : (n,) float64
        Points; y is nan where there is none.
    low, high : (n,) float64
        Ends of the band that the interval on eta makes; None without one.
    knee
        Requests that the KV cache holds; None where the line is of no precision.
    """

    name: str
    x: Numbers
    y: Numbers
    low: Numbers | None = None
    high: Numbers | None = None
    knee: float | None = None


@dataclass(frozen=True)
class Observed:
    """A point of the traffic as is or as admitted; `low`, `high`: ends of the interval on `y`, `y` without one."""

    x: float
    y: float
    low: float
    high: float

    @property
    def has_interval(self) -> bool:
        """Whether an interval was given."""
        return self.low < self.high


def observed(found: Answer, share: str, x: float) -> Observed:
    """Give the observed repetitiveness or prefix share, to be drawn at `x`."""
    return Observed(x, *(float(getattr(each, share)) for each in (found.regime, found.low, found.high)))


def admitted_now(found: Answer) -> float:
    """Requests in flight as they are, or as many as the advised cap admits."""
    return float(admitted_regime(found).concurrency)


def has_bands(found: Answer) -> bool:
    """Whether the eta of any precision came with an interval."""
    return any(p.eta_interval is not None for p in _precisions(found))


def _precisions(found: Answer) -> list[Precision]:
    """Give the precisions that can be used, the widest first."""
    allowed = (found.deployment.precisions[i] for i in found.deployment.admissible)
    return [p for p in allowed if p.name not in found.dropped]


def _knees(found: Answer) -> list[float]:
    return [float(capacity(found.deployment, p, found.regime)) for p in _precisions(found)]


def whole_numbers(top: float, points: int, more: Sequence[float] = ()) -> Numbers:
    """Give whole numbers from 1 to `top`, closer where they are small, and `more` of them."""
    spread = np.geomspace(1.0, max(top, 1.0), points).round()
    return np.unique([*spread, *(each for each in more if 1 <= each <= top)])


def repetitiveness_curves(found: Answer) -> list[Curve]:
    """Give r*(C) of every precision; nan where speculation never pays."""
    knees = _knees(found)
    here = admitted_now(found)
    C = whole_numbers(max(1.3 * max(knees), 1.1 * here, 8.0), _POINTS, [*knees, here])
    at = found.regime.having(concurrency=C)

    def needed(p: Precision) -> Numbers:
        share = repetitiveness_needed(found.deployment, p, at)
        return np.where(share <= 1, share, np.nan)

    curves = []
    for p, knee in zip(_precisions(found), knees, strict=True):
        low = high = None
        if p.eta_interval is not None:
            worst, low = (needed(replace(p, eta=eta, eta_interval=None)) for eta in p.eta_interval)
            high = np.where(np.isnan(worst) & ~np.isnan(low), 1.0, worst)  # never, at the lower end of eta
        curves.append(Curve(p.name, C, needed(p), low, high, knee))
    return curves


def prefix_share_curves(found: Answer) -> list[Curve]:
    """Give rho*(B), one line for all precisions unless prefill differs between them; the others have a knee only."""
    deployment, regime = found.deployment, found.regime
    decided, _ = set_in(found)
    chosen = deployment.precisions[decided.configuration().precision]
    knees = _knees(found)
    # from this batch on the cache never pays
    never = 1 / max(float(prefix_share_needed(deployment, chosen, regime, np.array(1.0))), 1e-300)
    widest = min(1.1 * max(knees), max(1.5 * never, 1.2 * float(decided.batch)))
    B, none = np.linspace(0.0, widest, _POINTS), np.zeros(0)
    pairs = list(zip(_precisions(found), knees, strict=True))
    if deployment.prefill_by_precision:
        return [Curve(p.name, B, prefix_share_needed(deployment, p, regime, B), knee=knee) for p, knee in pairs]
    alike = Curve("every precision", B, prefix_share_needed(deployment, chosen, regime, B))
    return [alike, *(Curve(p.name, none, none, knee=knee) for p, knee in pairs)]


def precision_curves(found: Answer) -> list[Curve]:
    """Give decode cost over that of the widest precision, without speculation."""
    knees, (widest, *_) = _knees(found), _precisions(found)
    top = 1.5 * max(*knees, 2.0)
    C = np.unique([*np.linspace(1.0, top, _POINTS).round(), *(k for k in knees if k >= 1)])
    at = found.regime.having(concurrency=C)
    return [
        Curve(p.name, C, precision_ratio(found.deployment, p, widest, at), knee=knee)
        for p, knee in zip(_precisions(found), knees, strict=True)
    ]


def round_length_curves(found: Answer) -> list[Curve]:
    """Give expected tokens a round by acceptance, for independent matches and the three readings of a chain."""
    how = found.deployment.speculation
    a, x = np.linspace(0.0, 1.0, 101), how.autocorrelation or _X
    return [
        Curve(
            reading if reading == "independent" else f"{reading}, x = {below_one(x)}",
            a,
            mean_length(a, how.draft_length, reading, 0.0 if reading == "independent" else x),
        )
        for reading in _CHAINS
    ]


def round_length_here(found: Answer) -> tuple[float, float, float]:
    """Give acceptance and tokens a round at the chosen precision, and the tokens above which speculation pays."""
    deployment, regime = found.deployment, found.regime
    decided, _ = set_in(found)
    chosen = deployment.precisions[decided.configuration().precision]
    needed = 1 + float(overhead(deployment, chosen, regime, decided.batch))
    return float(accept(deployment, chosen, regime)), float(round_length(deployment, chosen, regime)), needed
