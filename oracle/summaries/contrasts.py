"""What is shown of contrasts by language context: lengths, new experts, and what the source found beside it."""

from collections.abc import Iterator, Sequence
from typing import Any

from oracle.contrasts import Comparison, Contrasts, Difference, Group, GroupMean
from oracle.contrasts.estimates import DRAWS, Estimate
from oracle.contrasts.lengths import MEAN
from oracle.contrasts.steps import MISMATCHES
from oracle.intervals import FEW_CLUSTERS
from oracle.summaries.findings import difference_cells, findings_table
from oracle.tables import Column, Row, Table, interval_cells, number, resampled, with_interval, words

_HEADS = {
    "at_least_4": "k* ≥ 4",
    "at_most_1": "k* ≤ 1",
    "exactly_0": "k* = 0",
    "exactly_1": "k* = 1",
    "longest": "k* longest",
    MEAN: "mean k*",
}
_SHORT = {"not significant": " n.s.", "few clusters": " few", "no interval": "", "": ""}
_WORDS = (
    "n.s.: not significant at 5 % after Holm's correction over all groups of one kind, each measure and comparison its "
    f"own family; few: fewer than {FEW_CLUSTERS} clusters, too few to claim it"
)
_POOLED = "at the same step, weighted by what the group holds there; it holds the difference between the texts, too"
_WITHIN = (
    "within generations: those that hold both, weighted by n_a n_b / (n_a + n_b); the texts are the same on both sides"
)


def contrast_tables(found: Contrasts) -> list[Table]:
    """Findings of the source first, then k* by group and its differences, then new experts; none without positions."""
    if not found.positions:
        return []
    tables = [findings_table(found), _lengths(found)]
    tables += [_differences(found, "pooled"), _differences(found, "within")] if found.differences else []
    if found.by_step:
        tables += [_steps(found), _experts(found)]
    if found.drafted or found.expected:
        tables.append(_mismatches(found))
    return [table for table in tables if table.rows]


def _spec(measure: str) -> tuple[str, float]:
    return (".2f", 1) if measure == MEAN else (".1f", 100)


def _head(measure: str) -> str:
    return _HEADS[measure] if measure == MEAN else f"{_HEADS[measure]}, %"


def _lengths(found: Contrasts) -> Table:
    visits = {(mean.group, mean.measure): mean for mean in found.visit_means}
    rows: dict[Group, dict[str, Any]] = {}
    measures = list(dict.fromkeys(mean.measure for mean in found.means))
    for mean in found.means:
        row = rows.setdefault(mean.group, {**_group(mean.group), "decisions": round(mean.weight), **_held(mean)})
        row |= interval_cells(mean.measure, mean.mean.value, mean.mean.interval)
        by_rounds = visits.get((mean.group, mean.measure))
        row["rounds"] = None if by_rounds is None else by_rounds.weight
        estimate = Estimate(None) if by_rounds is None else by_rounds.mean
        row |= interval_cells(f"visit_{mean.measure}", estimate.value, estimate.interval)
    columns = (
        words("", "kind"),
        words("token at t", "group"),
        number("decisions", "decisions"),
        number("gener-\nations", "generations"),
        number("clus-\nters", "clusters"),
        *(with_interval(_head(measure), measure, *_spec(measure)) for measure in measures),
        number("by rounds\nmean k*", f"visit_{MEAN}", ".2f"),
    )
    few = [
        f"{row['kind']} {row['group']}".removeprefix("all ") for row in rows.values() if row["clusters"] < FEW_CLUSTERS
    ]
    notes = [
        "a decision at t belongs to the token at t, the first one that its round emits; each position counts once",
        "by rounds: weighted by the probability that a round of the oracle starts there; JSON holds all measures so",
        f"{resampled(found.clusters, DRAWS)}; they hold the sampling of traces, not the errors of the latency model",
        *([f"fewer than {FEW_CLUSTERS} clusters, intervals too narrow: {', '.join(few)}"] if few else []),
    ]
    title = f"Cost-optimal draft length by language context, {found.positions:,} decisions, each position once"
    return Table("lengths_by_context", title, columns, list(rows.values()), notes)


def _group(group: Group) -> dict[str, str]:
    return {"kind": group.kind, "group": group.name}


def _held(one: GroupMean | Difference) -> dict[str, int]:
    return {"generations": one.generations, "clusters": one.clusters}


def _difference(head: str, key: str, spec: str, scale: float = 1.0) -> Column:
    """Give a column of differences with interval, and the short word where one cannot be claimed."""
    plain = with_interval(head, key, spec, scale)
    return Column(head, lambda row: plain.show(row) + _SHORT[row.get(f"{key}_word") or ""])


def _differences(found: Contrasts, how: str) -> Table:
    visits = {(c.group, c.against, c.measure): c for c in found.visit_differences}
    measures = list(dict.fromkeys(one.measure for one in found.differences))
    rows: dict[tuple[Group, str], dict[str, Any]] = {}
    for one in found.differences:
        difference: Difference = getattr(one, how)
        if not difference.weight:
            continue
        start = {**_group(one.group), "against": one.against, "decisions": round(difference.weight)}
        row = rows.setdefault((one.group, one.against), {**start, **_held(difference)})
        row |= difference_cells(one.measure, difference)
        by_rounds = visits.get((one.group, one.against, one.measure))
        if by_rounds is not None:
            row |= difference_cells(f"visit_{one.measure}", getattr(by_rounds, how))
    columns = (
        words("", "kind"),
        words("token at t", "group"),
        words("against", "against"),
        number("decisions", "decisions"),
        number("gener-\nations", "generations"),
        number("clus-\nters", "clusters"),
        *(
            _difference(_HEADS[m], m, "+.2f" if m == MEAN else "+.1f", _spec(m)[1])
            for m in measures
            if m in ("at_least_4", "at_most_1", "exactly_0", MEAN)
        ),
    )
    where = "over all generations" if how == "pooled" else "within generations"
    notes = [
        "shares in percentage points; each position once; JSON holds all measures, both levels, p, and by rounds",
        *(
            [_WITHIN]
            if how == "within"
            else ["a group and the rest may stand in different texts: see within generations"]
        ),
        f"{resampled(found.clusters, DRAWS)}; {_WORDS}",
    ]
    title = f"Draft length by language context: differences {where}"
    name = "length_differences" + ("_within" if how == "within" else "")
    return Table(name, title, columns, list(rows.values()), notes)


def _steps(found: Contrasts) -> Table:
    rows: dict[int, dict[str, Any]] = {}
    for mean in found.by_step:
        row = rows.setdefault(mean.step, {"step": mean.step + 1, "anchors": round(mean.weight), **_held(mean)})
        row |= interval_cells(mean.measure, mean.mean.value, mean.mean.interval)
    columns = (
        number("step j", "step"),
        number("anchors", "anchors"),
        *(with_interval(f"new experts,\n{source}", source) for source in _sources(found)),
    )
    notes = [
        f"X(t, j) = U(t, j) − U(t, j − 1), mean per MoE layer; step 0 is left out: {found.top_k} by construction",
        "they change with j whatever the tokens are: comparisons are made within one j; "
        f"{resampled(found.clusters, DRAWS)}",
    ]
    return Table("new_experts_by_step", "New experts by step of a continuation", columns, list(rows.values()), notes)


def _sources(found: Contrasts) -> list[str]:
    return list(dict.fromkeys(mean.measure for mean in found.by_step))


def _experts(found: Contrasts) -> Table:
    rows = [_compared(one) for one in found.experts]
    columns = (words("", "kind"), words("token at t + j", "group"), words("experts", "experts"), *_comparison_columns())
    notes = [
        f"pooled: against all other tokens {_POOLED}",
        _WITHIN,
        "routing: along the text; recorded: of the tokens really verified, so that after a mismatch a step is counted "
        "under the token of the text though the row read another one",
        f"{resampled(found.clusters, DRAWS)}; {_WORDS}",
    ]
    title = "New experts by language context, mean per MoE layer, steps 1 … K aligned"
    return Table("new_experts_by_context", title, columns, rows, notes)


def _comparison_columns() -> tuple[Column, ...]:
    return (
        number("steps", "weight", ",.0f"),
        number("clus-\nters", "clusters"),
        number("mean", "pooled_mean"),
        number("against", "pooled_against"),
        _difference("difference", "pooled", "+.3f"),
        number("clusters\nwith both", "within_clusters"),
        _difference("within generations", "within", "+.3f"),
    )


def _compared(one: Comparison) -> dict[str, Any]:
    return {
        **_group(one.group),
        "experts": one.measure,
        "weight": one.pooled.weight,
        **_held(one.pooled),
        **difference_cells("pooled", one.pooled),
        "within_weight": one.within.weight,
        "within_generations": one.within.generations,
        "within_clusters": one.within.clusters,
        **difference_cells("within", one.within),
    }


def _mismatches(found: Contrasts) -> Table:
    rows = list(_mismatch_rows(found.drafted, "recorded drafts"))
    rows += _mismatch_rows(found.expected, "match probability")
    columns = (
        words("row", "group"),
        words("mismatches by", "by"),
        words("experts", "experts"),
        *_comparison_columns(),
    )
    notes = [
        "against: the same step (and step before) of drafts that still match there; step 0 is no step before",
        "the row of the first mismatch reads the tokens before it, all matched: both columns agree there; the row "
        "after is the first that reads the wrong token, and recorded experts are that token's",
        "rows with −: change from the one step to the other; their means are changes",
        f"pooled: {_POOLED}; {_WITHIN}",
        f"{resampled(found.clusters, DRAWS)}; {_WORDS}",
    ]
    title = "New experts where a draft first differs from the text, mean per MoE layer, steps aligned"
    return Table("new_experts_at_mismatch", title, columns, rows, notes)


def _mismatch_rows(comparisons: Sequence[Comparison], by: str) -> Iterator[Row]:
    for group in MISMATCHES:
        yield from ({"by": by, **_compared(one)} for one in comparisons if one.group == group)
