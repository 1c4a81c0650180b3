"""What is shown of an answer about serving levers: one page first, then the tables it rests on."""

import math
from collections.abc import Sequence
from typing import Any

from oracle.levers.advised import Advice, Stretch, admitted_regime, advice, set_in
from oracle.levers.answer import Answer, Run
from oracle.levers.break_even import (
    critical_concurrency,
    prefix_share_needed,
    repetitiveness_for_higher,
    repetitiveness_needed,
    speculation_batches,
)
from oracle.levers.cost import accept, batch_size, capacity, overhead, round_length
from oracle.levers.procedure import Decisions
from oracle.summaries import levers_sentences as said_of
from oracle.summaries.levers_admission import (
    PER_MILLION,
    admission,
    configured,
    typed,
    typed_ranges,
    typed_setting,
)
from oracle.summaries.shares import amount, amounts, part, several
from oracle.tables import Column, Row, Table, number, show, words

_MS = ".5f"
_OUTSIDE = "nothing: an eta was measured above 1, which this model does not hold; see from"


def answer_table(found: Answer, notes: tuple[str, ...] = (), *, outside: bool = False) -> Table:
    """Say on one page what to set, why, at what it flips and when to look again.

    Rows hold typed fields beside the words: the setting in that of "set", a list of ranges in those of flips.

    Parameters
    ----------
    outside
        Whether some eta was measured where the model ends, so that no lever is called certain.
    """
    advised = advice(found)
    facts: list[dict[str, Any]] = [
        _set(found),
        _fact("why", said_of.margin(found, advised)),
        _fact("draft length", said_of.lengths(found, advised)),
        _fact("admission", admission(found)),
        _certain(found, advised, outside),
        _fact("in the source's order", said_of.ordered(found) + (", not capped" if advised.cap is not None else "")),
        *_flips(found, advised),
        _fact("look again", said_of.look_again(found, advised)),
        *(_fact("left out", reason) for reason in found.dropped.values()),
        *(_fact("from", note) for note in notes),
    ]
    columns = (words("", "fact"), words("", "value", most=900))
    return Table("levers", f"Serving levers: {_where(found)}", columns, facts)


def _fact(name: str, value: str, **fields: Any) -> dict[str, Any]:
    return {"fact": name, "value": value, **fields}


def _set(found: Answer) -> dict[str, Any]:
    """Say what to set; `counted` is what counting the experts that a step goes to would set, where that is another."""
    other = said_of.otherwise(found)
    counted = None if other is None else typed_setting(other)
    return _fact("set", said_of.headline(found), setting=typed_setting(found), counted=counted)


def _certain(found: Answer, advised: Advice, outside: bool) -> dict[str, Any]:
    """Say what is certain; nothing is where the model ends, or where no interval was given."""
    known = found.has_intervals and not outside
    possible = [{**typed(found.deployment, each), "capped": capped} for each, capped in advised.possible]
    return _fact(
        "certain",
        _OUTSIDE if outside else said_of.certainty(found, advised),
        speculation=advised.speculation if known else None,
        prefix_cache=advised.prefix if known else None,
        possible=possible if known else None,
    )


def _flips(found: Answer, advised: Advice) -> list[dict[str, Any]]:
    """Say where the advice changes, and without caps where that differs over concurrency."""
    every: list[tuple[str, Sequence[Run | Stretch], str]] = [
        ("flips with concurrency", advised.by_concurrency, ",.0f"),
        *([("without a cap", found.by_concurrency, ",.0f")] if any(r.caps for r in advised.by_concurrency) else []),
        ("with repetitiveness", advised.by_repetitiveness, ".3f"),
        ("with the prefix share", advised.by_prefix_share, ".3f"),
    ]
    return [
        _fact(name, said_of.ranges(found.deployment, runs, spec), ranges=typed_ranges(found.deployment, runs))
        for name, runs, spec in every
    ]


def _where(found: Answer) -> str:
    regime = found.regime.values()
    return (
        f"{several(regime['concurrency'], 'request')} in flight, prefix share {amount(regime['prefix_share'])}, "
        f"repetitiveness {amount(regime['repetitiveness'])}, {amount(regime['prompt_tokens'])} → "
        f"{amount(regime['output_tokens'])} tokens in {amount(regime['context_tokens'])} of context"
    )


def cost_table(found: Answer) -> Table:
    """Show the parts of the cost of every configuration, the cheapest first."""
    advised = advice(found)
    least, price = advised.cost_ms, found.deployment.price_per_hour
    rows = []
    for each in advised.priced:
        parts = each.parts
        total = float(parts.total_ms)
        rows.append(
            {
                "configuration": configured(found.deployment, each.configuration),
                **typed(found.deployment, each.configuration),
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
        amounts("batch", "batch"),
        number("decode", "decode_ms", _MS),
        number("prefill", "prefill_ms", _MS),
        number("cache", "cache_ms", _MS),
        number("ms/token", "cost_ms", _MS),
        part("% above\nthe best", "over_best", ".1f", 100),
        *((number("price/million\ntokens", "price_per_million", ".4g"),) if price is not None else ()),
    )
    notes = ("decode, prefill and managing the prefix cache, ms per emitted token of the whole deployment",)
    capped = "" if advised.cap is None else ", each with the admission that is cheapest for it"
    return Table("levers_cost", f"Cost per token of every configuration{capped}", columns, rows, notes)


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
        amounts("batch", "batch"),
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
    _, cap = set_in(found)
    batch = (
        "the batch the precision gives"
        if cap is None
        else f"the {several(cap, 'request')} the cap admits, or what fits"
    )
    notes = (
        f"each lever at {batch}; speculation pays above r*, the prefix cache above rho*",
        "off from C: concurrency from which it no longer pays, or never within what the KV cache holds",
        "dearer: decode with speculation costs more than at the next lower precision unless r is above",
    )
    return Table("levers_break_even", "Where each lever begins to pay", columns, rows, notes)


def usable(found: Answer) -> tuple[int, ...]:
    """Give the precisions that pass the quality bar and fit, the widest first."""
    deployment = found.deployment
    return tuple(i for i in deployment.admissible if deployment.precisions[i].name not in found.dropped)


def _break_even(found: Answer, index: int) -> dict[str, Any]:
    deployment, regime = found.deployment, admitted_regime(found)
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
        **typed(found.deployment, each.configuration()),
        "batch": float(each.batch),
        "cost_ms": float(each.cost_ms),
        "over_joint": float(each.cost_ms / found.joint.cost_ms) - 1,
        "same": bool(each.same_as(found.joint)),
    }
