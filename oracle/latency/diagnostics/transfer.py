"""How far coefficients carry: to an m left out of its regime, across a boundary, and from a few anchor m to the rest.

Every prediction comes from coefficients of other m (all clusters), and is measured on all rounds of the m predicted, so
questions may be known but the m is not: this is what happens when an m is priced that was never timed. Errors are mean
absolute percentage errors with 95 % intervals over clusters (linearised, t).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, combinations
from typing import Literal

import numpy as np
from scipy.special import stdtrit

from oracle.errors import InputError
from oracle.latency.diagnostics.regime_form import regime_form
from oracle.latency.diagnostics.runs import Partition, Run
from oracle.latency.diagnostics.specification import CONTEXT_TERM
from oracle.latency.diagnostics.transfer_tables import ENOUGH, Across, Anchors, LeftOut, Mape, Transfer
from oracle.latency.diagnostics.verdicts import listed
from oracle.latency.evidence import Evidence
from oracle.latency.forms import REGRESSORS, RESPONSE, varies
from oracle.latency.linear_form import residual_sums
from oracle.latency.moments import Floats, Moments
from oracle.latency.regression import fit_form

MOST_ANCHORS = 3
MUCH = 3


def transfer(evidence: Evidence, partition: Partition) -> Transfer:
    """Predict each m from others.

    Parameters
    ----------
    partition
        Regimes as runs of measured m, for example `Regimes.partition`, or ((2, 3, 4), (5, 6, 7)) from elsewhere.

    Raises
    ------
    InputError
        An m that was not measured, or no regimes.
    """
    unknown = [m for m in chain(*partition) if m not in evidence.moments.ms]
    if unknown or not partition:
        measured = ", ".join(map(str, evidence.moments.ms))
        what = f"m = {', '.join(map(str, unknown))} was not measured" if unknown else "no regimes are given"
        raise InputError(f"transfer: {what}; give regimes of the measured m ({measured})")
    priced = _Priced(evidence)
    whole = priced.fitted(partition)
    own = {}
    if whole is not None:
        own = priced.errors({m: whole(i, m) for i, run in enumerate(partition) for m in run})
    left_out = tuple(_left_out(priced, partition, own))
    across = tuple(_across(priced, partition, own, whole))
    anchors = tuple(_anchors(priced, partition, own))
    return Transfer(partition, left_out, across, anchors, tuple(_said(left_out, across, anchors)))


Fitted = Callable[[int, int], Floats]  # (which regime, m) -> beta0 at m, alpha and, where L varies, c


class _Priced:
    """Fits regimes on some m and measures their predictions at others."""

    def __init__(self, evidence: Evidence) -> None:
        self.regressors = tuple(name for name in REGRESSORS if name in evidence.factors)
        self.totals: Moments = evidence.moments.of((*self.regressors, RESPONSE)).by_m()
        self.varies = varies(self.totals, REGRESSORS[0]) if REGRESSORS[0] in self.regressors else {}
        self._evidence = evidence
        self._place = np.searchsorted(self.totals.m, evidence.m)
        self._cell = self._place * len(evidence.clusters) + evidence.cluster

    def fitted(self, partition: Partition) -> Fitted | None:
        """Fit regimes with one c; None where the m given do not identify a coefficient."""
        if not all(any(self.varies.get(m, False) for m in run) for run in partition):
            return None
        form = regime_form(partition, self.totals, "line")
        try:
            theta = fit_form(self.totals, form).theta
        except InputError:
            return None
        value = dict(zip(form.parameters, theta.tolist(), strict=True))
        shared = [value[CONTEXT_TERM.name]] if CONTEXT_TERM.name in value else []

        def at(regime: int, m: int) -> Floats:
            first = partition[regime][0]
            beta0 = value[f"beta0_ms[{first}]"] + value.get(f"slope_ms[{first}]", 0.0) * (m - first)
            return np.array([beta0, value[f"alpha[{first}]"], *shared])

        return at

    def errors(self, coefficients: Mapping[int, Floats]) -> dict[int, Mape]:
        """Percentage errors at each m that has coefficients, in one pass over the rounds."""
        if not coefficients:
            return {}
        evidence, G = self._evidence, len(self._evidence.clusters)
        table = np.zeros((1 + len(self.regressors), len(self.totals.m)))
        for m, beta in coefficients.items():
            table[:, np.searchsorted(self.totals.m, m)] = beta
        actual = evidence.columns[RESPONSE]
        left = actual - table[0][self._place]
        for slope, name in zip(table[1:], self.regressors, strict=True):
            left -= slope[self._place] * evidence.columns[name]
        size = table.shape[1] * G
        sums = np.bincount(self._cell, weights=np.abs(left) / actual, minlength=size).reshape(-1, G)
        counts = np.bincount(self._cell, minlength=size).reshape(-1, G).astype(np.float64)
        return {m: _mape(100 * sums[i], counts[i]) for i, m in enumerate(self.totals.m.tolist()) if m in coefficients}

    def worst_relative_error(self, coefficients: Mapping[int, Floats]) -> float:
        """Give the largest root mean squared error as a share of the mean time, over the m that have coefficients."""
        cells = self.totals.where(np.isin(self.totals.m, list(coefficients)))
        sums = residual_sums(cells, self.regressors, RESPONSE, coefficients)
        return float((np.sqrt(sums / cells.n) / cells.mean[:, -1]).max())


def _mape(sums: Floats, counts: Floats) -> Mape:
    """Ratio of sums over clusters with its linearised interval."""
    there = counts > 0
    G, n = int(there.sum()), float(counts.sum())
    value = float(sums.sum()) / n
    if G < 2:
        return Mape(value, None, None)
    squares = float(((sums - value * counts)[there] ** 2).sum())
    half = float(stdtrit(G - 1, 0.975)) * np.sqrt(G / (G - 1) * squares) / n
    return Mape(value, value - float(half), value + float(half))


def _left_out(priced: _Priced, partition: Partition, own: Mapping[int, Mape]) -> Iterator[LeftOut]:
    """Leave each m out of its regime; all predictions are measured in one pass."""
    coefficients, used = {}, {}
    for i, run in enumerate(partition):
        for m in run if len(run) > 1 else ():
            used[m] = tuple(other for other in run if other != m)
            at = priced.fitted((*partition[:i], used[m], *partition[i + 1 :]))
            if at is not None:
                coefficients[m] = at(i, m)
    errors = priced.errors(coefficients)
    for m, rest in used.items():
        yield LeftOut(m, rest, rest[0] < m < rest[-1], errors.get(m), own.get(m))


def _across(priced: _Priced, partition: Partition, own: Mapping[int, Mape], whole: Fitted | None) -> Iterator[Across]:
    """Predict the first m after each boundary from before it, and the last before it from after."""
    pairs = [(i, i + 1) for i in range(len(partition) - 1)]
    there: dict[tuple[int, bool], dict[int, Mape]] = {}
    for shift in (1, 0):  # predict the later regime's first m, then the earlier one's last
        for extended in (True, False):
            coefficients = {}
            for before, after in pairs:
                m, source, edge = _neighbours(partition, before, after, shift)
                if whole is not None:
                    coefficients[m] = whole(source, m if extended else edge)
            there[shift, extended] = priced.errors(coefficients)
    for before, after in pairs:
        for shift in (1, 0):
            m, source, _ = _neighbours(partition, before, after, shift)
            yield Across(m, partition[source], there[shift, True].get(m), there[shift, False].get(m), own.get(m))


def _neighbours(partition: Partition, before: int, after: int, shift: int) -> tuple[int, int, int]:
    """Give the m predicted, the regime it is predicted from, and that regime's nearest m."""
    if shift:
        return partition[after][0], before, partition[before][-1]
    return partition[before][-1], after, partition[after][0]


def _anchors(priced: _Priced, partition: Partition, own: Mapping[int, Mape]) -> Iterator[Anchors]:
    """Fit each regime of three m or more on some of its m only; c too comes from those."""
    runs = [run for run in partition if len(run) > 2]
    kinds: list[tuple[Literal["ends", "best"], int]] = [("ends", 2)]
    kinds += [("best", size) for size in range(1, MOST_ANCHORS + 1)]
    rows: dict[Run, list[Anchors]] = {run: [] for run in runs}
    for picked, size in kinds:
        chosen: dict[Run, Run] = {}
        coefficients: dict[int, Floats] = {}
        for run in (run for run in runs if size < len(run)):
            sets = [(run[0], run[-1])] if picked == "ends" else combinations(run, size)
            tried = [(anchors, found) for anchors in sets if (found := _predicted(priced, run, anchors)) is not None]
            if tried:
                chosen[run], beta = min(tried, key=lambda pair: priced.worst_relative_error(pair[1]))
                coefficients |= beta
        errors = priced.errors(coefficients)
        for run, anchors in chosen.items():
            others = [m for m in run if m not in anchors]
            worst = max(others, key=lambda m: errors[m].percent)
            enough = all(m in own and errors[m].percent <= own[m].percent + ENOUGH for m in others)
            rows[run].append(Anchors(run, anchors, picked, worst, errors[worst], enough))
    return chain(*rows.values())


def _predicted(priced: _Priced, run: Run, anchors: Run) -> dict[int, Floats] | None:
    at = priced.fitted((anchors,))
    return None if at is None else {m: at(0, m) for m in run if m not in anchors}


def _said(left_out: Sequence[LeftOut], across: Sequence[Across], anchors: Sequence[Anchors]) -> Iterator[str]:
    inside = [row.error.percent for row in left_out if row.inside and row.error]
    beyond = [row.error.percent for row in left_out if not row.inside and row.error]
    over = [error.percent for row in across for error in (row.extended, row.nearest) if error]
    for what, errors in (
        ("an m between others of its regime", inside),
        ("the first or last m of a regime, from the rest of it", beyond),
        ("the m next to a boundary, from the regime on its other side", over),
    ):
        if errors:
            yield f"{what}: MAPE {_range(errors)}"
    if inside and over:
        if min(over) > MUCH * max(inside):
            yield f"every prediction across a boundary is more than {MUCH} times as far off as any inside a regime"
        else:
            yield f"not every prediction across a boundary is {MUCH} times as far off as those inside a regime"
    for run in dict.fromkeys(row.regime for row in anchors):
        yield _on_anchors([row for row in anchors if row.regime == run])


def _range(errors: Sequence[float]) -> str:
    low, high = min(errors), max(errors)
    return f"{low:.2f} %" if f"{low:.2f}" == f"{high:.2f}" else f"{low:.2f}–{high:.2f} %"


def _on_anchors(rows: Sequence[Anchors]) -> str:
    run = rows[0].regime
    enough = [row for row in rows if row.enough]
    if not enough:
        best = min(rows, key=lambda row: row.worst.percent)
        return (
            f"m = {run[0]}–{run[-1]}: no {MOST_ANCHORS} anchors or fewer predict the others within {ENOUGH} percentage "
            f"points of the whole regime's fit; the best, m = {listed([str(m) for m in best.anchors])}, miss by "
            f"{best.worst.percent:.2f} % at m = {best.worst_m}"
        )
    row = min(enough, key=lambda row: (len(row.anchors), row.picked == "best"))
    return (
        f"m = {run[0]}–{run[-1]}: timing m = {listed([str(m) for m in row.anchors])} alone predicts the others within "
        f"{row.worst.percent:.2f} % (m = {row.worst_m})" + (", by hindsight" if row.picked == "best" else "")
    )
