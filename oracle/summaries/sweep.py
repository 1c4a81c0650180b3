"""What is shown of a sweep plan."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from oracle.sweep.order import Balance
from oracle.sweep.plan import SweepPlan
from oracle.sweep.rehearsal import DRIFT_SHARE
from oracle.tables import Row, Table, number, show, with_interval, words


def plan_tables(plan: SweepPlan) -> list[Table]:
    """Tables of a plan: what it is, its precision by draft length, its balance, and a rehearsal."""
    tables = [_facts(plan)]
    if plan.expected:
        tables.append(_precision(plan))
    tables.append(_balance(plan.balance))
    return [*tables, _rehearsal(plan)] if plan.rehearsal else tables


def lever_tables(table: pa.Table, repeats: int, seed: int) -> list[Table]:
    """Say what a list of serving runs holds."""
    facts = {
        "runs": table.num_rows,
        "sessions (starts of the engine)": len(set(table.column("session").to_pylist())),
        "traffic cells in each session": table.num_rows // max(len(set(table.column("session").to_pylist())), 1),
        "repeats": repeats,
        "seed": seed,
    }
    notes = [
        "split plot: precision, speculation with its draft length, and cache are set at the start of a session, and "
        "traffic changes inside it; both in random order. Each repeat starts every session anew",
    ]
    if repeats == 1:
        notes.append("without repeats a difference between engine settings cannot be told from one between sessions")
    return [_of_facts("levers", "Serving runs to make, in the order of the list", facts, notes)]


def _of_facts(name: str, title: str, facts: dict[str, Any], notes: Sequence[str] = ()) -> Table:
    rows = [{"fact": key, "value": value} for key, value in facts.items()]

    def cell(row: Row) -> str:
        return show(row["value"]) if isinstance(row["value"], int) else str(row["value"])

    columns = (words("", "fact"), type(number("", "value"))("", cell, text=True))
    return Table(name, title, columns, rows, notes)


def _facts(plan: SweepPlan) -> Table:
    lengths = sorted(set(plan.balance.mean_place))
    facts = {
        "rounds": plan.rounds,
        "draft lengths": ", ".join(map(str, lengths)),
        "anchors": plan.anchors,
        "times each round is timed": plan.repeats,
        "generations": plan.clusters,
        "seed": plan.seed,
    }
    return _of_facts("sweep", "Rounds to time, in the order of the list", facts, plan.notes)


def _precision(plan: SweepPlan) -> Table:
    rows = [
        {
            "k": row.need.k,
            "residual_ms": row.need.spread.residual_ms,
            "experts_sd": row.need.spread.experts_sd,
            "source": row.need.spread.source,
            "rounds_needed": row.need.rounds,
            "rounds": row.rounds,
            "alpha_ms_per_expert": row.need.spread.alpha_ms_per_expert,
            "wanted_error": row.need.wanted_error,
            "error": row.error,
            "half_width": row.half_width,
            "reached": None if row.reached is None else "yes" if row.reached else "no",
        }
        for row in plan.expected
    ]
    columns = (
        number("k", "k"),
        number("residual\nms", "residual_ms", ".3f"),
        number("sd(U)", "experts_sd", ".2f"),
        words("from", "source"),
        number("rounds\nneeded", "rounds_needed"),
        number("rounds\nplanned", "rounds"),
        number("alpha\nms/expert", "alpha_ms_per_expert", ".4f"),
        number("wanted\nerror", "wanted_error", ".2g"),
        number("expected\nerror", "error", ".2g"),
        number("95 %\n±", "half_width", ".2g"),
        words("reached", "reached"),
    )
    notes = [
        f"errors of alpha, ms per expert; {plan.clusters} generations, share of clustering {plan.clustering:.3f} "
        "(rounds of one generation err alike); ± is t times the error",
    ]
    return Table("precision", "Precision to expect of alpha(m)", columns, rows, notes)


def _balance(balance: Balance) -> Table:
    rows = [{"k": k, "mean_place": place} for k, place in sorted(balance.mean_place.items())]
    apart = "no round is repeated"
    if balance.closest_repeats is not None:
        apart = f"two repeats of a round are at least {balance.closest_repeats:,} rounds apart"
    notes = [
        f"correlation of k with the order: {balance.correlation:+.4f} (by chance ± {balance.by_chance:.4f}); {apart}",
    ]
    columns = (number("k", "k"), number("mean place, 0 first … 1 last", "mean_place", ".4f"))
    return Table("balance", "Whether the order could be mistaken for an effect of K", columns, rows, notes)


def _rehearsal(plan: SweepPlan) -> Table:
    rows = [
        {
            "k": row.k,
            "truth": row.truth_ms_per_expert,
            "alpha": None if row.estimate is None else row.estimate.value,
            "alpha_low": None if row.estimate is None else row.estimate.low,
            "alpha_high": None if row.estimate is None else row.estimate.high,
            "inside": None if row.inside is None else "yes" if row.inside else "no",
            "level_error_ms": row.level_error_ms,
            "level_error_k_after_k_ms": row.level_error_k_after_k_ms,
        }
        for row in plan.rehearsal
    ]
    columns = (
        number("k", "k"),
        number("alpha put in", "truth", ".4f"),
        with_interval("alpha found", "alpha", ".4f"),
        words("inside", "inside"),
        number("error of the pass, ms\nthis order", "level_error_ms", "+.3f"),
        number("\nK after K", "level_error_k_after_k_ms", "+.3f"),
    )
    known = [row.inside for row in plan.rehearsal if row.inside is not None]
    notes = [
        f"{sum(known)} of {len(known)} intervals hold the truth (95 % are meant to); {100 * DRIFT_SHARE:.0f} % of the "
        "residual variance drifts over the run",
    ]
    return Table("rehearsal", "Rehearsal: the plan on a simulated machine that drifts", columns, rows, notes)
