"""What is shown of tenants: what each accepts and would be told, and what mixing them in one batch changes."""

from collections.abc import Iterator, Sequence
from typing import Any

from oracle.recommendation.answers import Recommendation
from oracle.recommendation.tenants import Mixing, Tenants, tenant_name
from oracle.summaries.static_lengths import (
    NOT_ENOUGH,
    above,
    compared,
    label,
    said_once,
    setting_cells,
    setting_columns,
    where,
)
from oracle.tables import Table, interval_cells, number, with_interval, words

_ALL = "all, mixed"


def tenants_table(answers: Sequence[Recommendation], tenants: Sequence[Tenants]) -> Table:
    """Show what each tenant accepts, and what the length set for all costs it.

    Parameters
    ----------
    tenants
        One for each answer.
    """
    both = list(zip(answers, tenants, strict=True))
    rows = [row for answer, each in both for row in _rows(answer, each)]
    said = ((label(answer), note) for answer, each in both for note in (*each.notes, *_own_lengths(answer, each)))
    columns = (
        *setting_columns(answers),
        words("tenant", "tenant"),
        number("K", "draft_length"),
        number("acceptance", "acceptance", ".3f"),
        with_interval("mean\nacceptance length", "mean_acceptance_length", ".3f"),
        with_interval("tokens/s, all requests\nlike this tenant's", "tokens_per_second", ".1f"),
        words("", "verdict"),
    )
    notes = said_once(said, len(answers))
    if any(own.undecided for each in tenants for own in each.answers.values()):
        notes.append(NOT_ENOUGH)
    return Table("tenants", f"Acceptance by tenant{where(answers)}", columns, rows, notes)


def _rows(answer: Recommendation, tenants: Tenants) -> Iterator[dict[str, Any]]:
    for tenant, own in [*tenants.answers.items(), (_ALL, answer)]:
        for c in own.candidates:
            yield {
                **setting_cells(answer),
                "tenant": "(none named)" if tenant is None else tenant,
                "draft_length": c.draft_length,
                "acceptance": c.acceptance,
                **interval_cells("mean_acceptance_length", c.mean_acceptance_length, c.length_interval),
                **interval_cells("tokens_per_second", c.tokens_per_second, c.interval),
                "verdict": c.verdict,
            }


def _own_lengths(answer: Recommendation, tenants: Tenants) -> Iterator[str]:
    """Say what each tenant would gain by a length of its own."""
    k = answer.recommended
    for tenant, own in tenants.answers.items():
        there = {c.draft_length for c in own.candidates}
        if k is None or own.recommended in (None, k) or k not in there:
            continue
        best, shared = own.of(own.recommended or 0), own.of(k)
        paired = shared.over_recommended
        more = f"{above(best, shared)} more" if paired is None else compared(paired.reversed)
        unsure = " (provisional: not enough data)" if own.provisional else ""
        yield f"{tenant_name(tenant)}: K = {best.draft_length} of its own{unsure} against K = {k}: {more}"


def mixing_table(mixings: Sequence[Mixing]) -> Table:
    """Show acceptance measured with tenants mixed beside what each accepts alone."""
    rows = [
        {
            "tenant": _ALL if each.tenant is None else each.tenant,
            "draft_length": each.draft_length,
            **interval_cells("apart", each.apart, each.apart_interval),
            **interval_cells("together", each.together, each.together_interval),
            **interval_cells("change", each.change.share, each.change.interval),
            "change_is": each.change.verdict("more accepted", "less accepted"),
        }
        for each in mixings
    ]
    noise = 100 * mixings[0].change.noise
    columns = (
        words("tenant", "tenant"),
        number("K", "draft_length"),
        with_interval("mean acceptance\nlength, alone", "apart", ".3f"),
        with_interval("measured\nmixed", "together", ".3f"),
        with_interval("difference,\n%", "change", "+.1f", 100),
        words("when mixed", "change_is"),
    )
    notes = (
        f"{_ALL}, alone: calculated from the tenants by their shares of the requests in flight",
        "at equal step times, the difference is that of tokens per second; not significant: its 95 % interval holds 0; "
        f"tie: within the stated noise of {noise:g} %; no interval: a file without counts cannot tell chance",
    )
    return Table("mixing", "Acceptance measured while tenants share batches", columns, rows, notes)
