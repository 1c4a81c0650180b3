"""Draft time by draft length: a straight line T_D = a k + b for k >= 1, a table of means, and the choice between them.

The source models draft time as a line; real times can be concave. The line is kept unless the table of means predicts
held-out rounds better by more than one standard error of the paired fold difference (in RMSE). Draft time at k = 0 is 0
by definition and takes no part.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from oracle.errors import InputError
from oracle.latency.estimates import Estimate, Estimates, estimates_of
from oracle.latency.linear_form import LinearForm, residual_sums
from oracle.latency.metrics import Coefficients, HeldOut
from oracle.latency.moments import Floats, Moments
from oracle.latency.regression import fit_form

RESPONSE = "draft_ms"
LINE_NAMES = ("ms_per_token", "base_ms")
Option = Literal["auto", "line", "table", "free"]


@dataclass(frozen=True)
class DraftRow:
    """Draft time at one draft length.

    Parameters
    ----------
    k, rounds
        Draft length and its rounds.
    mean_ms
        Mean draft time with clustered errors.
    line_ms
        What the line says; None if there is no line.
    """

    k: int
    rounds: int
    mean_ms: Estimate
    line_ms: float | None

    @property
    def deviation_percent(self) -> float | None:
        """Line minus mean, in percent of the mean."""
        return None if self.line_ms is None else 100 * (self.line_ms / self.mean_ms.value - 1)


@dataclass(frozen=True)
class DraftFit:
    """Draft time, both ways.

    Parameters
    ----------
    choice, reason
        ``"line"``, ``"table"`` or ``"free"``, and why, in words.
    line
        a (``ms_per_token``) and b (``base_ms``); None if fewer than two draft lengths were measured.
    rows
        The table, by rising k.
    line_held_out, table_held_out
        Held-out errors, over all k first and then by m = k + 1.
    warnings
        What a reader should know, in words.
    """

    choice: Literal["line", "table", "free"]
    reason: str
    line: Estimates | None
    rows: tuple[DraftRow, ...]
    line_held_out: tuple[HeldOut, ...] = ()
    table_held_out: tuple[HeldOut, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def mean_deviation_percent(self) -> float | None:
        """Mean absolute deviation of the line from the means, in percent."""
        deviations = [abs(row.deviation_percent) for row in self.rows if row.deviation_percent is not None]
        return float(np.mean(deviations)) if deviations else None


def line_form(ms: Sequence[int]) -> LinearForm:
    """T_D = a k + b with k = m - 1."""
    return LinearForm((), RESPONSE, LINE_NAMES, {m: np.array([[m - 1.0, 1.0]]) for m in ms})


def table_form(ms: Sequence[int]) -> LinearForm:
    """T_D = one mean for each k."""
    eye = np.eye(len(ms))
    return LinearForm((), RESPONSE, tuple(f"ms[{m - 1}]" for m in ms), {m: eye[i : i + 1] for i, m in enumerate(ms)})


def line_by_m(moments: Moments) -> dict[int, Floats]:
    """Draft time of each m on the line fitted to some of the clusters; also for m those clusters lack."""
    form = line_form(moments.ms)
    theta = fit_form(moments, form).theta
    return {m: np.array([theta[0] * (m - 1) + theta[1]]) for m in range(2, max(moments.ms) + 1)}


def table_by_m(moments: Moments) -> dict[int, Floats]:
    """Mean draft time of each m of some of the clusters."""
    totals = moments.by_m().of((RESPONSE,))
    return dict(zip(totals.m.tolist(), totals.mean, strict=True))


def fold_differences(by_fold_moments: Moments, line: Sequence[Coefficients], table: Sequence[Coefficients]) -> Floats:
    """Held-out RMSE of the line minus that of the table, ms, for each fold both can predict."""
    differences = []
    for f, (one, other) in enumerate(zip(line, table, strict=True)):
        cells = by_fold_moments.where(by_fold_moments.cluster == f)
        sums = [residual_sums(cells, (), RESPONSE, beta) for beta in (one, other)]
        both = ~np.isnan(sums[0]) & ~np.isnan(sums[1])
        n = cells.n[both].sum()
        if n:
            rmse = [np.sqrt(s[both].sum() / n) for s in sums]
            differences.append(rmse[0] - rmse[1])
    return np.array(differences)


def choose(differences: Floats) -> tuple[Literal["line", "table"], str]:
    """Apply the one-standard-error rule to the paired fold differences (line minus table, ms)."""
    if len(differences) < 2:
        return "line", "fewer than two folds to compare line and table"
    mean, error = float(differences.mean()), float(differences.std(ddof=1) / np.sqrt(len(differences)))
    said = f"held-out RMSE of the line minus that of the table is {mean:.4g} ms, one standard error {error:.4g} ms"
    if mean > error:
        return "table", f"{said}: the table is better"
    return "line", f"{said}: the line is kept"


def fit_draft(moments: Moments, option: Option, differences: Floats) -> DraftFit:
    """Fit line and table to all clusters and choose.

    Parameters
    ----------
    moments
        Moments of draft_ms at k >= 1, positive times only.
    option
        ``"auto"`` (the one-standard-error rule), ``"line"``, ``"table"``, or ``"free"`` (drafting costs nothing).
    differences
        From `fold_differences`; used by ``"auto"``.

    Raises
    ------
    InputError
        No draft time to fit; a line asked for that the rounds do not identify, or that is not positive everywhere.
    """
    if option == "free":
        return DraftFit("free", "asked for: drafting costs nothing", None, ())
    if not moments.rounds:
        raise InputError(
            "draft_ms is not positive in any round with draft length 1 or more; record the draft's time, or say "
            "that drafting "
            "costs nothing with draft = 'free' (--draft free)"
        )
    ms = moments.ms
    table = table_form(ms)
    means = estimates_of(fit_form(moments, table), table.parameters, np.eye(len(ms)))
    line = None
    if len(ms) > 1:
        line = estimates_of(fit_form(moments, line_form(ms)), LINE_NAMES, np.eye(2))
    sizes = moments.by_m().n.tolist()
    rows = []
    for m, n, mean in zip(ms, sizes, means.each, strict=True):
        on_line = None if line is None else line.each[0].value * (m - 1) + line.each[1].value
        rows.append(DraftRow(m - 1, round(n), mean, on_line))
    choice, reason = _chosen(option, rows, differences)
    return DraftFit(choice, reason, line, tuple(rows), warnings=tuple(_remarks(line, rows, choice)))


def _chosen(option: Option, rows: Sequence[DraftRow], differences: Floats) -> tuple[Literal["line", "table"], str]:
    if option == "table":
        return "table", "asked for"
    negative = [row for row in rows if row.line_ms is not None and row.line_ms <= 0]
    if len(rows) == 1:
        wrong = f"only draft length {rows[0].k} was measured, and one point gives no line"
    elif negative:
        wrong = f"the line gives {negative[0].line_ms:.4g} ms at k = {negative[0].k}, and a time is positive"
    elif option == "line":
        return "line", "asked for"
    else:
        return choose(differences)
    if option == "line":
        raise InputError(f"draft = 'line': {wrong}; use draft = 'table' or 'auto' (--draft)")
    return "table", wrong


def _remarks(line: Estimates | None, rows: Sequence[DraftRow], choice: str) -> list[str]:
    if line is None or choice != "line":
        return []
    remarks = []
    a, b = line["ms_per_token"].value, line["base_ms"].value
    if a < 0:
        remarks.append(
            f"draft: a = {a:.4g} ms per token is negative: drafting more would cost less time; check how draft_ms "
            "was recorded"
        )
    if b < 0:
        remarks.append(
            f"draft: b = {b:.4g} ms is negative; it is the line's intercept, not a time: at every measured k the "
            "line is positive"
        )
    return remarks
