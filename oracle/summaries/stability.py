"""What is shown of stability: which decisions, static lengths and headline numbers the coefficients' errors leave."""

from typing import Any

from oracle.stability.corpus import Quantity, StaticChance
from oracle.stability.decisions import LABELS, LEANING, STABLE
from oracle.stability.study import Stability
from oracle.stability.tally import StabilityRow, Weighed
from oracle.tables import Column, Row, Table, interval_cells, number, resampled, show, with_interval, words

_CELLS = (*LABELS, "probability", "regret_ms")
_NAMES = {  # as people read it, and the factor to its unit
    "oracle_ms_per_token": ("oracle, ms/token", 1),
    "speedup_over_off": ("oracle's speed-up over k = 0", 1),
    "speedup_over_best_static": ("oracle's speed-up over the best static length", 1),
    "best_static_minus_off_ms_per_token": ("best static K >= 1 minus k = 0, ms/token", 1),
    "unknown_coefficients_ms_per_token": ("price of not knowing the coefficients, µs/token", 1000),
}


def stability_tables(found: Stability) -> list[Table]:
    """Decisions by label, headline numbers, and the best static length; nothing but the first without positions."""
    tables = [_decisions(found)]
    if found.quantities:
        tables += [_quantities(found), _statics(found)]
    return tables


def _weighed_cells(prefix: str, weighed: Weighed) -> dict[str, float | None]:
    values = (*weighed.labels, weighed.probability, weighed.regret_ms)
    cells: dict[str, float | None] = {}
    for name, value, interval in zip(_CELLS, values, weighed.intervals, strict=True):
        cells |= interval_cells(prefix + name, value, interval)
    return cells


def _decision_row(row: StabilityRow) -> dict[str, Any]:
    return {
        "draft_length": row.draft_length,
        "decisions": row.decisions,
        **_weighed_cells("", row.positions),
        **_weighed_cells("visit_", row.visits),
    }


def _decisions(found: Stability) -> Table:
    columns = (
        Column("k*", lambda row: "all" if row["draft_length"] is None else str(row["draft_length"])),
        number("decisions", "decisions"),
        with_interval("stable, %", "stable", ".1f", 100),
        number("leaning, %", "leaning", ".1f", 100),
        number("open, %", "open", ".1f", 100),
        with_interval("stable,\n% of rounds", "visit_stable", ".1f", 100),
        number("open,\n% of rounds", "visit_open", ".1f", 100),
        number("mean\nP(k* optimal)", "probability", ".3f"),
        with_interval("expected regret,\nµs a decision", "regret_ms", ".2f", 1000),
    )
    notes = [
        found.draws.said,
        f"stable: k* is optimal in at least {show(STABLE, '.0f', 100)} % of the draws; leaning: in at least "
        f"{show(LEANING, '.0f', 100)} %; open: in less; a share of {len(found.draws.models)} draws has a standard "
        f"error of up to {show(0.5 / len(found.draws.models) ** 0.5, '.1f', 100)} points",
        "expected regret: Q(k*) - V under the drawn coefficients, one round with k* and optimal ever after",
        f"shares and means: {resampled(found.clusters)}; draws held fixed",
        "the draws move the coefficients only: the form of the latency model, the match probabilities and the traces "
        "stay as they are",
    ]
    rows: list[Row] = [_decision_row(row) for row in found.rows]
    title = f"Stability of {found.positions:,} decisions when the cost coefficients move within their errors, by k*"
    return Table("stability", title, columns, rows, notes)


def _quantity_row(quantity: Quantity) -> dict[str, Any]:
    intervals: dict[str, float | None] = {}
    for source in ("coefficients", "traces", "both"):
        cells = interval_cells(source, None, getattr(quantity, source))
        intervals |= {key: value for key, value in cells.items() if key != source}
    return {"quantity": quantity.name, "value": quantity.value, **intervals}


def _ends(head: str, source: str) -> Column:
    def cell(row: Row) -> str:
        low, high = row[f"{source}_low"], row[f"{source}_high"]
        scale = _NAMES[row["quantity"]][1]
        return show(None) if low is None or high is None else f"[{show(low, '.4f', scale)}; {show(high, '.4f', scale)}]"

    return Column(head, cell)


def _quantities(found: Stability) -> Table:
    rows = [_quantity_row(quantity) for quantity in found.quantities]
    columns = (
        Column("quantity", lambda row: _NAMES[row["quantity"]][0], text=True),
        Column("value", lambda row: show(row["value"], ".4f", _NAMES[row["quantity"]][1])),
        _ends("coefficients alone", "coefficients"),
        _ends("traces alone", "traces"),
        _ends("both", "both"),
    )
    notes = [
        f"95 % intervals; coefficients alone: {len(found.draws.models)} draws on all traces as they are, "
        "without trace sampling",
        f"traces alone: {resampled(found.clusters)}; both: each resample under another draw, the two taken as "
        "independent",
        "values: under the fitted coefficients, on all traces; the last one is a mean over the draws",
        "price of not knowing the coefficients: what the decisions of the fitted coefficients cost more than those of "
        "the drawn ones, if the drawn ones are true",
        *_verdict(found.quantities),
    ]
    return Table("headline", "Headline numbers and what they rest on (expected, in-sample)", columns, rows, notes)


def _verdict(quantities: list[Quantity]) -> list[str]:
    """Say whether the best static length and k = 0 can be told apart."""
    for quantity in quantities:
        if quantity.name == "best_static_minus_off_ms_per_token" and quantity.both is not None:
            if quantity.both.low <= 0 <= quantity.both.high:
                return ["best static K >= 1 against k = 0: not significant, the interval of both holds 0"]
            return [
                "best static K >= 1 against k = 0: "
                + ("k = 0 is cheaper" if quantity.both.low > 0 else "drafting is cheaper")
                + ", the interval of both leaves out 0"
            ]
    return []


def _static_row(chance: StaticChance) -> dict[str, Any]:
    return dict(vars(chance))


def _statics(found: Stability) -> Table:
    columns = (
        words("policy", "policy"),
        number("ms/token", "ms_per_token"),
        number("coefficients\nalone, %", "coefficients", ".1f", 100),
        number("traces\nalone, %", "traces", ".1f", 100),
        number("both, %", "both", ".1f", 100),
    )
    rows: list[Row] = [{"policy": f"static:{c.draft_length}", **_static_row(c)} for c in found.statics]
    notes = ["share of the draws, of the resamples, and of both together in which the static length is the best one"]
    if found.statics[0].draft_length == 0:
        notes.append("static:0 is no speculation: its row says how often that beats the best static length K >= 1")
    return Table("best_static", "Best static length under uncertain coefficients and traces", columns, rows, notes)
