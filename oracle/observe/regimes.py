"""The traffic regime of a group of requests: what `draft-oracle levers` takes, with intervals of what is resampled."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oracle.intervals import LEVEL, Interval
from oracle.levers.matches import Reading
from oracle.observe.gathered import Gathered
from oracle.observe.repetitiveness import acceptance, autocorrelation, never_ends, tried_after_a_match
from oracle.resampling import bootstrap

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]


@dataclass(frozen=True)
class ObservedRegime:
    """One group of requests; shares are None where nothing tells them.

    Attributes
    ----------
    slot, tenant
        Which group; None where not told apart.
    requests, tokens
        Requests that arrived and the tokens they emitted, whenever that was.
    concurrency, concurrency_mean, peak
        Requests in flight: mean while there are any, mean over all the time observed, most at once.
    prefix_share, repetitiveness
        rho and r, with intervals.
    autocorrelation
        x of the reading, with an interval, as the levers take it: 0 where it is negative; None where independent.
    never_ends
        Whether every match was followed by a match, so that x is only at most what the log carries.
    prompt_tokens, output_tokens, context_tokens
        Means over requests; context: of the time average of each request's.
    units
        Resampled for the intervals.
    tried : float
        Tokens looked at after a match: what `autocorrelation` rests on.
    """

    slot: str | None
    tenant: str | None
    requests: int
    tokens: int
    concurrency: float
    concurrency_mean: float
    peak: int
    prefix_share: float | None
    prefix_share_interval: Interval | None
    repetitiveness: float | None
    repetitiveness_interval: Interval | None
    autocorrelation: float | None
    autocorrelation_interval: Interval | None
    never_ends: bool
    prompt_tokens: float
    output_tokens: float
    context_tokens: float
    units: int
    tried: float

    @property
    def fault(self) -> str | None:
        """Why the levers cannot take it; None where they can."""
        if not self.concurrency >= 1:
            return "nobody was in flight"
        if self.prompt_tokens < 1 or self.output_tokens < 1:
            return "less than one token a prompt or an output"
        return None


@dataclass(frozen=True, eq=False)
class Material:
    """What regimes are made of.

    Attributes
    ----------
    log
    hit_tokens : (R,) int64, or None
        Tokens of each prompt that the prefix cache holds.
    unit : (R,) int64
        Unit of resampling.
    reading
        Of repetitiveness.
    """

    log: Gathered
    hit_tokens: Whole | None
    unit: Whole
    reading: Reading

    def totals(self, members: NDArray[np.intp]) -> Floats:
        """Sums of each unit of a group: (C, 2 + 2K + 12): prompt tokens, hit tokens, counts of the lookup."""
        if self.hit_tokens is None:
            return np.zeros((0, 2 + self.log.rounds.shape[1]))
        texts, hits = self.log.text_tokens[members], self.hit_tokens[members]
        rows = np.column_stack([texts, hits, self.log.rounds[members]]).astype(np.float64)
        names, at = np.unique(self.unit[members], return_inverse=True)
        sums = np.zeros((len(names), rows.shape[1]))
        np.add.at(sums, at, rows)
        return sums


def context_tokens(log: Gathered) -> Floats:
    """Time average of each request's context: its prompt from arrival on, its output growing evenly from prefill on."""
    whole = log.end - log.arrival
    first = np.where(np.isfinite(log.first_token), log.first_token, log.arrival)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.where(whole > 0, (log.end - first) / whole, 1.0)
    return np.asarray(log.prompt_tokens + log.output_tokens * share / 2)


def regime_of(
    material: Material,
    members: NDArray[np.intp],
    concurrency: tuple[float, float, int],
    slot: str | None = None,
    tenant: str | None = None,
) -> ObservedRegime:
    """Sum up a group of at least one request.

    Parameters
    ----------
    concurrency
        Mean while busy, mean, peak.
    """
    log = material.log
    sums = material.totals(members)

    def shares(totals: Floats) -> Floats:
        with np.errstate(invalid="ignore", divide="ignore"):
            found = totals[:, 1] / totals[:, 0]
        x = np.maximum(autocorrelation(totals[:, 2:], material.reading), 0.0)
        return np.column_stack([found, acceptance(totals[:, 2:], material.reading), x])

    def told_shares(totals: Floats) -> Floats:
        found = shares(totals)
        found[:, 2] = np.where(np.isnan(found[:, 2]), 0.0, found[:, 2])  # nothing matched, or all did: any x may be
        return found

    values: list[float | None] = [None, None, None]
    intervals: list[Interval | None] = [None, None, None]
    endless, tried = False, 0.0
    if len(sums):
        whole = shares(sums.sum(axis=0)[None])[0]
        tried = float(tried_after_a_match(sums.sum(axis=0)[2:], material.reading))
        values = [float(value) if np.isfinite(value) else None for value in whole]
        if len(sums) > 1:
            K = log.settings.draft_length
            told = [int((sums[:, column] > 0).sum()) for column in (0, 2 + 2 * K)]  # units with a prompt, with a round
            intervals = [
                around(*each) for each in zip(values, bootstrap(sums, told_shares), (*told, None), strict=True)
            ]
        if material.reading == "independent":
            values[2] = intervals[2] = None
        elif values[2] is not None and (endless := bool(never_ends(sums.sum(axis=0)[2:], material.reading))):
            intervals[2] = _of_endless(sums[:, 2:], values[2], intervals[2], material.reading)
    return ObservedRegime(
        slot,
        tenant,
        len(members),
        int(log.output_tokens[members].sum()),
        *concurrency,
        values[0],
        intervals[0],
        values[1],
        intervals[1],
        values[2],
        intervals[2],
        endless,
        float(log.prompt_tokens[members].mean()),
        float(log.output_tokens[members].mean()),
        float(context_tokens(log)[members].mean()),
        len(sums),
        tried,
    )


def _of_endless(sums: Floats, value: float, interval: Interval | None, reading: Reading) -> Interval:
    """Give the interval of x where no resample ends a chain: down to the binomial end of p11 over units that tell."""
    units = int((tried_after_a_match(sums, reading) > 0).sum())
    missed = np.asarray(((1 - LEVEL) / 2) ** (1 / units))
    low = max(0.0, float(autocorrelation(sums.sum(axis=0), reading, missed)))
    ends = (low, value) if interval is None else (low, value, interval.low, interval.high)
    return Interval(min(ends), max(ends))


def around(value: float | None, interval: Interval | None, units: int | None = None) -> Interval | None:
    """Let an interval of resamples hold the value itself, which resamples of few units may all miss.

    Where nothing was found in any unit, or everything in all, resamples do not differ and tell nothing: the exact
    binomial interval of `units` stands in, or none where their number is not given.
    """
    if value is None or interval is None:
        return None
    if interval.low < interval.high or value not in (0.0, 1.0):
        same = interval.low == interval.high
        return None if same else Interval(min(interval.low, value), max(interval.high, value))
    if not units:
        return None
    missed = ((1 - LEVEL) / 2) ** (1 / units)
    return Interval(0.0, 1 - missed) if value == 0 else Interval(missed, 1.0)
