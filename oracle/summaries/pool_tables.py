"""Tables of a memory plan: the budget at every precision, tenants, speed-ups, early exit, and what was stated."""

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any

from oracle.pool.answer import Choice, PoolAnswer
from oracle.pool.budget import name_of
from oracle.pool.plan import GIB, Plan
from oracle.pool.worth import Verdict, Worth, verdict
from oracle.summaries.shares import part
from oracle.tables import NOT_AVAILABLE, Column, Row, Table, number, show, words

_GIB = ".2f"
DEPENDS_ON = "depends on whether verification hides behind reading bytes"


def _gib(value: int | float | None) -> float | None:
    return None if value is None else value / GIB


def judged(gains: Sequence[float | None]) -> str:
    """Say whether it pays, or what that depends on, and which way."""
    said = verdict(gains)
    if said is not Verdict.DEPENDS:
        return said
    return f"{DEPENDS_ON} (then it {verdict(gains[-1:])})"


def slashed(values: Sequence[float | None], spec: str = ".3f") -> str:
    """Write a number by both readings, once where they look the same."""
    return " / ".join(dict.fromkeys(show(value, spec) for value in values))


def _by_reading(head: str, key: str, spec: str = ".3f") -> Column:
    """Give a column of numbers that are there by both readings; `hidden_<key>` is None where they are the same."""

    def cell(row: Row) -> str:
        hidden = row[f"hidden_{key}"]
        return slashed([row[key]] if hidden is None else [row[key], hidden], spec)

    return Column(head, cell)


def budget_table(found: PoolAnswer) -> Table:
    """Show where the bytes go at every precision of weights and KV."""
    rows = [_budget_cells(found.plan, choice) for choice in found.choices]
    columns = [
        words("weights", "weights"),
        number("bytes", "weights_bytes_per_value", ".4g"),
        words("KV", "kv"),
        number("bytes", "kv_bytes_per_value", ".4g"),
        number("used", "used_weights_gib", _GIB),
        number("idle", "idle_weights_gib", _GIB),
        number("reserve", "reserve_gib", _GIB),
        number("pool", "pool_gib", _GIB),
        number("tenants", "tenants"),
        number("KV", "kv_gib", _GIB),
        number("unused", "unused_gib", _GIB),
        _by_reading("tokens/s", "tokens_per_s", ",.0f"),
        number("without idle", "dense_tenants"),
        part("% of experts", "hit_share", ".1f", 100),
    ]
    notes = [
        "used + idle + reserve + KV + unused = usable; a negative pool is what is missing; bytes: of a value, with its "
        "part of the scale",
        "idle: weights that one token does not use (experts of other tokens), resident all the same; without idle: "
        "tenants that would fit if they were not",
        "tokens/s: of a full pool, no drafts; % of experts: of a layer, that a step of a full pool uses, idle ones of "
        "one token among them",
    ]
    whole = found.plan.memory.usable_bytes / GIB
    return Table(
        "pool_budget", f"Budget of {whole:.2f} GiB at every precision, in GiB (2^30 bytes)", columns, rows, notes
    )


def _budget_cells(plan: Plan, choice: Choice) -> dict[str, Any]:
    laid = choice.budget
    return {
        "weights": choice.served.weights.name,
        "weights_bytes_per_value": choice.served.weights.stored_bytes,
        "kv": choice.served.kv.name if plan.kv_precisions else None,
        "kv_bytes_per_value": choice.served.kv.stored_bytes if plan.kv_precisions else None,
        "used_weights_gib": _gib(laid.used_weights_bytes),
        "idle_weights_gib": _gib(laid.idle_weights_bytes),
        "reserve_gib": _gib(laid.reserve_bytes),
        "pool_gib": _gib(laid.pool_bytes),
        "tenants": laid.tenants,
        "kv_gib": _gib(laid.kv_bytes),
        "unused_gib": _gib(laid.unused_bytes),
        "tokens_per_s": choice.tokens_per_s,
        "hidden_tokens_per_s": choice.hidden_tokens_per_s,
        "dense_tenants": choice.dense_tenants,
        "hit_share": choice.hit_share,
    }


def tenants_table(found: PoolAnswer) -> Table:
    """Show what each kind of tenant takes and how many of it alone would fit."""
    rows = []
    for choice in found.choices:
        for i, tenant in enumerate(found.plan.tenants):
            rows.append(
                {
                    "served": name_of(found.plan, choice.served),
                    "tenant": tenant.name,
                    "asked": tenant.count,
                    "context_tokens": tenant.context_tokens,
                    "each_gib": choice.kind_bytes[i] / GIB,
                    "alone": choice.alone[i],
                }
            )
    columns = [
        words("at", "served"),
        words("tenant", "tenant"),
        number("asked for", "asked"),
        number("context, tokens", "context_tokens"),
        number("GiB each", "each_gib", ".4f"),
        number("fit alone", "alone"),
    ]
    return Table("pool_tenants", "KV of the tenants at full context", columns, rows)


def speedups_table(found: PoolAnswer) -> Table:
    """Show what every speed-up costs and gives at every precision whose weights fit."""
    rows = [
        {"served": name_of(found.plan, found.choices[i].served), "speedup": each.speedup.name, **_worth_cells(each)}
        for i, each in found.worths
    ]
    columns = [
        words("at", "served"),
        words("speed-up", "speedup"),
        part("weights, GiB", "draft_gib", _GIB),
        Column("KV, GiB", _kv_at),
        part("% of pool", "pool_share", ".1f", 100),
        Column("tenants", lambda row: f"{show(row['tenants_without'])} → {show(row['tenants_with'])}"),
        words("at tenants asked for", "verdict"),
        number("k", "draft_length"),
        number("length", "acceptance_length", ".2f"),
        _by_reading("step, ms", "step_ms", ".2f"),
        _by_reading("round, ms", "round_ms", ".2f"),
        _by_reading("gain", "gain"),
        _by_reading("as asked", "asked_gain"),
        _by_reading("same tenants", "same_gain"),
        _by_reading("length needed", "length_needed", ".2f"),
        Column("acceptance", lambda row: _both(row, "acceptance_needed", _acceptance)),
        Column("draft up to, GiB", lambda row: _both(row, "most_draft_gib", _largest)),
    ]
    notes = [
        "KV: what it adds to that of the tenants, slots for its drafts and KV of its own, at as many of those asked "
        "for as fit with it; % of pool: weights and KV together, of the pool without it",
        "gain: tokens a second of a full pool with it over those of a full pool without; as asked: at the tenants "
        "asked for, those that do not fit waiting; same tenants: of each tenant where both hold the same",
        "length: mean acceptance length as stated; length needed, acceptance: from which on it pays at a full pool; "
        "draft up to: largest draft that pays, its own KV and draft length as stated",
    ]
    if any(each.hidden is not None for _, each in found.worths):
        notes.append(
            "a / b: verification added to the time of reading bytes / computing hidden behind it; one number: the "
            "same; where gains lie on both sides of 1 the verdict depends on which of them holds"
        )
    return Table("pool_speedups", "What each speed-up costs in tenants and what it gives", columns, rows, notes)


def _kv_at(row: Row) -> str:
    return NOT_AVAILABLE if row["held"] is None else f"{show(row['draft_kv_gib'], _GIB)} at {row['held']:,}"


def _worth_cells(each: Worth) -> dict[str, Any]:
    """Cells of a speed-up; those of the other reading under hidden_…, None where there is none."""
    hidden = dict.fromkeys(_timed(each)) if each.hidden is None else _timed(each.hidden)
    return {
        "draft_gib": _gib(each.having.draft_bytes),
        "draft_kv_gib": _gib(each.kv_bytes) if each.held else None,
        "taken_gib": _gib(each.taken_bytes),
        "held": each.held or None,
        "pool_share": each.pool_share,
        "tenants_without": each.without.tenants,
        "tenants_with": each.having.tenants,
        "tenants_lost": each.tenants_lost,
        "draft_length": each.speedup.draft_length,
        "acceptance_length": each.speedup.length,
        "asked": each.asked,
        "verdict": None if each.asked_gain is None else str(verdict([reading.asked_gain for reading in each.readings])),
        **_timed(each),
        **{f"hidden_{key}": value for key, value in hidden.items()},
    }


def _timed(each: Worth) -> dict[str, Any]:
    """Cells that rest on times."""
    return {
        "step_ms": each.step_ms,
        "round_ms": each.round_ms,
        "tokens_per_s_without": each.tokens_per_s_without,
        "tokens_per_s_with": each.tokens_per_s_with,
        "gain": each.gain,
        "same_gain": each.same_gain,
        "asked_gain": each.asked_gain,
        "length_needed": each.length_needed,
        "acceptance_needed": each.acceptance_needed,
        "most_draft_gib": _gib(each.most_draft_bytes),
        "pays": None if each.pays is None else [list(pair) for pair in each.pays],
    }


def _both(row: Row, key: str, shown: Callable[[float | None], str]) -> str:
    hidden = row[f"hidden_{key}"]
    return " / ".join(dict.fromkeys([shown(row[key])] + ([] if hidden is None else [shown(hidden)])))


def _acceptance(value: float | None) -> str:
    return "never" if value == float("inf") else show(value)


def _largest(value: float | None) -> str:
    return "none" if value is not None and value < 0 else show(value, _GIB)


def early_exit_table(found: PoolAnswer) -> Table:
    """Show what early exit saves by batch size, beside a saving that is inversely proportional to it."""
    saved, exits = found.early_exit, found.plan.early_exit
    if saved is None or exits is None:
        return Table("pool_early_exit", "Early exit: not stated", (), ())
    rows = [
        {
            "batch": int(batch),
            "deepest": saved.deepest[i],
            "lockstep": saved.lockstep[i],
            "inverse": saved.lockstep[0] / batch,
            "compaction": saved.compaction[i],
            "refilling": saved.refilling[i],
        }
        for i, batch in enumerate(saved.batch)
    ]
    columns = [
        number("batch", "batch"),
        number("deepest row, layers", "deepest", ".2f"),
        part("lockstep", "lockstep", ".2f", 100),
        part("batch 1 over B", "inverse", ".2f", 100),
        part("with compaction", "compaction", ".2f", 100),
        part("refilled", "refilling", ".2f", 100),
    ]
    if exits.rows_that_double is None:
        rows_said = "rows add no time to a layer, so compaction saves nothing that lockstep does not"
    else:
        rows_said = f"a layer takes twice as long at {exits.rows_that_double:g} rows as for its weights alone"
    notes = [
        f"exact expectations, rows leave independently; {rows_said}",
        "batch 1 over B: what a saving inversely proportional to the batch would be; computing the KV that a row "
        "skipped is not counted",
    ]
    title = f"Early exit: % of a step's time that is saved, {exits.layers} layers"
    return Table("pool_early_exit", title, columns, rows, notes)


def stated_table(found: PoolAnswer) -> Table:
    """Echo everything that was stated or taken by default."""
    plan, rows = found.plan, []
    for table in ("memory", "model", "kv", "timing", "early_exit"):
        if getattr(plan, table) is not None:
            rows += _stated(table, "", getattr(plan, table))
    rows += [
        {
            "part": "unique_experts",
            "name": "",
            "key": f"{each.tokens:g} tokens",
            "value": each.experts,
            "shown": f"{each.experts:g}"
            + ("" if each.draft_length is None else f" at draft length {each.draft_length}"),
        }
        for each in plan.unique_experts
    ]
    for table in ("precisions", "kv_precisions", "tenants", "speedups"):
        for each in getattr(plan, table):
            rows += _stated(table, each.name, each)
    columns = [words("of", "part"), words("", "name"), words("parameter", "key"), words("value", "shown")]
    measured = "none was measured here" if found.measured is None else "unique experts measured in the traces"
    return Table("pool_stated", f"Parameters: stated in the plan, or the default; {measured}", columns, rows)


def _stated(part: str, name: str, thing: Any) -> list[dict[str, Any]]:
    found = []
    for f in fields(thing):
        value = getattr(thing, f.name)
        if f.name in ("name", "reading") or value is None:
            continue
        shown = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else None
        shown = f"{value:g}" if isinstance(value, float) else shown
        found.append({"part": part, "name": name, "key": f.name, "value": value, "shown": shown or str(value)})
    return found
