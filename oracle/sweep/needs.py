"""How many rounds each draft length needs for a wanted precision of alpha(m).

The standard error of alpha(m) after n rounds from G clusters is

    error = residual / (spread sqrt(n)) sqrt(1 + (n/G - 1) rho)

with the residual standard deviation of a round, the spread of U that context length does not explain, and rho, the
share of clustering. A pilot gives all three: rho from its design effects, the ratio of the clustered variance of alpha
(CR3) to that of least squares, which is 1 + (n_A - 1) rho with n_A the size-weighted rounds of a cluster. With rho > 0
more rounds of the same generations help only down to an error floor; the plan then asks for more generations.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import stdtrit

from oracle.errors import InputError
from oracle.latency.estimates import estimates_of
from oracle.latency.forms import REGRESSORS, RESPONSE, verification_form
from oracle.latency.moments import Moments, MomentsBuilder
from oracle.latency.regression import fit_form
from oracle.rounds import Rounds

MOST_CLUSTERING = 0.99
FEWEST = 4  # rounds with which alpha of one m can be estimated at all


@dataclass(frozen=True)
class Spread:
    """What decides the error of alpha at one m.

    Parameters
    ----------
    m
        Verified positions.
    residual_ms
        Standard deviation of a round about the model.
    experts_sd, mean_experts
        Standard deviation of U left by context length, and mean of U; the first is 0 where U does not vary.
    alpha_ms_per_expert
        Of the pilot; None without one, or where U does not vary.
    source
        ``"pilot"``, ``"given"``, or where it is extrapolated from.
    """

    m: int
    residual_ms: float
    experts_sd: float
    mean_experts: float
    alpha_ms_per_expert: float | None
    source: str

    @property
    def extrapolated(self) -> bool:
        """Whether nothing was measured at this m."""
        return self.source not in ("pilot", "given")


@dataclass(frozen=True)
class Pilot:
    """What a pilot's rounds say of precision.

    Parameters
    ----------
    spreads
        By m, rising.
    rounds, clusters
        Of the pilot.
    clustering
        rho of the module's formula, pooled over m, from 0 to `MOST_CLUSTERING`.
    design_effects
        m -> CR3 variance of alpha over its least-squares variance.
    """

    spreads: tuple[Spread, ...]
    rounds: int
    clusters: int
    clustering: float
    design_effects: Mapping[int, float]


@dataclass(frozen=True)
class Precision:
    """A wanted precision of alpha(m).

    Parameters
    ----------
    value
        ms per expert, or a share of the pilot's alpha where `relative`.
    relative
        Whether it is such a share.
    kind
        ``"half-width"`` of the 95 % interval (t, clusters - 1), or standard ``"error"``.
    """

    value: float
    relative: bool = False
    kind: str = "half-width"


@dataclass(frozen=True)
class Need:
    """Rounds that one draft length needs.

    Parameters
    ----------
    k, spread
        Draft length, and what its precision rests on.
    wanted_error
        Standard error that is wanted, ms per expert; None if none is, or U does not vary.
    rounds
        Rounds for that; None if none are asked for, or no number of rounds from these clusters is enough.
    clusters_at_least
        Clusters needed where no number of rounds from those planned is enough, else None.
    """

    k: int
    spread: Spread
    wanted_error: float | None
    rounds: int | None
    clusters_at_least: int | None


def pilot_of(rounds: Rounds | Iterable[Rounds]) -> Pilot:
    """Learn from a pilot's rounds.

    Raises
    ------
    InputError
        No rounds, one cluster only, or U that varies at no m.
    """
    moments = _moments([rounds] if isinstance(rounds, Rounds) else rounds)
    if len(moments.clusters) < 2:
        raise InputError("pilot: one generation only, so its clustering is unknown; record at least two (better ten)")
    chosen = verification_form(moments.by_m(), "separate")
    estimates = estimates_of(fit_form(moments, chosen.form), chosen.names, chosen.report)
    if "own" not in chosen.alpha_source:
        raise InputError("pilot: unique_experts varies at no m, so no alpha can be measured; record other rounds")
    spreads, effects, heavier = [], {}, {}
    for m in chosen.ms:
        name = f"alpha_ms_per_expert[{m}]"
        own = chosen.alpha_source[chosen.ms.index(m)] == "own"
        spread, variance = _spread(moments, m, estimates[name].value if own else None)
        spreads.append(spread)
        error = estimates[name].error_cr3
        if own and error is not None and variance > 0:
            effects[m] = error**2 / variance
            sizes = moments.n[moments.m == m]
            heavier[m] = float((sizes**2).sum() / sizes.sum())
    over = sum(effect - 1 for effect in effects.values())
    size = sum(heavier.values()) - len(heavier)
    clustering = min(max(over / size, 0.0), MOST_CLUSTERING) if size > 0 else 0.0
    return Pilot(tuple(spreads), moments.rounds, len(moments.clusters), clustering, effects)


def _moments(batches: Iterable[Rounds]) -> Moments:
    """Moments of the decode rounds with a positive target_ms."""
    builder, sizes = MomentsBuilder((*REGRESSORS, RESPONSE)), set()
    for batch in batches:
        use = ~batch.is_prefill & (batch.target_ms > 0)
        if "batch_size" in batch.table.column_names:
            sizes.update(np.unique(batch.numeric("batch_size")[use]).tolist())
        columns = [values[use] for values in (batch.unique_experts, batch.context_len, batch.target_ms)]
        builder.add(
            columns, batch.draft_length[use] + 1, batch.cluster_codes[use].astype(np.int64), batch.cluster_names
        )
    moments = builder.result()
    if not moments.rounds:
        raise InputError("pilot: no verification round with a positive target_ms; check how it was timed")
    if len(sizes) > 1:
        listed = ", ".join(f"{size:g}" for size in sorted(sizes))
        raise InputError(f"pilot: rounds of several batch sizes ({listed}); plan each batch size from its own pilot")
    present = np.bincount(moments.cluster, minlength=len(moments.clusters)) > 0
    names = tuple(name for name, there in zip(moments.clusters, present.tolist(), strict=True) if there)
    return replace(moments, clusters=names, cluster=(np.cumsum(present) - 1)[moments.cluster])


def _spread(moments: Moments, m: int, alpha: float | None) -> tuple[Spread, float]:
    """Spread of one m, and the least-squares variance of its alpha (0 if there is none)."""
    totals = moments.by_m().of((*REGRESSORS, RESPONSE))
    i = totals.ms.index(m)
    n, squares, mean = float(totals.n[i]), totals.comoment[i], float(totals.mean[i, 0])
    used = [j for j in (0, 1) if squares[j, j] > 0 and (j == 1 or alpha is not None)]
    inner = squares[np.ix_(used, used)]
    explained = squares[used, 2] @ np.linalg.lstsq(inner, squares[used, 2], rcond=None)[0] if used else 0.0
    residual = max(float(squares[2, 2] - explained), 0.0) / max(n - 1 - len(used), 1)
    left = float(squares[0, 0] - squares[0, 1] ** 2 / squares[1, 1]) if squares[1, 1] > 0 else float(squares[0, 0])
    if alpha is None:
        return Spread(m, math.sqrt(residual), 0.0, mean, None, "pilot"), 0.0
    return Spread(m, math.sqrt(residual), math.sqrt(left / n), mean, alpha, "pilot"), residual / left


def spreads_at(ks: Sequence[int], known: Sequence[Spread]) -> tuple[Spread, ...]:
    """Spread at every draft length: the pilot's own, else between its neighbours, else that of the nearest.

    An m without an alpha of its own (U does not vary) is no neighbour; m = 1 that was not in the pilot has none.
    """
    by_m = {spread.m: spread for spread in known}
    own = [spread for spread in known if spread.experts_sd > 0]
    result = []
    for m in (k + 1 for k in ks):
        if m in by_m:
            result.append(by_m[m])
            continue
        if m == 1:
            first = min(known, key=lambda spread: spread.m)
            result.append(Spread(1, first.residual_ms, 0.0, first.mean_experts, None, f"extrapolated: m = {first.m}"))
            continue
        below = max((spread for spread in own if spread.m < m), key=lambda spread: spread.m, default=None)
        above = min((spread for spread in own if spread.m > m), key=lambda spread: spread.m, default=None)
        result.append(_between(m, below, above))
    return tuple(result)


def _between(m: int, below: Spread | None, above: Spread | None) -> Spread:
    """Extrapolate to an m that was not measured."""
    if below is None or above is None:
        near = below or above
        assert near is not None
        values = (near.residual_ms, near.experts_sd, near.mean_experts, near.alpha_ms_per_expert)
        return Spread(m, *values, f"extrapolated: m = {near.m}")
    share = (m - below.m) / (above.m - below.m)

    def mix(a: float, b: float) -> float:
        return (1 - share) * a + share * b

    alpha = mix(below.alpha_ms_per_expert or 0.0, above.alpha_ms_per_expert or 0.0)
    return Spread(
        m,
        mix(below.residual_ms, above.residual_ms),
        mix(below.experts_sd, above.experts_sd),
        mix(below.mean_experts, above.mean_experts),
        alpha,
        f"extrapolated: between m = {below.m} and {above.m}",
    )


def error_after(spread: Spread, rounds: int, clusters: int, clustering: float) -> float | None:
    """Standard error of alpha, ms per expert, expected after some rounds; None where U does not vary."""
    if not spread.experts_sd > 0 or rounds < FEWEST:
        return None
    effect = 1 + max(rounds / clusters - 1, 0.0) * clustering
    return spread.residual_ms / spread.experts_sd * math.sqrt(effect / rounds)


def half_width(error: float | None, clusters: int) -> float | None:
    """Half-width of the 95 % t interval of a standard error."""
    return None if error is None or clusters < 2 else float(stdtrit(clusters - 1, 0.975)) * error


def need_of(k: int, spread: Spread, wanted: Precision | None, clusters: int, clustering: float) -> Need:
    """Rounds that one draft length needs.

    Raises
    ------
    InputError
        A precision relative to an alpha that is not known or not positive.
    """
    if wanted is None or not spread.experts_sd > 0:
        return Need(k, spread, None, None, None)
    error = wanted.value
    if wanted.relative:
        if spread.alpha_ms_per_expert is None or not spread.alpha_ms_per_expert > 0:
            raise InputError(
                f"--precision is a share of alpha, but at k = {k} the pilot's alpha is "
                f"{'unknown' if spread.alpha_ms_per_expert is None else format(spread.alpha_ms_per_expert, '.3g')}; "
                "give it in ms per expert"
            )
        error *= spread.alpha_ms_per_expert
    if wanted.kind == "half-width":
        error /= float(stdtrit(max(clusters - 1, 1), 0.975))
    alone = (spread.residual_ms / (spread.experts_sd * error)) ** 2  # rounds, were they independent
    if alone <= clusters:  # one round a cluster or fewer
        return Need(k, spread, error, max(math.ceil(alone), FEWEST), None)
    if alone * clustering >= clusters:
        return Need(k, spread, error, None, math.ceil(alone * clustering) + 1)
    rounds = alone * (1 - clustering) / (1 - alone * clustering / clusters)
    return Need(k, spread, error, max(math.ceil(rounds), FEWEST), None)
