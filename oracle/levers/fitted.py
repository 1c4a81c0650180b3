"""eta, overhead and autocorrelation from what was measured at each precision.

- eta(p) is the acceptance at p over that at the widest precision measured (only the ratio is identified; the widest one
  keeps the eta of the deployment). Intervals: binomial, rounds taken as independent.
- A round with speculation takes host + (tau b kappa g/(g0 B_v))·B longer than a step without, and what it reads more
  where the experts read grow with the pass: least squares over rounds of several batch sizes or precisions give the
  host time and B_v.
- Survival by position gives the chain of matches as the stationary reading has it: a = S_1, p11 = S_(j+1)/S_j pooled
  over positions, x = (p11 - a)/(1 - a).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from oracle.errors import InputError, printable
from oracle.levers.cost import more_read_ms
from oracle.levers.deployment import Deployment

_Z = 1.959963984540054  # 97.5 % of a normal distribution
_LOOSE = 0.25  # residual over the mean that speculation adds
_LEAST_GROWTH = 1e-6  # of a step: no clock tells less, and below it the slope is rounding
_ROUNDING = 1e-9  # of what speculation adds


@dataclass(frozen=True)
class Measured:
    """One measurement at one precision; what was not measured is None.

    Attributes
    ----------
    precision
        Its name.
    batch_size, draft_length
        Of the steps.
    step_off_ms, step_on_ms
        A decode step without speculation, and a whole round with it.
    acceptance
        Share of first draft tokens that were accepted.
    rounds
        Rounds over which it was counted.
    survival
        Share of rounds in which at least 1, 2, … draft tokens were accepted.
    break_even
        Ends of the repetitiveness at which speculation was seen to break even.
    """

    precision: str
    batch_size: float | None = None
    draft_length: int | None = None
    step_off_ms: float | None = None
    step_on_ms: float | None = None
    acceptance: float | None = None
    rounds: int | None = None
    survival: tuple[float, ...] | None = None
    break_even: tuple[float, float] | None = None

    @property
    def first_acceptance(self) -> float | None:
        """Acceptance of the first position, from the survival if that was given."""
        return self.survival[0] if self.survival else self.acceptance


@dataclass(frozen=True)
class FittedEta:
    """eta of one precision as measured, which may lie above 1, where the model ends.

    `interval` is 95 %, None without counts; `rounds` 0 where they were not counted.
    """

    precision: str
    acceptance: float
    eta: float
    interval: tuple[float, float] | None
    rounds: int
    is_reference: bool

    @property
    def is_outside(self) -> bool:
        """Whether it is above what the model holds: a draft that a narrower target accepts more of."""
        return self.eta > 1


@dataclass(frozen=True)
class FittedOverhead:
    """Host time of a round and B_v, with the number of measurements and their root mean square residual, ms.

    Intervals are 95 %, from what is left over the line; None from two measurements, or where the line was held at 0.
    `added_ms` is the mean time that speculation added, `is_held` whether the line asked for negative host work.
    """

    round_host_ms: float
    verify_batch: float
    n: int
    residual_ms: float
    host_interval: tuple[float, float] | None = None
    verify_interval: tuple[float, float] | None = None
    added_ms: float = math.inf
    is_held: bool = False

    @property
    def is_loose(self) -> bool:
        """Whether the line leaves a large part of what speculation adds unexplained."""
        return self.residual_ms > _LOOSE * self.added_ms


@dataclass(frozen=True)
class FittedChain:
    """Matches of one precision as a chain: first-position acceptance, acceptance after a match, autocorrelation."""

    precision: str
    first: float
    following: float
    autocorrelation: float


def fit_eta(deployment: Deployment, rows: Sequence[Measured]) -> tuple[FittedEta, ...]:
    """Fit eta of every precision with measured acceptance, the widest first.

    Raises
    ------
    InputError
        An unknown precision, or no match at all at the reference.
    """
    pooled: dict[str, tuple[float, int]] = {}
    for row in rows:
        deployment.named(row.precision)
        if row.first_acceptance is not None:
            total, rounds = pooled.get(row.precision, (0.0, 0))
            pooled[row.precision] = (total + row.first_acceptance * (row.rounds or 1), rounds + (row.rounds or 1))
    uncounted = {row.precision for row in rows if row.first_acceptance is not None and row.rounds is None}
    names = sorted(pooled, key=lambda name: -deployment.named(name).bytes_per_parameter)
    if len(names) < 2:
        return ()
    rate = {name: total / rounds for name, (total, rounds) in pooled.items()}
    reference = names[0]
    if rate[reference] <= 0:
        raise InputError(f"{printable(reference)}: acceptance is 0, so no eta can be measured against it")
    scale = deployment.named(reference).eta
    found = []
    for name in names:
        ratio = rate[name] / rate[reference]
        known = name != reference and not uncounted & {name, reference} and rate[name] > 0
        interval = None
        if known:
            spread = sum((1 - rate[n]) / (rate[n] * pooled[n][1]) for n in (name, reference))
            factor = math.exp(_Z * math.sqrt(spread))
            interval = (scale * ratio / factor, scale * ratio * factor)
        rounds = 0 if name in uncounted else pooled[name][1]
        found.append(FittedEta(name, rate[name], scale * ratio, interval, rounds, name == reference))
    return tuple(found)


def fit_overhead(deployment: Deployment, rows: Sequence[Measured]) -> FittedOverhead | None:
    """Fit host time and B_v to rounds with and without speculation; None where fewer than two were measured.

    Raises
    ------
    InputError
        The measurements cannot tell host work from verification, or contradict the model.
    """
    timed = [row for row in rows if row.step_off_ms is not None and row.step_on_ms is not None]
    if len(timed) < 2:
        return None
    how = deployment.speculation
    added, per_request, steps = [], [], []
    for row in timed:
        p = deployment.named(row.precision)
        g, B = row.draft_length or how.draft_length, row.batch_size or 1.0
        read = float(more_read_ms(deployment, p, B, g))
        added.append((row.step_on_ms or 0.0) - (row.step_off_ms or 0.0) - read)
        whole = deployment.read_ms_per_byte * p.bytes_per_parameter * p.kappa
        per_request.append(whole * g / how.reference_draft_length * B)
        steps.append(max(row.step_on_ms or 0.0, row.step_off_ms or 0.0))
    return _line(np.array(per_request), np.array(added), max(steps))


def _line(x: NDArray[np.float64], y: NDArray[np.float64], step_ms: float) -> FittedOverhead:
    """Fit y = host + x / B_v, host not negative; what grows by less than a millionth of `step_ms` does not grow."""
    if np.ptp(x) <= 1e-9 * np.max(x):
        raise InputError(
            "step times with and without speculation were measured where verification weighs the same; measure at "
            "another batch size, to tell it from host work"
        )
    away = x - x.mean()
    slope = float(away @ (y - y.mean()) / (away @ away))
    host = float(y.mean() - slope * x.mean())
    held = host < -_ROUNDING * float(np.abs(y).max())
    spread = None if held else _line_errors(x, y - host - slope * x)
    if held:  # nothing takes negative time: the nearest model without host work
        slope = min(slope, float(x @ y / (x @ x)))
    host = max(host, 0.0)
    if slope * np.ptp(x) <= _LEAST_GROWTH * step_ms:
        raise InputError(
            "measured step times do not grow with the batch by speculation, which this model cannot hold; check that "
            "step_on_ms is a whole round and step_off_ms a step without speculation, at the same batch size"
        )
    residual = float(np.sqrt(np.mean((y - host - slope * x) ** 2)))
    found = FittedOverhead(host, 1 / slope, len(x), residual, added_ms=float(y.mean()), is_held=held)
    if spread is None:
        return found
    least = slope - spread[0]
    return replace(
        found,
        host_interval=(max(0.0, host - spread[1]), host + spread[1]),
        verify_interval=(1 / (slope + spread[0]), 1 / least if least > 0 else math.inf),
    )


def _line_errors(x: NDArray[np.float64], left: NDArray[np.float64]) -> tuple[float, float] | None:
    """Half-widths of the 95 % intervals of slope and intercept of a line; None from two points."""
    free = len(x) - 2
    if free < 1:
        return None
    away = float(((x - x.mean()) ** 2).sum())
    scale = stdtrit(free, 0.975) * math.sqrt(float(left @ left) / free)
    return scale / math.sqrt(away), scale * math.sqrt(1 / len(x) + float(x.mean()) ** 2 / away)


def fit_autocorrelation(rows: Sequence[Measured]) -> tuple[FittedChain, ...]:
    """Fit the chain of matches of every row with survival over at least two positions."""
    found = []
    for row in rows:
        curve = row.survival or ()
        if len(curve) < 2 or not 0 < curve[0] < 1:
            continue
        following = sum(curve[1:]) / sum(curve[:-1])
        found.append(FittedChain(row.precision, curve[0], following, (following - curve[0]) / (1 - curve[0])))
    return tuple(found)


def missing(rows: Sequence[Measured]) -> tuple[str, ...]:
    """Say of eta and overhead, where the measurements do not suffice to fit them, what it takes."""
    accepted = len({row.precision for row in rows if row.first_acceptance is not None})
    timed = sum(row.step_off_ms is not None and row.step_on_ms is not None for row in rows)
    said = []
    if accepted < 2:
        said.append(f"eta: acceptance was measured at {accepted} of the two precisions or more that it takes")
    if timed < 2:
        said.append(f"overhead of a round: step times were measured at {timed} of the two points or more that it takes")
    return tuple(said)


def with_fitted(deployment: Deployment, etas: Sequence[FittedEta], added: FittedOverhead | None) -> Deployment:
    """Put fitted values in the place of assumed ones; an eta above 1 counts as 1, which is to be said."""
    by_name = {each.precision: each for each in etas if not each.is_reference}
    precisions = []
    for p in deployment.precisions:
        if p.name not in by_name:
            precisions.append(p)
            continue
        fit = by_name[p.name]
        ends = None if fit.interval is None else (min(1.0, fit.interval[0]), min(1.0, fit.interval[1]))
        precisions.append(replace(p, eta=min(1.0, fit.eta), eta_interval=ends))
    how = deployment.speculation
    if added is not None:
        how = replace(how, round_host_ms=added.round_host_ms, verify_batch=added.verify_batch)
    return replace(deployment, precisions=tuple(precisions), speculation=how)
