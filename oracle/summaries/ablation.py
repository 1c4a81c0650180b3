"""What is shown of an ablation: how many decisions change, what that is made of, what blindness costs."""

from collections.abc import Sequence
from typing import Any

from oracle.ablation import TERMS, Prevalence
from oracle.analysis import AS_IS, REFITTED
from oracle.study import AblationResult, Study
from oracle.tables import Row, Table, interval_cells, number, resampled, show, with_interval, words

_POLICY = {AS_IS: "blind", REFITTED: "blind:refitted"}
_HOW = {AS_IS: "as is: alpha = 0, all else kept", REFITTED: "beta0 refitted: every window costs its length's mean"}
_NAME = {AS_IS: "shifts_without_experts", REFITTED: "shifts_without_experts_refitted"}


def ablation_tables(study: Study) -> list[Table]:
    """Shifts under each change of the costs, and the terms behind the first."""
    tables = [_prevalence(study, result) for result in study.ablations]
    for result in study.ablations[:1]:
        tables += [_transitions(study, result), _decomposition(study, result)]
    return tables


def prevalence_rows(found: Sequence[Prevalence]) -> list[dict[str, Any]]:
    """Shares of decisions that change, as rows at full precision."""
    return [
        {
            "boundary": p.boundary,
            "decisions": p.decisions,
            **interval_cells("share", p.share, p.interval),
            **interval_cells("visit_share", p.visit_share, p.visit_interval),
        }
        for p in found
    ]


def _prevalence(study: Study, result: AblationResult) -> Table:
    columns = (
        words("k* →", "boundary"),
        number("decisions", "decisions"),
        with_interval("% of positions", "share", ".2f", 100),
        with_interval("% of rounds", "visit_share", ".2f", 100),
    )
    rows: list[Row] = [row for row in prevalence_rows(result.prevalence) if row["decisions"] > 0]
    notes = [resampled(study.clusters), *_price_of_blindness(study, result.name)]
    if not rows:
        notes.insert(0, "no decision changes")
    return Table(
        _NAME[result.name],
        f"Decisions that change when the expert cost is taken out ({_HOW[result.name]}) and the problem solved again",
        columns,
        rows,
        notes,
    )


def _transitions(study: Study, result: AblationResult) -> Table:
    lengths = study.costs.lengths
    rows = [
        {
            "draft_length": k,
            **{f"to_{other}": round(float(result.transitions[0, k, other])) for other in lengths},
            "visits": {str(other): float(result.transitions[1, k, other]) for other in lengths},
        }
        for k in lengths
    ]
    columns = (number("k*", "draft_length"), *(number(f"→ {other}", f"to_{other}") for other in lengths))
    return Table("transitions", "Decisions by k* (rows) and by k0* without the expert cost (columns)", columns, rows)


def _price_of_blindness(study: Study, name: str) -> list[str]:
    for s in study.scores:
        if s.policy == _POLICY[name]:
            around = ""
            if s.regret_interval is not None:
                around = f" [{show(s.regret_interval.low, '.4f')}; {show(s.regret_interval.high, '.4f')}]"
            percent = s.regret_ms_per_token / (s.ms_per_token - s.regret_ms_per_token)
            return [
                f"choosing so and paying for the experts costs {show(s.regret_ms_per_token, '.4f')}{around} ms a token "
                f"more than the oracle ({show(percent, '.2f', 100)} %)"
            ]
    return []


def _decomposition(study: Study, result: AblationResult) -> Table:
    rows = []
    for k in study.costs.lengths:
        for direction, word in enumerate(("longer", "shorter")):
            others = [o for o in study.costs.lengths if (o > k if word == "longer" else o < k)]
            counts = result.transitions[0, k, others]
            moved = float(counts.sum())
            if moved:
                means = result.terms_ms[direction, k] / moved
                rows.append(
                    {
                        "boundary": f"{k} → {word}",
                        "decisions": round(moved),
                        "mean_shift": sum((o - k) * float(c) for o, c in zip(others, counts, strict=True)) / moved,
                        **dict(zip(TERMS, means.tolist(), strict=True)),
                        "q_difference_ms": float(means.sum()),
                    }
                )
    heads = ("beta0", "more\nexperts", "dearer\nexperts", "context", "draft", "rejection", "continuation")
    columns = (
        words("k* →", "boundary"),
        number("decisions", "decisions"),
        number("mean\nshift", "mean_shift", "+.2f"),
        *(number(head, term, "+.3f") for head, term in zip(heads, TERMS, strict=True)),
        number("= ΔQ", "q_difference_ms", "+.4f"),
    )
    notes = ["dearer experts: the other length's alpha on the same experts; continuation: minus the positions saved"]
    if study.costs.shared_context:
        notes.append("one context coefficient for all m: the context term is 0 at every decision")
    title = "Why the oracle does not go along: mean of Q(k0*) − Q(k*) over the shifted decisions, by term, milliseconds"
    return Table("decomposition", title, columns, rows, notes)
