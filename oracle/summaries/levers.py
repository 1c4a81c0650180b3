"""What is shown of an answer about serving levers: one page first, then the tables it rests on."""

import math
from typing import Any

from oracle.levers.answer import Answer, Run
from oracle.levers.break_even import (
    critical_concurrency,
    prefix_share_needed,
    repetitiveness_for_higher,
    repetitiveness_needed,
    speculation_batches,
)
from oracle.levers.cost import accept, batch_size, capacity, overhead, round_length
from oracle.levers.deployment import Deployment
from oracle.levers.procedure import Configuration, Decisions
from oracle.summaries.levers_admission import PER_MILLION, admission, cap_begins, configured, setting
from oracle.summaries.shares import part, percent
from oracle.tables import Column, Row, Table, number, show, words

_MS = ".5f"
_OUTSIDE = "nothing: an eta was measured above 1, which this model does not hold; see from"


def answer_table(found: Answer, notes: tuple[str, ...] = (), *, outside: bool = False) -> Table:
    """Say on one page what to set, why, at what it flips and when to look again.

    Parameters
    ----------
    outside
        Whether some eta was measured where the model ends, so that no lever is called certain.
    """
    deployment, chosen = found.deployment, found.joint.configuration()
    facts = [
        ("set", setting(found)),
        ("why", _margin(found)),
        ("draft length", _lengths(found)),
        ("admission", admission(found)),
        ("certain", _OUTSIDE if outside else _certainty(found)),
        ("in the source's order", _ordered(found)),
        ("flips with concurrency", _ranges(deployment, found.by_concurrency, ",.0f")),
        *(
            [("the same, capped", _ranges(deployment, found.by_concurrency_capped, ",.0f"))]
            if [run.configuration for run in found.by_concurrency_capped]
            != [run.configuration for run in found.by_concurrency]
            else []
        ),
        ("with repetitiveness", _ranges(deployment, found.by_repetitiveness, ".3f")),
        ("with the prefix share", _ranges(deployment, found.by_prefix_share, ".3f")),
        ("look again", _look_again(found, chosen)),
        *(("left out", reason) for reason in found.dropped.values()),
        *(("from", note) for note in notes),
    ]
    rows = [{"fact": fact, "value": value} for fact, value in facts]
    columns = (words("", "fact"), words("", "value", most=600))
    return Table("levers", f"Serving levers: {_where(found)}", columns, rows)


def _where(found: Answer) -> str:
    regime = found.regime.values()
    return (
        f"{regime['concurrency']:g} requests in flight, prefix share {regime['prefix_share']:g}, repetitiveness "
        f"{regime['repetitiveness']:g}, {regime['prompt_tokens']:g} → {regime['output_tokens']:g} tokens in "
        f"{regime['context_tokens']:g} of context"
    )


def _margin(found: Answer) -> str:
    """Say how far the next best is, and what limits the batch."""
    second = found.priced[1]
    gap = float(second.parts.total_ms / found.joint.cost_ms) - 1
    B, C = float(found.joint.batch), float(found.regime.concurrency)
    bound = f"all {C:g} requests decode together" if B >= C else f"the KV cache holds {B:g} of {C:g} requests"
    named = configured(found.deployment, second.configuration)
    uncapped = "without a cap " if found.cap_saves else ""
    return f"{uncapped}{percent(gap)} dearer is the next best, {named}; {bound}"


def _lengths(found: Answer) -> str:
    """Say which draft length the model would take, all levers decided again for each."""
    stated = found.deployment.speculation.draft_length
    length, best = min(found.by_length, key=lambda pair: float(pair[1].cost_ms))
    saved = 1 - float(best.cost_ms / found.joint.cost_ms)
    if not best.speculation_on:
        return f"speculation does not pay at any of 1 … {found.by_length[-1][0]} draft tokens"
    if length == stated or saved <= 0:
        return f"{stated} draft tokens are the best of 1 … {found.by_length[-1][0]}"
    named = configured(found.deployment, best.configuration())
    return (
        f"stated: {stated}; of 1 … {found.by_length[-1][0]} the model would draft {length} ({named}), "
        f"{percent(saved)} cheaper"
    )


def _certainty(found: Answer) -> str:
    if not found.has_intervals:
        return "no intervals were given on repetitiveness, prefix share or eta: values taken as exact"
    states = "without a cap, " if found.cap_saves else ""
    states += f"at {found.deployment.precisions[found.joint.configuration().precision].name}: speculation "
    states += f"{found.speculation}, prefix cache {found.prefix}"
    if len(found.possible) == 1:
        return f"{states}; this configuration is the cheapest everywhere within the intervals"
    named = "; ".join(configured(found.deployment, each) for each in found.possible)
    return f"{states}; within the intervals {len(found.possible)} configurations may be the cheapest: {named}"


def _ordered(found: Answer) -> str:
    """Compare with both readings of the source's procedure."""
    said = []
    for name, each in (("literal", found.literal), ("speculation-aware", found.aware)):
        if each.same_as(found.joint):
            said.append(f"{name}: the same")
        else:
            more = percent(float(each.cost_ms / found.joint.cost_ms) - 1)
            said.append(f"{name}: {configured(found.deployment, each.configuration())}, {more} dearer")
    return "; ".join(said)


def _ranges(deployment: Deployment, runs: tuple[Run, ...], spec: str) -> str:
    if len(runs) == 1:
        return f"nowhere: {configured(deployment, runs[0].configuration)} throughout"
    return "; ".join(f"{_range(run, spec)}: {configured(deployment, run.configuration)}" for run in runs)


def _range(run: Run, spec: str) -> str:
    if math.isinf(run.high):
        return f"from {run.low:{spec}} on"
    return f"{run.low:{spec}}" if run.low == run.high else f"{run.low:{spec}} – {run.high:{spec}}"


def _look_again(found: Answer, chosen: Configuration) -> str:
    """Name the nearest changes in each direction."""
    regime = found.regime.values()
    said = []
    for name, runs, spec in (
        ("concurrency", found.by_concurrency, ",.0f"),
        ("repetitiveness", found.by_repetitiveness, ".3f"),
        ("prefix share", found.by_prefix_share, ".3f"),
    ):
        value = regime[name.replace(" ", "_")]
        # between two points of the scan a value belongs to the nearer range that holds the decision
        at = next((i for i, r in enumerate(runs) if r.low <= value <= r.high and r.configuration == chosen), None)
        if at is None:
            said.append(f"{name} is at a flip now")
            continue
        ends = [f"below {runs[at].low:{spec}}"] if at > 0 else []
        ends += [f"above {runs[at].high:{spec}}"] if at < len(runs) - 1 else []
        said += [f"{name} {' or '.join(ends)}"] if ends else []
    cap = cap_begins(found)
    said += [] if cap is None else [cap]
    return f"after every change of precision or draft length; with {', '.join(said) or 'nothing else in reach'}"


def cost_table(found: Answer) -> Table:
    """Show the parts of the cost of every configuration, the cheapest first."""
    least = float(found.joint.cost_ms)
    price = found.deployment.price_per_hour
    rows = []
    for each in found.priced:
        parts = each.parts
        total = float(parts.total_ms)
        rows.append(
            {
                "configuration": configured(found.deployment, each.configuration),
                "batch": float(parts.batch),
                "decode_ms": float(parts.decode_ms),
                "prefill_ms": float(parts.prefill_ms),
                "cache_ms": float(parts.cache_ms),
                "cost_ms": total,
                "over_best": total / least - 1,
                "price_per_million": None if price is None else total * price * PER_MILLION,
            }
        )
    columns = (
        words("configuration", "configuration"),
        number("batch", "batch", ",.6g"),
        number("decode", "decode_ms", _MS),
        number("prefill", "prefill_ms", _MS),
        number("cache", "cache_ms", _MS),
        number("ms/token", "cost_ms", _MS),
        part("% above\nthe best", "over_best", ".1f", 100),
        *((number("price/million\ntokens", "price_per_million", ".4g"),) if price is not None else ()),
    )
    notes = ("decode, prefill and managing the prefix cache, ms per emitted token of the whole deployment",)
    return Table("levers_cost", "Cost per token of every configuration", columns, rows, notes)


def break_even_table(found: Answer) -> Table:
    """Show where each lever begins to pay at each precision."""
    rows = [_break_even(found, i) for i in usable(found)]

    late = any(row["speculation_on_above"] > 1 for row in rows)  # with KV reads only

    def from_on(key: str, spec: str = ".3f") -> Column:
        heads = {"repetitiveness_needed": "r* for\nspeculation", "prefix_share_needed": "rho* for\nprefix cache"}
        return Column(heads[key], lambda row: "never" if row[f"{key}_never"] else show(row[key], spec))

    columns = (
        words("precision", "precision"),
        number("KV cache\nholds", "capacity", ",.0f"),
        number("batch", "batch", ",.6g"),
        part("overhead\nw, %", "overhead", ".1f", 100),
        number("accept-\nance", "accept", ".3f"),
        number("tokens/\nround", "round_length", ".3f"),
        from_on("repetitiveness_needed"),
        number("r - r*", "repetitiveness_margin", ".3f"),
        from_on("prefix_share_needed"),
        number("rho - rho*", "prefix_share_margin", ".3f"),
        *((number("speculation\non above C", "speculation_on_above", ",.0f"),) if late else ()),
        Column("speculation\noff from C", lambda row: _flip(row, "speculation_off_from")),
        Column("prefix cache\noff from C", lambda row: _flip(row, "prefix_off_from")),
        Column("dearer, below\nr of", _over_lower, text=True),
    )
    notes = (
        "each lever at the batch the precision gives; speculation pays above r*, the prefix cache above rho*",
        "off from C: concurrency from which it no longer pays, or never within what the KV cache holds",
        "dearer: decode with speculation costs more than at the next lower precision unless r is above",
    )
    return Table("levers_break_even", "Where each lever begins to pay", columns, rows, notes)


def usable(found: Answer) -> tuple[int, ...]:
    """Give the precisions that pass the quality bar and fit, the widest first."""
    deployment = found.deployment
    return tuple(i for i in deployment.admissible if deployment.precisions[i].name not in found.dropped)


def _break_even(found: Answer, index: int) -> dict[str, Any]:
    deployment, regime = found.deployment, found.regime
    precision = deployment.precisions[index]
    B = batch_size(deployment, precision, regime)
    spec, prefix = critical_concurrency(deployment, precision, regime)
    r, rho = (
        float(needed(deployment, precision, regime, B)) for needed in (repetitiveness_needed, prefix_share_needed)
    )
    order = usable(found)
    place = order.index(index)
    over = None
    if place + 1 < len(order) and deployment.speculation.reading == "independent":
        lower = deployment.precisions[order[place + 1]]
        over = float(repetitiveness_for_higher(deployment, precision, lower, regime))
    return {
        "precision": precision.name,
        "capacity": float(capacity(deployment, precision, regime)),
        "batch": float(B),
        "overhead": float(overhead(deployment, precision, regime, B)),
        "accept": float(accept(deployment, precision, regime)),
        "round_length": float(round_length(deployment, precision, regime)),
        "repetitiveness_needed": r,
        "repetitiveness_needed_never": math.isinf(r),
        "repetitiveness_margin": float(regime.repetitiveness) - r,
        "prefix_share_needed": rho,
        "prefix_share_needed_never": rho > 1,
        "prefix_share_margin": float(regime.prefix_share) - rho,
        "speculation_on_above": float(speculation_batches(deployment, precision, regime)[0]),
        "speculation_off_from": float(spec),
        "prefix_off_from": float(prefix),
        "repetitiveness_over_lower": over,
    }


def _flip(row: Row, key: str) -> str:
    value = row[key]
    return "never" if math.isinf(value) else "always off" if value <= 1 else f"{math.ceil(value):,}"


def _over_lower(row: Row) -> str:
    value = row["repetitiveness_over_lower"]
    if value is None:
        return "–"
    return "always" if math.isinf(value) else "never" if value == 0 else f"{value:.3f}"


def decisions_row(name: str, found: Answer, each: Decisions) -> dict[str, Any]:
    """Give one row that compares a decision with the joint minimum."""
    return {
        "name": name,
        "configuration": configured(found.deployment, each.configuration()),
        "batch": float(each.batch),
        "cost_ms": float(each.cost_ms),
        "over_joint": float(each.cost_ms / found.joint.cost_ms) - 1,
        "same": bool(each.same_as(found.joint)),
    }
