"""Whether alpha and c hold when the rounds are resampled, weighted down, trimmed, halved or left out in part.

The source's five checks at one draft length, and the same for the joint fit. Bootstrap, halves and leave-outs are
weights on groups of rounds, so they follow from moments (`Fit.weighted`); trimming and Huber's weights look at single
rounds. Huber regression is iteratively reweighted least squares with psi's bend at 1.345 and the scale of the median
absolute residual (over 0.6745), as `statsmodels.RLM` with ``HuberT``, which is its referee; each step refits from
weighted moments, so 21 coefficients of a million rounds take a second.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from oracle.errors import InputError
from oracle.intervals import interval_ends
from oracle.latency.diagnostics.refitting import Refitting, refitting, watched
from oracle.latency.diagnostics.shifts import Check, Shift, Watch
from oracle.latency.diagnostics.verified import Verified, verified
from oracle.latency.estimates import Estimate
from oracle.latency.evidence import Evidence
from oracle.latency.moments import Floats, Integers
from oracle.latency.regression import Fit

DEFAULT_M = 9  # the source looked at K = 8
RESAMPLES = 999
TRIMMED = 0.01  # share of rounds
BEND = 1.345  # of Huber's psi, in scales: 95 % efficient at the normal distribution
STEPS = 100  # of the reweighting, at most
SETTLED = 1e-11  # largest relative change of a coefficient in the last step
CLUSTERS_AT_ONCE = 512


@dataclass(frozen=True)
class Pull:
    """The cluster whose absence moves a coefficient most.

    Parameters
    ----------
    coefficient
        ``"alpha"`` or ``"c"``.
    m
        Where; None for c of the joint fit.
    cluster
        Its name.
    shift
        The coefficient without it.
    share_of_variance
        Its part of the CR3 variance. The CR3 error is made of these shifts, so that one cluster alone can never pull by
        much more than one error; a large share is what gives it away.
    """

    coefficient: str
    m: int | None
    cluster: str
    shift: Shift
    share_of_variance: float | None


@dataclass(frozen=True)
class Robustness:
    """How far alpha and c move.

    Parameters
    ----------
    m
        The one m that was examined; None for the joint fit over all.
    ms
        The m whose alpha is measured.
    clusters
        Clusters with rounds.
    full
        The fit itself with its CR3 intervals.
    checks
        Bootstrap, Huber, trimmed, the halves, each category left out.
    without_cluster
        For each alpha and c the two leave-outs with the lowest and the highest value.
    pulls
        For each alpha and c the cluster that moves it most.
    resamples, failed
        Bootstrap resamples, and how many of them do not identify the coefficients (left out of the percentiles).
    order
        What the halves go by: ``"round_index"`` or ``"row order"``, within each m.
    huber_steps
        Steps until the weights settled; None if they did not.
    notes
        What a reader should know, in words.
    """

    m: int | None
    ms: tuple[int, ...]
    clusters: int
    full: Check
    checks: tuple[Check, ...]
    without_cluster: tuple[Check, ...]
    pulls: tuple[Pull, ...]
    resamples: int
    failed: int
    order: str
    huber_steps: int | None
    notes: tuple[str, ...]


def robustness(
    evidence: Evidence, *, m: int | None = None, resamples: int = RESAMPLES, seed: int = 0
) -> tuple[Robustness, Robustness]:
    """Examine one m by itself, and the joint fit.

    Parameters
    ----------
    m
        The one m; None takes the largest measured up to 9 (draft length 8, the source's) whose alpha is measured.
    resamples, seed
        Of the clustered bootstrap.

    Raises
    ------
    InputError
        The rounds do not identify the coefficients, or hold no such m.
    """
    joint = verified(evidence)
    if m is None:
        below = [each for each in joint.own if each <= DEFAULT_M]
        m = max(below) if below else min(joint.own, default=None)
    if m is None:
        raise InputError(
            "unique_experts varies at no m (a dense target): there is no alpha whose robustness could fail"
        )
    return (
        _examined(evidence, verified(evidence, "separate", m), m, resamples, seed),
        _examined(evidence, joint, None, resamples, seed),
    )


def _examined(evidence: Evidence, found: Verified, m: int | None, resamples: int, seed: int) -> Robustness:
    """All checks of one fit."""
    report, estimates = watched(found)
    watch, rounds = Watch(found.own, report, estimates), refitting(evidence, found)
    fit, every = found.fit, len(rounds.rows)
    present = np.unique(fit.moments.cluster)
    full = watch.check("full fit", "", every, fit.theta)
    full = Check("full fit", "", every, *_with_intervals(full, estimates))
    checks, notes, failed = [], [], 0
    if len(present) > 1:
        check, failed = _bootstrap(watch, fit, present, every, resamples, seed)
        checks.append(check)
    else:
        notes.append("one cluster: nothing to resample or to leave out")
    residual = rounds.residual(fit.theta)
    huber, steps = _huber(watch, rounds, residual)
    checks.append(watch.check("Huber", "", every, huber))
    checks.append(_trimmed(watch, rounds, residual))
    groups, order = _groups_left_out(watch, evidence, rounds)
    checks += groups
    without, pulls = _clusters_left_out(watch, fit, present, m) if len(present) > 1 else ((), ())
    if failed:
        notes.append(f"{failed} of {resamples} resamples do not identify the coefficients and are left out")
    if steps is None:
        notes.append(f"the Huber weights did not settle in {STEPS} steps")
    notes += [
        f"{check.name}{f' {check.of}' if check.of else ''}: the rounds left do not identify the coefficients"
        for check in groups
        if any(shift.value is None for shift in check.alpha)
    ]
    return Robustness(
        m, found.own, len(present), full, tuple(checks), without, pulls, resamples, failed, order, steps, tuple(notes)
    )


def _with_intervals(full: Check, estimates: Sequence[Estimate]) -> tuple[tuple[Shift, ...], Shift | None]:
    """Alpha and c of the full fit with their CR3 intervals."""
    shifts = [*full.alpha, *([] if full.context is None else [full.context])]
    whole = [Shift(s.value, e.low, e.high, 0.0, 0.0) for s, e in zip(shifts, estimates, strict=True)]
    return tuple(whole[: len(full.alpha)]), whole[-1] if full.context is not None else None


def _bootstrap(watch: Watch, fit: Fit, present: Integers, rounds: int, resamples: int, seed: int) -> tuple[Check, int]:
    """Draw whole clusters with replacement; percentiles, and how many draws do not identify theta."""
    weights = np.zeros((resamples, len(fit.moments.clusters)))
    draws = np.random.default_rng(seed).multinomial(len(present), np.full(len(present), 1 / len(present)), resamples)
    weights[:, present] = draws
    theta = fit.weighted(weights)
    known = theta[~np.isnan(theta).any(axis=1)]
    if not len(known):
        return watch.check("bootstrap", "", rounds, np.full(len(fit.theta), np.nan)), resamples
    interval = interval_ends(known @ watch.report.T, len(present))
    return watch.check("bootstrap", "", rounds, known.mean(axis=0), interval), resamples - len(known)


def _huber(watch: Watch, rounds: Refitting, residual: Floats) -> tuple[Floats, int | None]:
    """Huber regression by reweighting; the coefficients and how many steps it took."""
    theta = rounds.found.fit.theta
    errors = np.array([e.error_cr3 or 0.0 for e in watch.estimates])
    normal = float(ndtri(0.75))
    for step in range(1, STEPS + 1):
        size = np.abs(residual)
        scale = float(np.median(size)) / normal
        if not scale > 0:
            return theta, step  # at least half of the rounds are fitted exactly
        new = rounds.weighted(np.minimum(1.0, BEND * scale / np.maximum(size, BEND * scale)))
        moved = np.abs(watch.report @ (new - theta))
        theta = new
        if (moved <= SETTLED * np.maximum(np.abs(watch.report @ theta), errors)).all():
            return theta, step
        residual = rounds.residual(theta)
    return theta, None


def _trimmed(watch: Watch, rounds: Refitting, residual: Floats) -> Check:
    """Leave out the 1 % of rounds with the largest absolute residuals and refit."""
    out = round(TRIMMED * len(residual))
    keep = np.ones(len(residual))
    if out:
        keep[np.argpartition(np.abs(residual), len(residual) - out)[-out:]] = 0.0
    try:
        theta = rounds.weighted(keep)
    except InputError:
        theta = np.full(len(rounds.found.fit.theta), np.nan)
    return watch.check("trimmed", "", len(residual) - out, theta)


def _groups_left_out(watch: Watch, evidence: Evidence, rounds: Refitting) -> tuple[list[Check], str]:
    """Each half of the run at every m, and each category left out; from moments of (half, category)."""
    half, order = _second_half(evidence, rounds)
    kinds = len(evidence.categories) + 1  # the last one: no category
    category = evidence.category[rounds.rows] % kinds
    of_half, of_category = np.divmod(np.arange(2 * kinds), kinds)
    cases = [("first half", "", of_half == 0), ("second half", "", of_half == 1)]
    if len(evidence.categories) > 1:
        cases += [("without category", name, of_category != i) for i, name in enumerate(evidence.categories)]
    group = half * kinds + category
    size = np.bincount(group, minlength=2 * kinds)
    weights = np.array([use for _, _, use in cases], dtype=np.float64)
    theta = rounds.of_groups(evidence, group, 2 * kinds, weights)
    return [watch.check(name, of, int(size[use].sum()), theta[i]) for i, (name, of, use) in enumerate(cases)], order


def _second_half(evidence: Evidence, rounds: Refitting) -> tuple[Integers, str]:
    """1 for rounds of the second half of the recording at their m, else 0."""
    index = evidence.columns.get("round_index")
    half = np.zeros(len(rounds.rows), dtype=np.int64)
    if index is None or np.isnan(index).any():
        for at in rounds.slices:
            half[at][(at.stop - at.start) // 2 :] = 1
        return half, "row order"
    recorded = index[rounds.rows]
    for at in rounds.slices:
        half[at] = recorded[at] >= np.median(recorded[at])
    return half, "round_index"


def _clusters_left_out(
    watch: Watch, fit: Fit, present: Integers, m: int | None
) -> tuple[tuple[Check, ...], tuple[Pull, ...]]:
    """Extremes of the exact refits without each cluster, and who pulls most."""
    parts = []
    for start in range(0, len(present), CLUSTERS_AT_ONCE):
        some = present[start : start + CLUSTERS_AT_ONCE]
        weights = np.ones((len(some), len(fit.moments.clusters)))
        weights[np.arange(len(some)), some] = 0.0
        parts.append(fit.weighted(weights))
    theta = np.concatenate(parts)
    values = theta @ watch.report.T
    sizes, names = fit.moments.cluster_sizes(), fit.moments.clusters
    extremes, pulls = dict[int, Check](), []
    for i, estimate in enumerate(watch.estimates):
        moved = values[:, i] - estimate.value
        if np.isnan(moved).all():
            continue
        for g in (int(np.nanargmin(moved)), int(np.nanargmax(moved))):
            left = int(sizes.sum() - sizes[present[g]])
            extremes[g] = watch.check("without cluster", names[present[g]], left, theta[g])
        g = int(np.nanargmax(np.abs(moved)))
        G, error = len(present), estimate.error_cr3
        share = float((G - 1) / G * (moved[g] / error) ** 2) if error else None
        is_alpha = i < len(watch.ms)
        where = watch.ms[i] if is_alpha else m
        pulls.append(Pull("alpha" if is_alpha else "c", where, names[present[g]], watch.shift(i, values[g, i]), share))
    return tuple(extremes[g] for g in sorted(extremes)), tuple(pulls)
