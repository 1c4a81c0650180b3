"""What to distrust about the rounds: how they were recorded, and how they spread about the fit."""

from collections.abc import Iterator, Sequence

import numpy as np

from oracle.intervals import FEW_CLUSTERS
from oracle.latency.diagnostics.column_comparison import ColumnComparison
from oracle.latency.diagnostics.drift import BlockDrift
from oracle.latency.diagnostics.far_rounds import SWOLLEN, Disagreement
from oracle.latency.diagnostics.residuals import Residuals
from oracle.latency.diagnostics.robustness import Robustness
from oracle.latency.diagnostics.shifts import Check, Shift
from oracle.latency.diagnostics.verdicts import named, span
from oracle.latency.diagnostics.weak_spot import Severity, WeakSpot
from oracle.latency.evidence import Evidence
from oracle.latency.moments import Floats

SHARED, MOSTLY_SHARED = 0.1, 0.5  # of the residual variance, by blocks of rounds recorded together
CERTAIN = 20.0  # likelihood ratio of the best block size; chance among the sizes tried stays far below
RISING_PERCENT, RISING_P = 1.0, 0.001
CONFOUNDED, FEWEST_BLOCKS = 0.1, 5  # that share of the recording order by m, or an m in fewer blocks
IN_TURN = 0.5  # share of the variance of the recording order that m explains
PULLED = 2.0  # CR3 errors, when a category is left out
HALVES_APART = 4.0  # CR3 errors: the shift of a half is about normal; in clean rounds one of ten passes 3.3 at times
ONE_CLUSTER = 0.5  # of the CR3 variance of a coefficient
FAR_PERCENT = 5.0  # that the coefficient moves without it
UNEVEN, UNEVEN_P = 1.5, 0.01  # spread of residuals at slow over fast rounds
HEAVY = 4 * 0.0027  # share beyond 3 sd: four times that of the normal distribution
BENT_PERCENT = 5.0  # of a mean draft time


def on_drift(evidence: Evidence, residuals: Residuals) -> Iterator[WeakSpot]:
    """Say if rounds recorded together share their residual, and if times rise over the run."""
    drift = residuals.drift
    if drift is not None and drift.share_of_variance > SHARED and drift.likelihood_ratio > CERTAIN:
        share, within = 100 * drift.share_of_variance, 100 * max(drift.share_within_clusters, 0.0)
        where = f"{drift.blocks} blocks of about {drift.rounds_in_block:.0f} rounds in {drift.order}"
        size = f"a block's level has an sd of {drift.sd_percent:.1f} %"
        if drift.share_within_clusters > drift.share_of_variance / 2:
            apart = _confounded(evidence, drift)
            severity: Severity = "high" if apart and drift.share_of_variance > MOSTLY_SHARED else "medium"
            yield WeakSpot(
                "drift",
                severity,
                f"drift over the run: {share:.0f} % of the residual variance is common to rounds recorded together "
                f"({where}; {size}, from {drift.lowest_percent:+.1f} to {drift.highest_percent:+.1f} %), "
                f"{within:.0f} % within clusters: rounds are not independent, "
                + (f"and {apart}: a difference between K may be drift" if apart else "but K were interleaved here"),
            )
        else:
            yield WeakSpot(
                "drift",
                "medium",
                f"{share:.0f} % of the residual variance is common to rounds recorded together ({where}; {size}), "
                f"but only {within:.0f} % within clusters: a block holds few texts, so drift and texts cannot be told "
                "apart",
            )
    for along in residuals.binned:
        p = along.trend.p
        if not along.held_out and along.variable in ("round_index", "row order"):
            rise = along.trend.rise_percent
            if p is not None and p < RISING_P and abs(rise) > RISING_PERCENT:
                yield WeakSpot(
                    "drift",
                    "medium",
                    f"times {'rise' if rise > 0 else 'fall'} by {abs(rise):.1f} % of their mean over the run "
                    f"({along.variable}) beyond what the model explains (p = {p:.1g}); the farthest bin is off by "
                    f"{along.largest_percent:+.1f} %",
                )


def _order(evidence: Evidence) -> Floats | None:
    index = evidence.columns.get("round_index")
    return None if index is None or np.isnan(index).any() else index


def _explained_by_m(evidence: Evidence, index: Floats) -> float:
    """Share of the variance of the recording order that m explains."""
    n = np.bincount(evidence.m)
    sums = np.bincount(evidence.m, weights=index - index.mean())
    total = float(((index - index.mean()) ** 2).sum())
    return float((sums[n > 0] ** 2 / n[n > 0]).sum()) / total if total > 0 else 0.0


def _confounded(evidence: Evidence, drift: BlockDrift) -> str:
    """How K goes with the recording order or its blocks; empty where K were interleaved, or there is one K."""
    if len(evidence.moments.ms) < 2:
        return ""
    index = _order(evidence)
    if index is None:
        index = np.arange(evidence.rounds, dtype=np.float64)
    share = _explained_by_m(evidence, index)
    if share > CONFOUNDED:
        return f"K explains {100 * share:.0f} % of the recording order"
    block = ((index - index.min()) // drift.block).astype(np.int64)
    pairs = np.unique(block * (int(evidence.m.max()) + 1) + evidence.m)
    blocks = np.bincount(pairs % (int(evidence.m.max()) + 1))
    m = min(evidence.moments.ms, key=lambda each: blocks[each])
    return f"K = {m - 1} was recorded in only {blocks[m]} of these blocks" if blocks[m] < FEWEST_BLOCKS else ""


def on_order(evidence: Evidence) -> Iterator[WeakSpot]:
    """Say if the m were recorded one after another."""
    index = _order(evidence)
    if index is None or len(evidence.moments.ms) < 2:
        return
    share = _explained_by_m(evidence, index)
    if share > IN_TURN:
        yield WeakSpot(
            "order",
            "medium",
            f"the draft lengths were recorded one after another (m explains {100 * share:.0f} % of the recording "
            "order): a difference between two m may be a drift, and no boundary between regimes can be laid to m",
        )


def on_pulls(robust: Robustness) -> Iterator[WeakSpot]:
    """Say which category, half or cluster moves a coefficient of the joint fit."""
    for name, least, words in (
        ("without category", PULLED, "the category pulls it"),
        ("half", HALVES_APART, "the halves of the run disagree"),
    ):
        shifts = [
            (check, what, shift)
            for check in robust.checks
            if name in check.name
            for what, shift in _labelled(robust, check)
            if shift.errors is not None and abs(shift.errors) > least
        ]
        if shifts:
            check, what, shift = max(shifts, key=lambda each: abs(each[2].errors or 0.0))
            more = f" ({len(shifts) - 1} more shifts beyond {least:g} standard errors)" if len(shifts) > 1 else ""
            yield WeakSpot(
                "category" if name == "without category" else "halves",
                "medium",
                f"{check.name}{f' {check.of}' if check.of else ''}: {what} moves by {_signed(shift.percent)} %, "
                f"{abs(shift.errors or 0.0):.1f} standard errors{more}; {words}",
            )
    if robust.clusters < FEW_CLUSTERS:
        return
    heavy = [pull for pull in robust.pulls if (pull.share_of_variance or 0.0) > ONE_CLUSTER]
    for cluster in dict.fromkeys(pull.cluster for pull in heavy):
        pulls = [pull for pull in heavy if pull.cluster == cluster]
        ms = [pull.m for pull in pulls if pull.coefficient == "alpha" and pull.m is not None]
        moved = [f"alpha at {named(ms)}"] if ms else []
        moved += ["c"] if len(pulls) > len(ms) else []
        most = max(pulls, key=lambda pull: pull.share_of_variance or 0.0)
        where = "c" if most.coefficient == "c" else f"alpha at m = {most.m}"
        yield WeakSpot(
            "cluster",
            "medium" if abs(most.shift.percent or 0.0) > FAR_PERCENT else "low",
            f"one cluster of {robust.clusters}, {cluster}, makes more than half of the variance of "
            f"{' and '.join(moved)} (up to {100 * (most.share_of_variance or 0.0):.0f} %): without it {where} moves by "
            f"{_signed(most.shift.percent)} %",
        )


def _signed(percent: float | None) -> str:
    return f"{round(percent or 0.0, 1) + 0.0:+.1f}"


def _labelled(robust: Robustness, check: Check) -> list[tuple[str, Shift]]:
    shifts = [(f"alpha at m = {m}", shift) for m, shift in zip(robust.ms, check.alpha, strict=True)]
    return shifts if check.context is None else [*shifts, ("c", check.context)]


def on_spread_of_residuals(residuals: Residuals) -> Iterator[WeakSpot]:
    """Say if residuals spread unevenly."""
    spread = residuals.heteroscedasticity
    ratio = spread.ratio
    if ratio is not None and spread.p < UNEVEN_P and not 1 / UNEVEN <= ratio <= UNEVEN:
        wide, narrow = ("slowest", "fastest") if ratio > 1 else ("fastest", "slowest")
        yield WeakSpot(
            "heteroscedasticity",
            "low",
            f"residuals spread {max(ratio, 1 / ratio) if ratio else np.inf:.1f} times as wide in the {wide} tenth of "
            f"rounds as in the {narrow} (sd {spread.top_sd_ms:.2g} ms at the top, {spread.bottom_sd_ms:.2g} at the "
            f"bottom, Breusch–Pagan p = {spread.p:.1g}); clustered errors allow for it",
        )


def on_tails(
    residuals: Residuals, robust: Robustness | None, disagreeing: Sequence[Disagreement]
) -> Iterator[WeakSpot]:
    """Say if residuals have heavy tails at the scale of the bulk of the rounds, and what robust refits make of it."""
    tails = residuals.tails[0]
    heavy = tails.over_3_robust_sd_share > HEAVY or tails.sd_ms > SWOLLEN * tails.robust_sd_ms
    said = (
        f"heavy tails: {100 * tails.over_3_robust_sd_share:.2g} % of the residuals lie beyond 3 robust sd "
        f"({3 * tails.robust_sd_ms:.2g} ms; normal: 0.27 %), the farthest at {tails.largest_ms:+.3g} ms; the plain sd "
        f"is {tails.sd_ms:.2g} ms, the robust one {tails.robust_sd_ms:.2g}"
    )
    if disagreeing:
        ms = sorted({each.m for each in disagreeing})
        worst = max(disagreeing, key=lambda each: abs(each.robust - each.full))
        turned = 2 * len(ms) >= len(robust.ms) if robust is not None else False
        yield WeakSpot(
            "heavy tails",
            "high" if turned else "medium",
            f"{said if heavy else 'a few rounds far from the fit matter'}; they decide alpha at {named(ms)}: at m = "
            f"{worst.m} it is {worst.full:.3g} ms by least squares and {worst.robust:.3g} "
            f"{'by Huber regression' if worst.check == 'Huber' else 'without the 1 % of rounds farthest off'}; look at "
            "these rounds before any coefficient is used",
        )
    elif heavy:
        huber = [] if robust is None else [check for check in robust.checks if check.name == "Huber"]
        moves = [(what, s) for check in huber if robust is not None for what, s in _labelled(robust, check) if s.errors]
        moved = max(moves, key=_size, default=None)
        what = (
            ""
            if moved is None
            else f"; Huber regression moves {moved[0]} by {moved[1].errors:+.1f} standard errors at most"
        )
        far = moved is not None and _size(moved) > PULLED
        yield WeakSpot("heavy tails", "medium" if far else "low", f"{said}{what}")


def _size(moved: tuple[str, Shift]) -> float:
    return abs(moved[1].errors or 0.0)


def on_draft(residuals: Residuals) -> Iterator[WeakSpot]:
    """Say if draft times bend, have zero timings or heavy tails."""
    draft = residuals.draft
    if draft is None:
        return
    worst = draft.worst_deviation_percent
    if draft.shape in ("concave", "convex") and draft.curvature is not None and worst is not None:
        row = next(row for row in draft.rows if row.k == draft.worst_k)
        off = (row.line_ms or 0.0) - row.mean_ms.value
        bend = draft.curvature
        yield WeakSpot(
            "draft",
            "medium" if abs(worst) > BENT_PERCENT else "low",
            f"draft times are {draft.shape} in k ({bend.value:+.2g} ms k² {span(bend.low, bend.high, 2)}): a "
            f"straight line is off by {worst:+.0f} % ({off:+.2g} ms) at k = {draft.worst_k}; use a table of times",
        )
    if draft.zero_share > 0:
        yield WeakSpot(
            "draft",
            "low",
            f"{100 * draft.zero_share:.2g} % of the rounds that draft have a draft_ms of 0 or less: left out",
        )
    if draft.over_3_sd_share > HEAVY:
        yield WeakSpot(
            "draft",
            "low",
            f"draft times have heavy tails: {100 * draft.over_3_sd_share:.2g} % lie beyond 3 sd "
            f"({3 * draft.sd_ms:.2g} ms) of their mean at k (normal: 0.27 %)",
        )


def on_columns(compared: ColumnComparison) -> Iterator[WeakSpot]:
    """Say which of two columns of unique experts carries errors; a is the one the model is fitted on."""
    if compared.noisier is None or compared.ratio is None:
        return
    apart = f"correlation {compared.correlation:.2f} inside an m, sd of the difference {compared.sd_difference:.2g}"
    a, b = compared.alpha_a.value, compared.alpha_b.value
    if compared.noisier == compared.b:
        yield WeakSpot(
            "columns",
            "low",
            f"{compared.b} behaves like {compared.a} with errors ({apart}): fitting on it shrinks alpha "
            f"{1 / compared.ratio:.1f}-fold, from {a:.3g} to {b:.3g} ms (errors of that size shrink it to "
            f"{compared.expected_if_b_errs:.2f} of its value; seen: {compared.ratio:.2f}), so never fit on it",
        )
    else:
        yield WeakSpot(
            "columns",
            "high",
            f"{compared.a} behaves like {compared.b} with errors ({apart}), as if it had been recorded along the "
            f"reference path and not for the tokens really verified: alpha is shrunk {compared.ratio:.1f}-fold, to "
            f"{a:.3g} ms instead of {b:.3g}; fit on {compared.b}",
        )
