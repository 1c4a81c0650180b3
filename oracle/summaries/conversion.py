"""What is shown of a conversion: what was made of the requests, and the match probabilities with their intervals."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from oracle.acceptance import Acceptance
from oracle.empirical.risk_sets import shown_context
from oracle.empirical.shrinkage import Rates, shrunk
from oracle.recorded_by.aligned import EMPIRICAL, REQUEST
from oracle.recorded_by.conversion import Converted
from oracle.tables import Table, interval_cells, number, with_interval, words

_MOST_CONTEXTS = 24
_AVERAGES = (
    "match probabilities are averages over positions: static lengths at the measured K are priced right in the mean; "
    "what a policy gains by telling positions apart, the oracle's gain among it, is understated"
)
_KEPT_TOKENS = (
    "routing follows the kept text: experts of rejected draft tokens are not in it (U is that of the reference path)"
)
_BOUNDS = "match probabilities are {} bounds of the overlap, from the most probable tokens of both models"


def conversion_tables(found: Converted, engine: str, output: str) -> list[Table]:
    """Tables of a trace that was written."""
    tables = [_overview(found, engine, output)]
    if found.match.rates is None:
        return tables
    pooled = shrunk(found.survey.risk.pooled().tables())
    tables.append(_rates("match_probabilities", "Match probabilities, measured", pooled))
    by = found.match.wanted.by
    if by and REQUEST not in by:
        tables.append(_rates("by_context", f"Match probabilities by {' and '.join(by)}", found.match.rates))
    if found.survey.risk_after:
        title = "The same by what the round before did (how matches cluster; not in the trace, which knows no rounds)"
        tables.append(_rates("after", title, shrunk(found.survey.risk_after.tables())))
    return tables


def _overview(found: Converted, engine: str, output: str) -> Table:
    survey, target = found.survey, found.target
    experts = "dense"
    if target:
        left_out = ", ".join(map(str, target["dense"])) or "none"
        experts = (
            f"{target['layers']} MoE layers (dense layers left out: {left_out}), top-{target['top_k']} of "
            f"{target['num_experts']} experts"
        )
    facts: Mapping[str, Any] = {
        "trace": output,
        "reader": engine,
        "generations": f"{survey.requests:,}",
        "positions": f"{survey.positions:,} (the token that prefill emits is none)",
        "without positions": survey.empty,
        "target": experts,
        "match probabilities": found.match.wanted.match,
        "columns": ", ".join(found.columns),
    }
    rows = [{"fact": key, "value": value} for key, value in facts.items()]
    columns = (words("", "fact"), words("", "value", most=300))
    return Table("conversion", "What was converted", columns, rows, list(_notes(found)))


def _notes(found: Converted) -> list[str]:
    survey, kind = found.survey, found.match.wanted.match
    notes = [*survey.on_starts(), *survey.notes]
    if found.target:
        notes.append(_KEPT_TOKENS)
    if kind == EMPIRICAL:
        notes.append(_AVERAGES)
        notes.append(_told_apart(found))
    elif kind.startswith("overlap_"):
        notes.append(_BOUNDS.format(kind.removeprefix("overlap_")))
    if found.match.rates is not None and survey.uncounted:
        notes.append(
            f"{survey.uncounted:,} requests hold no accepted tokens by position; they take the others' averages"
        )
    lacking = {
        "token ids": survey.with_ids,
        "token texts": survey.with_texts,
        "whole rounds (logged_draft_length, logged_advance)": survey.with_rounds,
    }
    notes += [
        f"{what}: left out, since {survey.requests - there:,} of {survey.requests:,} requests do not tell them"
        for what, there in lacking.items()
        if there < survey.requests
    ]
    return notes


def _told_apart(found: Converted) -> str:
    """What the averages are told apart by, and what that means for intervals."""
    by, rates = found.match.wanted.by, found.match.rates
    if rates is None or REQUEST not in by:
        return (
            "the averages are not told apart by request, so policies see no difference between requests (--by request)"
        )
    low, high = np.quantile(rates.rate[:, 0], [0.05, 0.95])
    return (
        f"the averages are told apart by {' and '.join(by)}, shrunk towards the others: the first draft token matches "
        f"with {low:.3f} to {high:.3f} (5 to 95 % of {len(rates.contexts):,} contexts)"
    )


def _rates(name: str, title: str, rates: Rates) -> Table:
    rows = []
    for c, context in enumerate(rates.contexts[:_MOST_CONTEXTS]):
        for j in range(rates.depth):
            n, x = rates.at_risk[c, j], rates.matched[c, j]
            rows.append(
                {
                    "context": shown_context(context),
                    "depth": j + 1,
                    "at_risk": round(float(n)),
                    "matched": round(float(x)),
                    "raw": float(x / n) if n else None,
                    **interval_cells("rate", float(rates.rate[c, j]), _Ends(rates, c, j)),
                    "design_effect": float(rates.design_effect[j]),
                    "prior_rounds": float(rates.prior_rounds[c, j]),
                }
            )
    columns = (
        words("context", "context"),
        number("depth", "depth"),
        number("rounds at risk", "at_risk", ",d"),
        number("matched", "matched", ",d"),
        number("raw", "raw"),
        with_interval("match probability", "rate"),
        number("design effect", "design_effect", ".1f"),
        number("prior, rounds", "prior_rounds", ",.1f"),
    )
    notes = [
        "conditional on all earlier tokens of the draft; at risk: rounds that drafted so deep and matched so far",
        "shrunk towards the other contexts (beta-binomial; the prior weighs as much as the rounds named, with one "
        "context half a match and half a rejection)",
        f"95 % posterior intervals, counts divided by the design effect of {rates.clusters:,} clusters",
    ]
    if len(rates.contexts) > _MOST_CONTEXTS:
        notes.insert(0, f"the first {_MOST_CONTEXTS} of {len(rates.contexts):,} contexts")
    return Table(name, title, columns, rows, notes)


class _Ends:
    """Ends of one posterior interval."""

    def __init__(self, rates: Rates, c: int, j: int) -> None:
        self.low = float(rates.low[c, j])
        self.high = float(rates.high[c, j])


def rounds_table(output: str, engine: str, parts: Sequence[tuple[int, set[int]]]) -> Table:
    """What a rounds file holds, from the rows and draft lengths of its batches."""
    lengths = sorted(set().union(*(lengths for _, lengths in parts)))
    rows = [
        {"fact": "rounds file", "value": output},
        {"fact": "reader", "value": engine},
        {"fact": "rounds", "value": f"{sum(count for count, _ in parts):,}"},
        {"fact": "draft lengths", "value": ", ".join(map(str, lengths))},
    ]
    notes = [
        "unique experts were told and not measured: they do not vary within an m, so no alpha can be fitted from "
        "these rounds",
        "passes timed alone cost less than served rounds (scheduler, launches), by up to 3 times at batch 64",
    ]
    return Table("conversion", "What was converted", (words("", "fact"), words("", "value", most=300)), rows, notes)


def acceptance_table(output: str, found: Acceptance) -> Table:
    """Survival by position as written."""
    rows = [
        {"tenant": curve.tenant, "draft_length": curve.draft_length, "position": j, "survival": float(rate)}
        for curve in found.curves
        for j, rate in enumerate(curve.survival, 1)
    ]
    columns = (
        words("tenant", "tenant"),
        number("K", "draft_length", "d"),
        number("position", "position", "d"),
        number("survival", "survival"),
    )
    notes = [*found.notes, f"{output} holds survival: give it to --acceptance with --acceptance-is survival"]
    return Table("acceptance", "Acceptance by position (survival)", columns, rows, notes)
