"""What is shown of a recommendation: one page with the table, the setting, and what would change the answer."""

import math
from collections.abc import Sequence
from typing import Any

from oracle.recommendation.answers import Candidate, Recommendation
from oracle.recommendation.break_even import BreakEven
from oracle.recommendation.tenants import Mixing, Tenants
from oracle.summaries.static_lengths import above, compared, lengths_table, rate, where
from oracle.summaries.tenants import mixing_table, tenants_table
from oracle.tables import Column, Row, Table, number, show, words


def recommendation_tables(
    answers: Sequence[Recommendation], tenants: Sequence[Tenants] = (), mixings: Sequence[Mixing] = ()
) -> list[Table]:
    """Tables of the answers, one set for each setting.

    Parameters
    ----------
    answers
        One for each setting and batch size.
    tenants
        For each answer, what each tenant alone would be told; empty where tenants are not told apart.
    mixings
        Acceptance without and with other tenants in the batch; empty where it was not measured.
    """
    tables = []
    for i, answer in enumerate(answers):
        name = "" if len(answers) == 1 else f"_{i + 1}"
        tables += [_setting(answer, name), lengths_table(answer, name)]
        if answer.break_evens:
            tables.append(_changes(answer, name))
        if tenants:
            tables.append(tenants_table(answer, tenants[i], name))
    if mixings:
        tables.append(mixing_table(mixings))
    return tables


def verdict(answer: Recommendation) -> str:
    """Say the recommended setting in one sentence."""
    best, k = answer.best, answer.recommended
    if best is None or k is None:
        return _pays_from(answer)
    chosen = answer.of(k)
    if k == 0:
        return f"off (K = 0){': off wins' if best.draft_length == 0 else ''}, {rate(chosen)}"
    text = f"K = {k}: {rate(chosen)}"
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
    names = {c: "off" if c == 0 else f"K = {c}" for c in (*answer.tied, best.draft_length)}
    if answer.tied:
        kinds = {c.verdict for c in answer.candidates if c.draft_length in answer.tied}
        why = {
            frozenset({"tie"}): f"a tie within the noise of {100 * answer.noise:g} %",
            frozenset({"not significant"}): "not significantly different (95 %)",
        }.get(frozenset(kinds), f"a tie within the noise of {100 * answer.noise:g} %, or not significantly different")
        listed = ", ".join(names[c] for c in sorted(names))
        until = " until more is measured" if "not significant" in kinds else ""
        return f"{listed}: {why}; the shorter draft is taken{until}{_paired(best, names[k])}"
    others = [c for c in answer.candidates if c is not best and c.tokens_per_second is not None]
    if not others:
        return "nothing else was measured to compare it with"
    second = max(others, key=lambda c: c.tokens_per_second or 0.0)
    named = "off" if second.draft_length == 0 else f"K = {second.draft_length}"
    chosen = "off" if k == 0 else f"K = {k}"
    return (
        f"{above(best, second)} above the next best, {named} (noise: {100 * answer.noise:g} %){_paired(second, chosen)}"
    )


def _paired(candidate: Candidate, recommended: str) -> str:
    """Say how a length compares with the recommended one where that was found on the same clusters."""
    against = candidate.over_recommended
    if against is None:
        return ""
    named = "off" if candidate.draft_length == 0 else f"K = {candidate.draft_length}"
    return f"; {named} over {recommended}: {compared(against)}"


def _setting(answer: Recommendation, name: str) -> Table:
    rows = [
        {"fact": "setting", "value": verdict(answer)},
        {"fact": "why", "value": _reason(answer)},
        *({"fact": "from", "value": note} for note in answer.notes),
        *({"fact": "cannot tell", "value": limit} for limit in answer.limits),
    ]
    return Table(
        f"recommendation{name}",
        f"Recommended draft length{where(answer)}",
        (words("", "fact"), words("", "value", most=400)),
        rows,
    )


def _changes(answer: Recommendation, name: str) -> Table:
    """Show the acceptance at which each length pays; `needed` compares with the recommended length."""
    k = answer.recommended
    rows = [_change(answer, each, None if k is None else answer.of(k)) for each in answer.break_evens]

    def best_between(row: Row) -> str:
        if row["best_from"] is None:
            return "never"
        return f"{row['best_from']:.3f} – {row['best_to']:.3f}"

    def over_off(row: Row) -> str:
        value = row["match_over_off"]
        return "never" if row["never_over_off"] else show(value, ".3f")

    columns = (
        number("K", "draft_length"),
        number("mean acceptance\nlength now", "length_now", ".3f"),
        number("needed\nover off", "length_over_off", ".3f"),
        number("needed over\nthe recommended", "length_over_recommended", ".3f"),
        Column("p over\noff", over_off),
        Column("best if p is", best_between, text=True),
    )
    notes = [
        "needed: mean acceptance length (bonus included) at which K starts to pay; p: one match probability at every "
        "position that gives it",
    ]
    return Table(f"break_even{name}", f"What would change the answer{where(answer)}", columns, rows, notes)


def _change(answer: Recommendation, each: BreakEven, chosen: Candidate | None) -> dict[str, Any]:
    candidate = answer.of(each.draft_length)
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
        "never_over_off": each.match_over_off is not None and math.isinf(each.match_over_off),
        "best_from": each.best_from,
        "best_to": each.best_to,
    }
