"""What is shown of an ablation: how many decisions move, what that is made of, what choosing so costs."""

from collections.abc import Iterator, Sequence
from typing import Any

from oracle.ablation import TERMS, Prevalence
from oracle.intervals import FEW_CLUSTERS
from oracle.policies.sets import blind
from oracle.scores import Score
from oracle.study import AblationResult, Study
from oracle.tables import Row, Table, interval_cells, number, resampled, show, with_interval, words

_WHOLE = ("any", "longer", "shorter", "shift")
_HEADS = ("beta0", "more\nexperts", "dearer\nexperts", "context", "draft", "rejection", "continuation")


def ablation_tables(study: Study) -> list[Table]:
    """What each change of the costs moves and at what price, and the terms behind it."""
    if not study.ablations:
        return []
    tables = [_changes(study), _boundaries(study)]
    if any(result.by_category for result in study.ablations):
        tables.append(_categories(study))
    for number_, result in enumerate(study.ablations, 1):
        mark = "" if number_ == 1 else f"_{number_}"
        terms = _decomposition(study, result, mark)
        if terms.rows:  # nothing moves: nothing to take apart
            tables += [_transitions(study, result, mark), terms]
    return tables


def _changes(study: Study) -> Table:
    prices = {score.policy: score for score in study.scores}
    rows = [
        {
            "change": result.name,
            **_whole(result.prevalence),
            **_price(prices.get(blind(result.name))),
            "changed_ms_per_token": result.value_ms / study.positions if study.positions else None,
        }
        for result in study.ablations
    ]
    columns = (
        words("change", "change"),
        with_interval("% of positions\nmoved", "moved", ".2f", 100),
        with_interval("% of rounds\nmoved", "visit_moved", ".2f", 100),
        number("% longer", "longer", ".2f", 100),
        number("% shorter", "shorter", ".2f", 100),
        with_interval("mean shift,\ntokens", "shift", "+.3f"),
        with_interval("choosing so costs\nms/token more", "price_ms_per_token", ".4f"),
        number("%", "price_share", ".2f", 100),
    )
    notes = [
        f"the problem is solved again under the changed costs; {resampled(study.clusters)}",
        "choosing so: draft lengths of the changed optimum, paid for at full cost, against the oracle",
        *study.change_notes,
    ]
    return Table("changes", f"What changed costs move, {study.positions:,} decisions", columns, rows, notes)


def _whole(found: Sequence[Prevalence]) -> dict[str, Any]:
    """Shares over all k*, position-weighted and visit-weighted."""
    by = {p.boundary: p for p in found}
    cells: dict[str, Any] = {}
    for key in _WHOLE:
        p = by.get(key)
        name = "moved" if key == "any" else key
        cells |= interval_cells(name, None if p is None else p.share, None if p is None else p.interval)
        cells |= interval_cells(
            f"visit_{name}", None if p is None else p.visit_share, None if p is None else p.visit_interval
        )
    return cells


def _price(score: Score | None) -> dict[str, Any]:
    if score is None:
        return {**interval_cells("price_ms_per_token", None, None), "price_share": None}
    regret = score.regret_ms_per_token
    return {
        **interval_cells("price_ms_per_token", regret, score.regret_interval),
        "price_share": regret / (score.ms_per_token - regret),
    }


def _boundaries(study: Study) -> Table:
    rows: list[Row] = [
        {
            "change": result.name,
            "boundary": p.boundary,
            "decisions": p.decisions,
            **interval_cells("share", p.share, p.interval),
            **interval_cells("visit_share", p.visit_share, p.visit_interval),
        }
        for result in study.ablations
        for p in result.prevalence
        if p.boundary not in _WHOLE and p.decisions > 0
    ]
    columns = (
        words("change", "change"),
        words("k* →", "boundary"),
        number("decisions", "decisions"),
        with_interval("% of positions", "share", ".2f", 100),
        with_interval("% of rounds", "visit_share", ".2f", 100),
    )
    notes = ["4 → longer: k* = 4, and more under the changed costs: the boundary 4 | 5 moves"]
    if not rows:
        notes.insert(0, "no decision moves")
    return Table("boundaries", "Which boundaries move", columns, rows, notes)


def _categories(study: Study) -> Table:
    rows = [
        {
            "change": result.name,
            "category": category,
            "clusters": found[0].clusters if found else 0,
            "decisions": next((p.decisions for p in found if p.boundary == "shift"), 0),
            **_whole(found),
        }
        for result in study.ablations
        for category, found in result.by_category.items()
    ]
    columns = (
        words("change", "change"),
        words("category", "category"),
        number("clusters", "clusters"),
        number("decisions", "decisions"),
        with_interval("% of positions\nmoved", "moved", ".2f", 100),
        with_interval("% of rounds\nmoved", "visit_moved", ".2f", 100),
        with_interval("mean shift,\ntokens", "shift", "+.3f"),
    )
    few = sorted({str(row["category"]) for row in rows if row["clusters"] < FEW_CLUSTERS})
    notes = [f"fewer than {FEW_CLUSTERS} clusters, intervals too narrow: {', '.join(few)}"] if few else []
    notes.append("intervals of two categories are not paired: that they overlap or not is no test of a difference")
    return Table("shifts_by_category", "Decisions that move, by category", columns, rows, notes)


def _transitions(study: Study, result: AblationResult, mark: str) -> Table:
    lengths = study.costs.lengths
    total, rounds = (float(counts.sum()) for counts in result.transitions)
    same, same_rounds = (float(counts.trace()) for counts in result.transitions)
    rows = [
        {
            "draft_length": k,
            **{f"to_{other}": round(float(result.transitions[0, k, other])) for other in lengths},
            "visits": {str(other): float(result.transitions[1, k, other]) for other in lengths},
        }
        for k in lengths
    ]
    columns = (number("k*", "draft_length"), *(number(f"→ {other}", f"to_{other}") for other in lengths))
    notes = []
    if total:
        agree = f"{same:,.0f} of {total:,.0f} decisions agree ({show(same / total, '.1f', 100)} %)"
        notes = [f"{agree}, {show(same_rounds / rounds, '.1f', 100)} % weighted by the rounds of the oracle"]
    title = f"Decisions by k* (rows) and by k' under {result.name} (columns)"
    return Table(f"transitions{mark}", title, columns, rows, notes)


def _decomposition(study: Study, result: AblationResult, mark: str) -> Table:
    columns = (
        words("k* →", "boundary"),
        number("decisions", "decisions"),
        number("mean\nshift", "mean_shift", "+.2f"),
        *(number(head, term, "+.3f") for head, term in zip(_HEADS, TERMS, strict=True)),
        number("= ΔQ", "q_difference_ms", "+.4f"),
        number("continuation\nchanges by", "continuation_change_ms", "+.3f"),
    )
    notes = [
        "dearer experts: the other length's alpha on the same experts; continuation: minus the positions saved",
        "continuation changes by: what a draft saves later is worth another price under the changed costs and policy",
    ]
    if study.costs.shared_context:
        notes.append("one context coefficient for all m: the context term of every decision is 0")
    title = (
        f"Why the oracle does not go along with {result.name}: mean of Q(k') − Q(k*) over the moved decisions, by "
        "term, milliseconds"
    )
    return Table(f"decomposition{mark}", title, columns, list(_terms(study, result)), notes)


def _terms(study: Study, result: AblationResult) -> Iterator[Row]:
    for k in study.costs.lengths:
        for direction, word in enumerate(("longer", "shorter")):
            others = [o for o in study.costs.lengths if (o > k if word == "longer" else o < k)]
            counts = result.transitions[0, k, others]
            moved = float(counts.sum())
            if moved:
                means = result.terms_ms[direction, k] / moved
                yield {
                    "boundary": f"{k} → {word}",
                    "decisions": round(moved),
                    "mean_shift": sum((o - k) * float(c) for o, c in zip(others, counts, strict=True)) / moved,
                    **dict(zip(TERMS, means.tolist(), strict=True)),
                    "q_difference_ms": float(means.sum()),
                    "continuation_change_ms": float(result.continuation_change_ms[direction, k]) / moved,
                }
