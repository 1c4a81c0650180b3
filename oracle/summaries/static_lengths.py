"""The table of static draft lengths, and how a recommendation is put into words."""

from typing import Any

from oracle.recommendation.answers import Against, Candidate, Recommendation
from oracle.tables import Column, Table, interval_cells, number, show, with_interval, words


def where(answer: Recommendation) -> str:
    """Name the setting for a title."""
    requests = "1 request" if answer.batch_size == 1 else f"{answer.batch_size} requests"
    return f"; {requests}" + ("" if answer.setting is None else f", {answer.setting}")


def rate(candidate: Candidate) -> str:
    """Write a rate."""
    return f"{show(candidate.tokens_per_second, ',.1f')} tokens/s"


def above(one: Candidate, other: Candidate) -> str:
    """Say by how much one rate is above another."""
    assert one.tokens_per_second is not None
    assert other.tokens_per_second is not None
    return f"{100 * (one.tokens_per_second / other.tokens_per_second - 1):.1f} %"


def compared(against: Against) -> str:
    """Write a paired comparison: the difference, its interval, and what it amounts to."""
    around = against.interval
    ends = "" if around is None else f" [{show(around.low, '+.1f', 100)}; {show(around.high, '+.1f', 100)}]"
    return f"{show(against.share, '+.1f', 100)} %{ends}, paired: {against.verdict('faster', 'slower')}"


def lengths_table(answer: Recommendation, name: str) -> Table:
    """Show what each static length gives; from traces, how it compares with off and with the recommended length."""
    off = next((c.tokens_per_second for c in answer.candidates if c.draft_length == 0), None)
    paired = any(c.over_recommended is not None for c in answer.candidates)
    rows = [
        {
            "draft_length": c.draft_length,
            "measured_at": c.measured_at,
            **interval_cells("mean_acceptance_length", c.mean_acceptance_length, c.length_interval),
            "acceptance": c.acceptance,
            "step_ms": c.step_ms,
            **interval_cells("tokens_per_second", c.tokens_per_second, c.interval),
            "interval_from": c.interval_from or None,
            "speedup": c.tokens_per_second / off if off and c.tokens_per_second else None,
            **against_cells("over_off", c.over_off),
            **against_cells("over_recommended", c.over_recommended),
            "verdict": c.verdict,
        }
        for c in answer.candidates
    ]
    speedup = (number("speed-\nup", "speedup", ".3f"),) if off else ()
    columns: tuple[Column, ...] = (
        number("K", "draft_length"),
        number("acceptance\nfrom K", "measured_at"),
        number("mean\nacceptance length", "mean_acceptance_length", ".3f"),
        number("step ms", "step_ms", ".2f"),
        with_interval("tokens/s", "tokens_per_second", ".1f"),
        *(_paired_columns(answer, off) if paired else speedup),
        words("", "verdict"),
    )
    if paired:  # acceptance from traces is that of each length itself
        columns = tuple(column for column in columns if not column.head.endswith("from K"))
    return Table(f"draft_lengths{name}", f"Static draft lengths{where(answer)}", columns, rows, _notes(answer, paired))


def against_cells(key: str, against: Against | None) -> dict[str, Any]:
    """Give the cells of a comparison: the share, its interval, and what it amounts to."""
    if against is None:
        return interval_cells(key, None, None) | {f"{key}_is": None}
    return interval_cells(key, against.share, against.interval) | {f"{key}_is": against.verdict("faster", "slower")}


def _paired_columns(answer: Recommendation, off: float | None) -> tuple[Column, ...]:
    recommended = (
        with_interval(f"over K = {answer.recommended},\n%", "over_recommended", "+.1f", 100),
        words(f"than K = {answer.recommended}", "over_recommended_is"),
    )
    if off is None or answer.recommended == 0:  # the same columns twice would say nothing
        return recommended
    return (with_interval("over off,\n%", "over_off", "+.1f", 100), *recommended)


def _notes(answer: Recommendation, paired: bool) -> list[str]:
    """Say where the intervals come from, and what the words of the comparisons mean."""
    kinds = {
        "rounds": "binomial, from the rounds counted (K = 0: the stated noise)",
        "requests": "clustered by request (K = 0: the stated noise)",
        "traces": "bootstrap of clusters of the traces",
        "noise": f"the stated noise, ± {100 * answer.noise:g} %",
    }
    used = [kind for kind in kinds if kind in {c.interval_from for c in answer.candidates}]
    shown = [kind for kind in used if kind != "noise" or len(used) == 1]
    notes = [f"intervals: {'; '.join(kinds[kind] for kind in shown)}"] if used else []
    if paired:
        notes.append(
            f"comparisons are paired by cluster; not significant: the 95 % interval holds 0; tie: within the stated "
            f"noise of {100 * answer.noise:g} %, whether significant or not"
        )
    return notes
