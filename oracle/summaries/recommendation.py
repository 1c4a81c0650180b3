"""What is shown of a recommendation: one page with the table, the setting, and what would change the answer."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from oracle.recommendation.arithmetic import Candidate, Recommendation
from oracle.recommendation.break_even import BreakEven
from oracle.tables import Column, Row, Table, interval_cells, number, show, with_interval, words

TenantAnswers = Mapping[str | None, Recommendation]


def recommendation_tables(answers: Sequence[Recommendation], tenants: Sequence[TenantAnswers] = ()) -> list[Table]:
    """Tables of the answers, one set for each setting.

    Parameters
    ----------
    answers
        One for each setting and batch size.
    tenants
        For each answer, what each tenant alone would be told; empty where tenants are not told apart.
    """
    tables = []
    for i, answer in enumerate(answers):
        name = "" if len(answers) == 1 else f"_{i + 1}"
        tables += [_setting(answer, name), _lengths(answer, name)]
        if answer.break_evens:
            tables.append(_changes(answer, name))
        if tenants:
            tables.append(_tenants(answer, tenants[i], name))
    return tables


def _where(answer: Recommendation) -> str:
    """Name the setting for a title."""
    requests = "1 request" if answer.batch_size == 1 else f"{answer.batch_size} requests"
    return f"; {requests}" + ("" if answer.setting is None else f", {answer.setting}")


def verdict(answer: Recommendation) -> str:
    """Say the recommended setting in one sentence."""
    best, k = answer.best, answer.recommended
    if best is None or k is None:
        return _pays_from(answer)
    chosen = answer.of(k)
    if k == 0:
        return f"off (K = 0){': off wins' if best.draft_length == 0 else ''}, {_rate(chosen)}"
    text = f"K = {k}: {_rate(chosen)}"
    off = next((c for c in answer.candidates if c.draft_length == 0), None)
    if off is not None:
        text += f", {_above(chosen, off)} above off"
    return text


def _pays_from(answer: Recommendation) -> str:
    """Say at what acceptance each length pays, where no acceptance is known."""
    pays = {each.draft_length: each.match_over_off for each in answer.break_evens if each.match_over_off is not None}
    from_p = [f"K = {k} {'never' if math.isinf(p) else f'from {p:.3f} on'}" for k, p in pays.items()]
    if not from_p:
        return "none: neither acceptance nor a step time of K = 0 is known"
    return f"none without acceptance; over off, at a match probability of every position: {', '.join(from_p)}"


def _rate(candidate: Candidate) -> str:
    return f"{show(candidate.tokens_per_second, ',.1f')} tokens/s"


def _above(one: Candidate, other: Candidate) -> str:
    assert one.tokens_per_second is not None
    assert other.tokens_per_second is not None
    return f"{100 * (one.tokens_per_second / other.tokens_per_second - 1):.1f} %"


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
        return f"{listed}: {why}; the shorter draft is taken"
    others = [c for c in answer.candidates if c is not best and c.tokens_per_second is not None]
    if not others:
        return "nothing else was measured to compare it with"
    second = max(others, key=lambda c: c.tokens_per_second or 0.0)
    named = "off" if second.draft_length == 0 else f"K = {second.draft_length}"
    return f"{_above(best, second)} above the next best, {named} (noise: {100 * answer.noise:g} %)"


def _setting(answer: Recommendation, name: str) -> Table:
    rows = [
        {"fact": "setting", "value": verdict(answer)},
        {"fact": "why", "value": _reason(answer)},
        *({"fact": "from", "value": note} for note in answer.notes),
        *({"fact": "cannot tell", "value": limit} for limit in answer.limits),
    ]
    return Table(
        f"recommendation{name}",
        f"Recommended draft length{_where(answer)}",
        (words("", "fact"), words("", "value", most=400)),
        rows,
    )


def _lengths(answer: Recommendation, name: str) -> Table:
    off = next((c.tokens_per_second for c in answer.candidates if c.draft_length == 0), None)
    rows = [
        {
            "draft_length": c.draft_length,
            "measured_at": c.measured_at,
            "mean_acceptance_length": c.mean_acceptance_length,
            "step_ms": c.step_ms,
            **interval_cells("tokens_per_second", c.tokens_per_second, c.interval),
            "interval_from": c.interval_from or None,
            "speedup": c.tokens_per_second / off if off and c.tokens_per_second else None,
            "verdict": c.verdict,
        }
        for c in answer.candidates
    ]
    columns: tuple[Column, ...] = (
        number("K", "draft_length"),
        number("acceptance\nfrom K", "measured_at"),
        number("mean\nacceptance length", "mean_acceptance_length", ".3f"),
        number("step ms", "step_ms", ".2f"),
        with_interval("tokens/s", "tokens_per_second", ".1f"),
        number("speed-\nup", "speedup", ".3f"),
        words("", "verdict"),
    )
    kinds = {
        "rounds": "binomial, from the rounds counted (K = 0: the stated noise)",
        "requests": "clustered by request (K = 0: the stated noise)",
        "traces": "bootstrap of clusters of the traces",
        "noise": f"the stated noise, ± {100 * answer.noise:g} %",
    }
    used = [kind for kind in kinds if kind in {c.interval_from for c in answer.candidates}]
    shown = [kind for kind in used if kind != "noise" or len(used) == 1]
    notes = [f"intervals: {'; '.join(kinds[kind] for kind in shown)}"] if used else []
    if off is None and any(c.tokens_per_second for c in answer.candidates):
        columns = tuple(column for column in columns if column.head != "speed-\nup")
    return Table(f"draft_lengths{name}", f"Static draft lengths{_where(answer)}", columns, rows, notes)


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
    return Table(f"break_even{name}", f"What would change the answer{_where(answer)}", columns, rows, notes)


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


def _tenants(answer: Recommendation, tenants: TenantAnswers, name: str) -> Table:
    """Show what each tenant accepts, and what the length set for all costs it."""
    rows = []
    notes = ["the mix weighs tenants by their share of the requests in flight: each does one round a step"]
    for tenant, own in [*tenants.items(), ("all, mixed", answer)]:
        rows += [
            {
                "tenant": tenant,
                "draft_length": c.draft_length,
                "mean_acceptance_length": c.mean_acceptance_length,
                **interval_cells("tokens_per_second", c.tokens_per_second, c.interval),
                "verdict": c.verdict,
            }
            for c in own.candidates
        ]
        k = answer.recommended
        if (
            own is answer
            or k is None
            or own.recommended in (None, k)
            or k not in {c.draft_length for c in own.candidates}
        ):
            continue
        best, shared = own.of(own.recommended or 0), own.of(k)
        notes.append(
            f"{tenant}: K = {best.draft_length} of its own would give {_above(best, shared)} more than K = {k}"
        )
    columns = (
        words("tenant", "tenant"),
        number("K", "draft_length"),
        number("mean\nacceptance length", "mean_acceptance_length", ".3f"),
        with_interval("tokens/s, all requests\nlike this tenant's", "tokens_per_second", ".1f"),
        words("", "verdict"),
    )
    notes.append("step times are one table: a mixed batch touches more experts than one tenant's, so time a mixed one")
    return Table(f"tenants{name}", f"Acceptance by tenant{_where(answer)}", columns, rows, notes)
