"""What is shown of a request log: its size, concurrency, regimes by slot and by tenant."""

from typing import Any

import numpy as np

from oracle.observe.regimes import Floats, ObservedRegime, around
from oracle.observe.study import Observed
from oracle.observe.traffic_csv import fit_for_levers
from oracle.resampling import bootstrap
from oracle.summaries.observe_texts import (
    BELOW_ONE,
    ROUNDS_TO_ONE,
    depth_table,
    interval_note,
    readings_table,
    sharing_table,
)
from oracle.summaries.shares import amount
from oracle.tables import Column, Table, interval_cells, number, resampled, with_interval, words

_EXTREMES = (
    "where nothing or everything was found, resamples are all alike: the interval is the exact binomial one of units"
)
_QUANTILES = (0.5, 0.9, 0.99)
_TOKENS = {
    "ids": "token ids of the log",
    "words": "words between blanks: not the tokens of any model",
    "bytes": "UTF-8 bytes: not the tokens of any model",
    "counts": "counted only; texts were not looked at",
}


def observed_tables(found: Observed, tokens: str) -> list[Table]:
    """Show everything; what the log cannot tell is left out.

    Parameters
    ----------
    tokens
        What tokens were.
    """
    tables = [log_table(found, tokens), concurrency_table(found), slots_table(found)]
    if found.by_tenant:
        tables.append(tenants_table(found))
    if found.sharing is not None:
        tables += [sharing_table(found), depth_table(found), readings_table(found)]
    return tables


def log_table(found: Observed, tokens: str) -> Table:
    """Show what was read."""
    log = found.log
    rows: list[tuple[str, Any]] = [
        ("requests", f"{log.requests:,}"),
        ("hours", f"{found.flight.span / 3600:,.2f}"),
        ("prompt tokens", f"{int(log.prompt_tokens.sum()):,}"),
        ("output tokens", f"{int(log.output_tokens.sum()):,}"),
        ("tokens are", _TOKENS[tokens]),
    ]
    if log.tenants:
        rows.append(("tenants", f"{len(log.tenants):,}"))
    notes = []
    for count, said in (
        (int((log.output_tokens == 0).sum()), "emitted nothing; they count in concurrency and prefix sharing"),
        (int((log.prompt_tokens == 0).sum()), "have an empty prompt"),
        (int((log.end == log.arrival).sum()), "end as they arrive; they are never in flight"),
        (log.counts_differ, "are of another length as the log counts tokens; lengths below are the log's"),
    ):
        if count:
            notes.append(f"{count:,} of {log.requests:,} requests {said}")
    cells = [{"what": what, "value": value} for what, value in rows]
    return Table("log", "What was observed", (words("", "what"), words("", "value")), cells, notes)


def concurrency_table(found: Observed) -> Table:
    """Show requests in flight over all the time, with intervals from stretches of time."""
    flight, slots = found.flight, found.slots
    first, last = flight.time[0], flight.time[-1]
    parts = flight.within(np.linspace(first, last, max(2, int(np.ceil((last - first) / slots.block))) + 1))
    totals = np.column_stack([parts.request_seconds, parts.busy_seconds, parts.seconds])

    def means(sums: Floats) -> Floats:
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.column_stack([sums[:, 0] / sums[:, 1], sums[:, 0] / sums[:, 2], sums[:, 1] / sums[:, 2]])

    values = means(totals.sum(axis=0)[None])[0]
    row: dict[str, Any] = {}
    for name, value, interval in zip(
        ("busy_mean", "mean", "busy_share"), values, bootstrap(totals, means), strict=True
    ):
        row |= interval_cells(name, float(value), around(float(value), interval))
    row |= {f"p{100 * share:g}": flight.quantile(share) for share in _QUANTILES}
    row["peak"] = int(flight.count.max())
    columns = (
        with_interval("mean while\nany", "busy_mean", ".2f"),
        with_interval("mean", "mean", ".2f"),
        with_interval("busy,\n% of time", "busy_share", ".1f", 100),
        *(number(f"{100 * share:g} % of\ntime up to", f"p{100 * share:g}") for share in _QUANTILES),
        number("peak", "peak"),
    )
    notes = (
        "from arrival to end, waiting included, weighted by time; the levers take the mean while any is in flight, "
        "since decode steps are made only then",
        resampled(len(totals)) + (f" (stretches of {amount(slots.block)} s)" if len(totals) > 1 else ""),
    )
    return Table("concurrency", "Requests in flight", columns, [row], notes)


def _regime_row(regime: ObservedRegime) -> dict[str, Any]:
    names = ("slot", "tenant", "requests", "tokens", "concurrency", "concurrency_mean", "peak", "units")
    row: dict[str, Any] = {name: getattr(regime, name) for name in names}
    for name in ("prefix_share", "repetitiveness", "autocorrelation"):
        row |= interval_cells(name, getattr(regime, name), getattr(regime, f"{name}_interval"))
    row |= {name: getattr(regime, name) for name in ("prompt_tokens", "output_tokens", "context_tokens")}
    return row | {"never_ends": regime.never_ends, "fault": regime.fault}


def _regime_columns(found: Observed, *first: Column) -> tuple[Column, ...]:
    chained = found.sharing is not None and found.wanted.reading != "independent"
    return (
        *first,
        number("requests", "requests"),
        number("concurrency\nwhile any", "concurrency", ".2f"),
        number("peak", "peak"),
        with_interval("prefix\nshare rho", "prefix_share", ".3f"),
        with_interval("repetitive-\nness r", "repetitiveness", ".3f"),
        *((with_interval("autocorre-\nlation x", "autocorrelation", ".3f"),) if chained else ()),
        number("prompt\ntokens", "prompt_tokens", ",.0f"),
        number("output\ntokens", "output_tokens", ",.0f"),
        number("context\ntokens", "context_tokens", ",.0f"),
        words("", "fault"),
    )


def slots_table(found: Observed) -> Table:
    """Show the regime of every slot: the rows of the series for the levers."""
    rows = [_regime_row(regime) for regime in (*found.by_slot, *(() if found.wanted.by_tenant else (found.whole,)))]
    rows = [row | {"shown": row["slot"] or "all"} for row in rows]
    tenant = (words("tenant", "tenant"),) if found.wanted.by_tenant else ()
    notes = ["requests count in the slot in which they arrive, concurrency in that in which they are in flight"]
    arrived = {regime.slot for regime in found.by_slot}
    silent = len(set(found.slots.names) - arrived)
    if silent:
        notes.append(f"{silent:,} slots without arrivals are left out")
    left = len(found.by_slot) - len(fit_for_levers(found.by_slot))
    if left:
        notes.append(
            f"{left:,} of {len(found.by_slot):,} rows are not in the series for the levers: something is unknown"
        )
    if found.sharing is not None:
        capacity = found.wanted.cache_blocks
        said = "that never evicts: an upper bound (--cache-tokens)"
        if capacity is not None:
            said = f"of {capacity * found.log.settings.block_size:,} tokens"
        notes += [
            f"rho: in a prefix cache {said}; r: by the {found.wanted.reading} reading",
            *_chain_notes(found),
            interval_note(found, found.by_slot),
            _EXTREMES,
        ]
    title = "Traffic by slot" + (" and tenant" if tenant else "")
    return Table("slots", title, _regime_columns(found, words("slot", "shown"), *tenant), rows, notes)


def tenants_table(found: Observed) -> Table:
    """Show the regime of every tenant over all the time."""
    rows = [_regime_row(regime) for regime in found.by_tenant]
    notes = ["concurrency is the tenant's own"]
    if found.sharing is not None:
        shared = "holds each tenant's blocks apart" if found.log.settings.isolate_tenants else "is shared by all"
        notes += [f"the prefix cache {shared}", interval_note(found, found.by_tenant)]
    return Table("tenants", "Traffic by tenant", _regime_columns(found, words("tenant", "tenant")), rows, notes)


def _chain_notes(found: Observed) -> list[str]:
    """Say what x is, where it is only bounded and where it is not known."""
    if found.wanted.reading == "independent":
        return ["matches are taken as independent: the series states no autocorrelation, whatever the log holds"]
    notes = ["x: autocorrelation of matches in the same reading, at least 0; a resample that tells none counts as 0"]
    rows = (*found.by_slot, found.whole)
    if any(each.never_ends for each in rows):
        named = [each.slot or "all" for each in rows if each.never_ends]
        listed = ", ".join(named[:6]) + (" …" if len(named) > 6 else "")
        notes.append(
            f"every match was followed by a match ({listed}): x is at most what the log carries, as if the next had "
            "failed, and never 1"
        )
    elif any((each.autocorrelation or 0.0) >= ROUNDS_TO_ONE for each in rows):
        notes.append(BELOW_ONE)
    untold = sum(each.autocorrelation is None for each in found.by_slot)
    if untold:
        told = untold < len(found.by_slot)
        value = "the mean of the others', weighted by their tokens after a match" if told else "that of all requests"
        filled = f": the series has {value} there, in an interval from 0 to the upper end of that of all requests"
        known = found.whole.autocorrelation is not None
        notes.append(f"{untold:,} of {len(found.by_slot):,} rows tell no x{filled if known else ''}")
    return notes
