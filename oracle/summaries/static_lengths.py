"""The table of static draft lengths, and how a recommendation is put into words."""

from collections.abc import Iterable, Sequence
from typing import Any

from oracle.intervals import FEW, FEW_CLUSTERS
from oracle.recommendation.answers import Against, Candidate, Recommendation
from oracle.tables import Column, Table, interval_cells, number, show, with_interval, words

NOT_ENOUGH = (
    "not enough data: the difference from the best is not significant (its 95 % interval holds 0, there is none, or it "
    "rests on few clusters), and another length would be set if it were as good, or better by more than the noise"
)


def label(answer: Recommendation) -> str:
    """Name the setting."""
    requests = "1 request" if answer.batch_size == 1 else f"{answer.batch_size:,} requests"
    return requests + ("" if answer.setting is None else f", {answer.setting}")


def where(answers: Sequence[Recommendation]) -> str:
    """Name the setting for a title; several stand in columns of their own."""
    if len(answers) == 1:
        return f"; {label(answers[0])}"
    sizes = ["batch size"] if len({answer.batch_size for answer in answers}) > 1 else []
    return f" by {' and '.join([*sizes, *(['setting'] if _named(answers) else [])])}"


def _named(answers: Sequence[Recommendation]) -> bool:
    return any(answer.setting is not None for answer in answers)


def setting_columns(answers: Sequence[Recommendation]) -> tuple[Column, ...]:
    """Give the columns that tell several settings apart; none for one."""
    if len(answers) == 1:
        return ()
    return (number("requests", "batch_size"), *((words("setting", "setting"),) if _named(answers) else ()))


def setting_cells(answer: Recommendation) -> dict[str, Any]:
    """Give the cells that tell several settings apart."""
    return {"batch_size": answer.batch_size, "setting": answer.setting}


def said_once(said: Iterable[tuple[str, str]], settings: int) -> list[str]:
    """Write pairs of a setting and a sentence: what holds in all settings once, the rest with its settings."""
    where_said: dict[str, dict[str, None]] = {}
    for setting, sentence in said:
        where_said.setdefault(sentence, {}).setdefault(setting)
    return [
        sentence if len(places) == settings else f"{'; '.join(places)}: {sentence}"
        for sentence, places in where_said.items()
    ]


def rate(candidate: Candidate, batch_size: int) -> str:
    """Write a rate: of all requests together."""
    return f"{show(candidate.tokens_per_second, ',.1f')} tokens/s{'' if batch_size == 1 else ' of the batch'}"


def above(one: Candidate, other: Candidate) -> str:
    """Say by how much one rate is above another."""
    assert one.tokens_per_second is not None
    assert other.tokens_per_second is not None
    return f"{show(one.tokens_per_second / other.tokens_per_second - 1, '.1f', 100)} %"


def compared(against: Against, *, paired: bool = True) -> str:
    """Write a comparison: the difference, its interval, and, where it is a paired one, what it amounts to."""
    around = against.interval
    ends = "" if around is None else f" [{show(around.low, '+.1f', 100)}; {show(around.high, '+.1f', 100)}]"
    verdict = f", paired: {against.verdict('faster', 'slower')}" if paired else ""
    return f"{show(against.share, '+.1f', 100)} %{ends}{verdict}"


def lengths_table(answers: Sequence[Recommendation]) -> Table:
    """Show what each static length gives; from traces, how it compares with off and with the recommended length."""
    only = answers[0] if len(answers) == 1 else None
    off = any(c.draft_length == 0 and c.tokens_per_second for answer in answers for c in answer.candidates)
    batched = any(answer.batch_size > 1 for answer in answers)
    paired = only is not None and any(c.over_recommended is not None for c in only.candidates)
    speedup = (number("speed-\nup", "speedup", ".3f"),) if off else ()
    columns: tuple[Column, ...] = (
        *setting_columns(answers),
        number("K", "draft_length"),
        number("acceptance\nfrom K", "measured_at"),
        number("mean\nacceptance length", "mean_acceptance_length", ".3f"),
        number("step ms", "step_ms", ".2f"),
        with_interval("tokens/s\nof the batch" if batched else "tokens/s", "tokens_per_second", ".1f"),
        *(_paired_columns(only, off) if paired and only is not None else speedup),
        words("", "verdict"),
    )
    if paired:  # acceptance from traces is that of each length itself
        columns = tuple(column for column in columns if not column.head.endswith("from K"))
    rows = [row for answer in answers for row in _rows(answer)]
    return Table("draft_lengths", f"Static draft lengths{where(answers)}", columns, rows, _notes(answers, paired))


def _rows(answer: Recommendation) -> list[dict[str, Any]]:
    off = next((c.tokens_per_second for c in answer.candidates if c.draft_length == 0), None)
    return [
        {
            **setting_cells(answer),
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
            **against_cells("over_best", c.over_best),
            "verdict": c.verdict,
        }
        for c in answer.candidates
    ]


def against_cells(key: str, against: Against | None) -> dict[str, Any]:
    """Give the cells of a comparison: the share, its interval, and what it amounts to."""
    if against is None:
        return interval_cells(key, None, None) | {f"{key}_is": None}
    return interval_cells(key, against.share, against.interval) | {f"{key}_is": against.verdict("faster", "slower")}


def _paired_columns(answer: Recommendation, off: bool) -> tuple[Column, ...]:
    recommended = (
        with_interval(f"over K = {answer.recommended},\n%", "over_recommended", "+.1f", 100),
        words(f"than K = {answer.recommended}", "over_recommended_is"),
    )
    if not off or answer.recommended == 0:  # the same columns twice would say nothing
        return recommended
    return (with_interval("over off,\n%", "over_off", "+.1f", 100), *recommended)


def _notes(answers: Sequence[Recommendation], paired: bool) -> list[str]:
    """Say where the intervals come from, and what the words of the comparisons mean."""
    noise = 100 * answers[0].noise
    kinds = {
        "rounds": "binomial, from the rounds counted (K = 0: the stated noise)",
        "requests": "clustered by request (K = 0: the stated noise)",
        "traces": "bootstrap of clusters of the traces",
        "noise": f"the stated noise, ± {noise:g} %",
    }
    there = {c.interval_from for answer in answers for c in answer.candidates if c.interval}
    used = [kind for kind in kinds if kind in there]
    shown = [kind for kind in used if kind != "noise" or len(used) == 1]
    notes = [f"intervals: {'; '.join(kinds[kind] for kind in shown)}"] if used else []
    if paired:
        notes.append(
            f"comparisons are paired by cluster; not significant: the 95 % interval holds 0; {FEW}: fewer than "
            f"{FEW_CLUSTERS}, so nothing is significant; tie: within the stated noise of {noise:g} %, whether "
            "significant or not"
        )
    if any(answer.undecided for answer in answers):
        notes.append(NOT_ENOUGH)
    return notes
