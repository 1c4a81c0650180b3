"""The numbers that figures draw, where no table shown holds exactly those: one row a mark, bar or end of a line."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from oracle.contrasts import Comparison, Contrasts, Difference
from oracle.contrasts.estimates import Estimate
from oracle.figures import latency as latency_figures
from oracle.figures.contrasts import at_mismatches, expert_measure, length_measure, of_rest
from oracle.figures.stability import shares_below
from oracle.latency.evidence import Evidence
from oracle.latency.tables import CoefficientTable, FitResult
from oracle.realised.scores import RealisedScore, near_fastest
from oracle.stability.decisions import LABELS
from oracle.stability.study import Stability
from oracle.tables import Column, Row, Table, interval_cells, number, with_interval, words

_COEFFICIENTS = ("beta0_ms", "alpha_ms_per_expert", "context_ms_per_token")


def wasted_drawn(scores: Mapping[str, Sequence[RealisedScore]], name: str) -> Table:
    """Points of the Pareto view: time and drafts thrown away; those that lie outside are named under it."""
    rows: list[Row] = [
        {
            "panel": panel,
            "policy": one.policy,
            **interval_cells("wasted_per_token", one.wasted_per_token, one.wasted_interval),
            **interval_cells("ms_per_token", one.ms_per_token, one.interval),
            "undominated": one.undominated,
            "outside": outside,
        }
        for panel, some in scores.items()
        for outside, part in zip((False, True), near_fastest(some), strict=True)
        for one in part
    ]
    columns = (
        words("panel", "panel"),
        words("policy", "policy"),
        with_interval("wasted a token", "wasted_per_token"),
        with_interval("ms/token", "ms_per_token"),
    )
    return Table(name, "Time against draft tokens thrown away: the points drawn", columns, rows)


def lengths_drawn(found: Contrasts) -> Table:
    """Both panels of draft lengths by language context."""
    measure = length_measure(found)
    rows = []
    for series, means in (("each position once", found.means), ("by rounds", found.visit_means)):
        for mean in means:
            if mean.measure == measure:
                start = {"panel": "left", "kind": mean.group.kind, "group": mean.group.name, "series": series}
                rows.append({**start, "measure": measure, **_mark(mean.mean, hollow=False)})
    rows += _differences(found.differences, measure, "right")
    return Table("context_lengths_drawn", "Draft lengths by language context: the marks drawn", _marks(), rows)


def experts_drawn(found: Contrasts) -> Table:
    """Both panels of new experts by language context."""
    rows = list(_differences(found.experts, expert_measure(found), "left"))
    for series, by_group in at_mismatches(found):
        for group, one in by_group.items():
            start = {"panel": "right", "kind": group.kind, "group": group.name, "series": series}
            rows.append({**start, "measure": series.split(",")[0], **_mark(one.difference, hollow=one.word != "")})
    return Table("context_experts_drawn", "New experts by language context: the marks drawn", _marks(), rows)


def _differences(comparisons: Sequence[Comparison], measure: str, panel: str) -> Iterator[dict[str, Any]]:
    for group, one in of_rest(comparisons, measure).items():
        drawn: tuple[tuple[str, Difference], ...] = (("pooled", one.pooled), ("within generations", one.within))
        for series, each in drawn:
            if each.weight:
                start = {"panel": panel, "kind": group.kind, "group": group.name, "series": series}
                yield {**start, "measure": measure, **_mark(each.difference, hollow=each.word != "")}


def _mark(estimate: Estimate, *, hollow: bool) -> dict[str, Any]:
    return {**interval_cells("value", estimate.value, estimate.interval), "hollow": hollow}


def _marks() -> tuple[Column, ...]:
    named = (words(head, head) for head in ("panel", "kind", "group", "series", "measure"))
    return (*named, with_interval("value", "value", ".4f"))


def stability_drawn(found: Stability) -> Table:
    """Bars of the labels by k*, and both curves of shares below."""
    rows: list[Row] = [
        {
            "panel": "left",
            "series": name,
            "draft_length": row.draft_length,
            "decisions": row.decisions,
            "x": None,
            "share": row.positions.labels[i],
        }
        for i, name in enumerate(LABELS)
        for row in found.rows
    ]
    rows += [
        {"panel": "right", "series": name, "draft_length": None, "decisions": None, "x": x, "share": y}
        for name, edges, below in shares_below(found)
        for x, y in zip(edges.tolist(), below.tolist(), strict=True)
    ]
    columns = (
        words("panel", "panel"),
        words("series", "series"),
        number("k*", "draft_length"),
        number("x", "x", ".2f"),
        number("% of decisions", "share", ".1f", 100),
    )
    return Table("stability_drawn", "Stability of decisions: the bars and curves drawn", columns, rows)


def coefficients_drawn(result: FitResult) -> Table:
    """Coefficients by m of the joint fit and of the fits of their own."""
    rows: list[Row] = []
    for table in (result.joint, result.separate or result.joint):
        for row in table.rows:
            cells: dict[str, Any] = {"series": table.kind, "m": row.m, "alpha_source": row.alpha_source}
            for name in _COEFFICIENTS:
                estimate = getattr(row, name)
                cells |= interval_cells(name, estimate.value, estimate)
            rows.append(cells)
    columns = (
        words("fit", "series"),
        number("m", "m"),
        *(with_interval(name, name, ".5f") for name in _COEFFICIENTS),
        words("alpha from", "alpha_source"),
    )
    return Table("coefficients_drawn", "Coefficients by m: the marks drawn", columns, rows)


def rounds_drawn(evidence: Evidence, joint: CoefficientTable) -> Table:
    """The rounds that stand as points, and both ends of the line of every m."""
    names = ("unique_experts", "target_ms", "context_len")
    rows: list[Row] = []
    for row, shown in zip(joint.rows, latency_figures.sampled_rounds(evidence, joint), strict=True):
        rows += [
            {"m": row.m, "series": "round", **{name: float(evidence.columns[name][i]) for name in names}}
            for i in shown.tolist()
        ]
        ends = zip(*latency_figures.line_of(evidence, row), strict=True)
        rows += [
            {"m": row.m, "series": "line", **dict(zip(names, (u, ms, row.mean_context_len), strict=True))}
            for u, ms in ends
        ]
    columns = (number("m", "m"), words("", "series"), *(number(name, name) for name in names))
    return Table("rounds_drawn", "Rounds drawn at random for the figure, and its lines", columns, rows)
