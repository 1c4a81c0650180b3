"""What is shown of a recommendation: one page with the table, the setting, and what would change the answer."""

import math
from collections.abc import Callable, Sequence
from typing import Any

from oracle.intervals import FEW_CLUSTERS
from oracle.recommendation.answers import Candidate, Recommendation
from oracle.recommendation.break_even import BreakEven
from oracle.recommendation.tenants import Mixing, Tenants
from oracle.summaries.static_lengths import (
    above,
    compared,
    label,
    lengths_table,
    rate,
    said_once,
    setting_cells,
    setting_columns,
    where,
)
from oracle.summaries.tenants import mixing_table, tenants_table
from oracle.tables import Column, Row, Table, number, show, words

_LONG = 600  # characters of a sentence in a table


def recommendation_tables(
    answers: Sequence[Recommendation], tenants: Sequence[Tenants] = (), mixings: Sequence[Mixing] = ()
) -> list[Table]:
    """Tables of the answers: for one setting a page about it, for several one row each first, and then all lengths.

    Parameters
    ----------
    answers
        One for each setting and batch size.
    tenants
        For each answer, what each tenant alone would be told; empty where tenants are not told apart.
    mixings
        Acceptance without and with other tenants in the batch; empty where it was not measured.
    """
    tables = [_setting(answers[0]) if len(answers) == 1 else _settings(answers), lengths_table(answers)]
    if any(answer.break_evens for answer in answers):
        tables.append(_changes(answers))
    if tenants:
        tables.append(tenants_table(answers, tenants))
    if mixings:
        tables.append(mixing_table(mixings))
    return tables


def verdict(answer: Recommendation) -> str:
    """Say the recommended setting in one sentence."""
    best, k = answer.best, answer.recommended
    if best is None or k is None:
        return _pays_from(answer)
    chosen = answer.of(k)
    unsure = "not enough data; provisionally " if answer.provisional else ""
    if k == 0:
        wins = ": off wins" if best.draft_length == 0 and not unsure else ""
        return f"{unsure}off (K = 0){wins}, {rate(chosen, answer.batch_size)}"
    text = f"{unsure}K = {k}: {rate(chosen, answer.batch_size)}"
    off = next((c for c in answer.candidates if c.draft_length == 0), None)
    if off is not None:
        text += f", {above(chosen, off)} above off"
    return text


def _pays_from(answer: Recommendation) -> str:
    """Say at what acceptance each length pays, where no acceptance is known."""
    pays = {each.draft_length: each.match_over_off for each in answer.break_evens if each.match_over_off is not None}
    from_p = [f"K = {k} {'never' if math.isinf(p) else f'from {p:.3f} on'}" for k, p in pays.items()]
    if not from_p:
        return "none: neither acceptance nor a step time of K = 0 is known"
    return f"none without acceptance; over off, at a match probability of every position: {', '.join(from_p)}"


def _reason(answer: Recommendation) -> str:
    """Say how it compares with the others: a tie, or by how much the runner-up is beaten."""
    best, k = answer.best, answer.recommended
    if best is None or k is None:
        return "–"
    return f"{_compared_with(answer, best)}{_few(answer)}"


def _few(answer: Recommendation) -> str:
    few = answer.few
    if few is None:
        return ""
    return f"; {few.count:g} {few.units(few.count)} only: below {FEW_CLUSTERS} no difference counts as significant"


def _compared_with(answer: Recommendation, best: Candidate) -> str:
    if answer.undecided:
        return _undecided(answer, best)
    k = answer.recommended or 0
    if answer.tied:
        listed = ", ".join(_length(c) for c in sorted((*answer.tied, best.draft_length)))
        return (
            f"{listed}: a tie within the noise of {100 * answer.noise:g} %{_reach(answer)}; the shorter draft is taken"
            f"{_paired(best, _length(k))}"
        )
    others = [c for c in answer.candidates if c is not best and c.tokens_per_second is not None]
    if not others:
        return "nothing else was measured to compare it with"
    second = max(others, key=lambda c: c.tokens_per_second or 0.0)
    return (
        f"{above(best, second)} above the next best, {_length(second.draft_length)} (noise: {100 * answer.noise:g} %)"
        f"{_paired(second, _length(k))}"
    )


def _length(k: int) -> str:
    return "off" if k == 0 else f"K = {k}"


def _undecided(answer: Recommendation, best: Candidate) -> str:
    """Say what cannot be told from the best, and how much more would have to be measured."""
    chosen = answer.recommended or 0
    behind = [
        f"{_length(k)} ({compared(against, paired=False)})"
        for k in answer.undecided
        if (against := answer.of(k).over_best) is not None
    ]
    named = _length(best.draft_length)
    taken = "" if chosen == best.draft_length else f", {_length(chosen)} ties with it and is shorter"
    said = f"{named} came out best{taken}; not to be told from {named}: {', '.join(behind)}"
    times, more, needed = answer.times_as_much, answer.more_needed, answer.needed
    if times is None or more is None or needed is None:
        return said
    factor = show(times, ".1f" if times < 10 else ",.0f")
    in_all = "hardly more than there is" if factor == "1.0" else f"{factor} times as much in all"
    return (
        f"{said}; measure about {more:,} more {needed.units(more)} ({in_all}; an estimate, which takes the differences "
        "as they were found)"
    )


def _reach(answer: Recommendation) -> str:
    """Say how much faster a length that ties may yet be than the one that is taken, where that is beyond the noise."""
    chosen = answer.of(answer.recommended or 0)
    if chosen.over_best is not None:
        most = -chosen.over_best.interval.low if chosen.over_best.interval else 0.0
    else:
        ties = [answer.of(k).over_best for k in answer.tied]
        most = max((x.interval.high for x in ties if x is not None and x.interval is not None), default=0.0)
    if most <= answer.noise:
        return ""
    return f" (the data leave room for {100 * most:.1f} %)"


def _paired(candidate: Candidate, recommended: str) -> str:
    """Say how a length compares with the recommended one where that was found on the same clusters."""
    against = candidate.over_recommended
    if against is None:
        return ""
    return f"; {_length(candidate.draft_length)} over {recommended}: {compared(against)}"


def _setting(answer: Recommendation) -> Table:
    rows = [
        {"fact": "setting", "value": verdict(answer)},
        {"fact": "why", "value": _reason(answer)},
        *({"fact": "from", "value": note} for note in answer.notes),
        *({"fact": "cannot tell", "value": limit} for limit in answer.limits),
    ]
    return Table(
        "recommendation",
        f"Recommended draft length{where([answer])}",
        (words("", "fact"), words("", "value", most=_LONG)),
        rows,
    )


def _settings(answers: Sequence[Recommendation]) -> Table:
    """Show the recommended length of each setting in one row; what holds for all is said once."""
    rows = [
        {
            **setting_cells(answer),
            "draft_length": answer.recommended,
            "provisional": answer.provisional,
            "value": verdict(answer),
            "why": _reason(answer),
        }
        for answer in answers
    ]
    columns = (*setting_columns(answers), words("set", "value", most=_LONG), words("why", "why", most=_LONG))
    notes = [
        *said_once(((label(answer), note) for answer in answers for note in answer.notes), len(answers)),
        *(
            f"cannot tell {limit}"
            for limit in said_once(((label(a), limit) for a in answers for limit in a.limits), len(answers))
        ),
    ]
    return Table("recommendation", f"Recommended draft length{where(answers)}", columns, rows, notes)


def _changes(answers: Sequence[Recommendation]) -> Table:
    """Show the acceptance at which each length pays; `needed` compares with the recommended length."""
    rows = [{**setting_cells(answer), **_change(answer, each)} for answer in answers for each in answer.break_evens]

    def best_between(row: Row) -> str:
        if row["best_from"] is None:
            return "never"
        return f"{row['best_from']:.3f} – {row['best_to']:.3f}"

    def needed(key: str, never: str) -> Callable[[Row], str]:
        return lambda row: "never" if row[never] else show(row[key], ".3f")

    columns = (
        *setting_columns(answers),
        number("K", "draft_length"),
        number("mean acceptance\nlength now", "length_now", ".3f"),
        Column("needed\nover off", needed("length_over_off", "never_over_off")),
        Column("needed over\nthe recommended", needed("length_over_recommended", "never_over_recommended")),
        Column("p over\noff", needed("match_over_off", "never_over_off")),
        Column("best if p is", best_between, text=True),
    )
    notes = [
        "needed: mean acceptance length (bonus included) at which K starts to pay; p: one match probability at every "
        "position that gives it; never: K + 1 tokens a round, the most there are, would not be enough",
    ]
    return Table("break_even", f"What would change the answer{where(answers)}", columns, rows, notes)


def _change(answer: Recommendation, each: BreakEven) -> dict[str, Any]:
    candidate = answer.of(each.draft_length)
    chosen = None if answer.recommended is None else answer.of(answer.recommended)
    needed = None
    if chosen is not None and candidate is not chosen and candidate.draft_length:
        ms, length = chosen.step_ms, chosen.mean_acceptance_length
        needed = None if ms is None or length is None else length * (candidate.step_ms or math.nan) / ms
    return {
        "draft_length": each.draft_length,
        "length_now": candidate.mean_acceptance_length,
        "length_over_off": each.length_over_off,
        "length_over_recommended": needed,
        "match_over_off": each.match_over_off,
        "never_over_recommended": needed is not None and needed >= each.draft_length + 1,
        "never_over_off": each.match_over_off is not None and math.isinf(each.match_over_off),
        "best_from": each.best_from,
        "best_to": each.best_to,
    }
