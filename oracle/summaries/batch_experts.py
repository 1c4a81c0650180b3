"""What is shown of recorded traffic in batches: unique experts, measured and by formula, and tenants mixed."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from oracle.crossover.answer import Crossover
from oracle.crossover.formulas import uniform_unique_experts
from oracle.crossover.jackknife import half_widths
from oracle.crossover.mixing import MixingCost
from oracle.crossover.pays import ON
from oracle.crossover.study import Studied
from oracle.summaries.crossover import around
from oracle.summaries.shares import part
from oracle.tables import Table, interval_cells, number, with_interval, words


def traffic_tables(studied: Studied, num_experts: int, top_k: int) -> list[Table]:
    """Show the unique experts that were measured, and what mixing tenants costs."""
    lengths = shown_lengths(studied.answer)
    found = [unique_table(studied, lengths, num_experts, top_k)]
    if studied.mixing:
        found.append(mixing_table(studied.mixing, lengths[:2]))
    return found


def shown_lengths(answer: Crossover) -> list[int]:
    """Draft lengths of which experts are shown: none, the one that is best at most batch sizes, the longest."""
    on = answer.best[answer.states == ON]
    middle = int(np.bincount(on).argmax()) if len(on) else answer.lengths[1]
    return sorted({0, middle, answer.lengths[-1]})


def _make(tenants: int) -> str:
    return "at random" if not tenants else "1 tenant" if tenants == 1 else f"{tenants} tenants"


def unique_table(studied: Studied, lengths: Sequence[int], num_experts: int, top_k: int) -> Table:
    """Show unique experts of batches, measured and by the two formulas."""
    rows: list[Mapping[str, Any]] = []
    for make, each in studied.experts.items():
        half = half_widths(each.left_out)
        for i, B in enumerate(studied.shown):
            if make > B:
                continue
            for k in lengths:
                mean = float(each.mean[B - 1, k])
                uniform = float(uniform_unique_experts(B * (k + 1), num_experts, top_k))
                rows.append(
                    {
                        "batches_of": _make(make),
                        "batch_size": B,
                        "draft_length": k,
                        **interval_cells("measured", mean, around(mean, float(half[B - 1, k]))),
                        "popularity": float(each.popularity[i, k]),
                        "uniform": uniform,
                        "over_uniform": mean / uniform - 1 if uniform else None,
                        "repeats": each.distinct_to < B,
                        "marks": "a cluster twice" if each.distinct_to < B else None,
                    }
                )
    columns = (
        words("batches of", "batches_of"),
        number("batch\nsize", "batch_size"),
        number("K", "draft_length"),
        with_interval("unique experts,\nmeasured", "measured", ".2f"),
        number("by\npopularity", "popularity", ".2f"),
        number("by uniform\nformula", "uniform", ".2f"),
        part("measured over\nuniform, %", "over_uniform", "+.1f", 100),
        words("", "marks"),
    )
    notes = (
        "mean over MoE layers of the union of all rows of a batch; both formulas take every token as independent",
        "95 % intervals leave clusters out one at a time; which tenants there are is given",
        "a cluster twice: some batches hold texts of one cluster more than once, so the union is a lower bound",
    )
    return Table("unique_experts", "Unique experts of batches", columns, rows, notes)


def mixing_table(mixing: Sequence[MixingCost], lengths: Sequence[int]) -> Table:
    """Show what more tenants in batches of the same size touch and cost.

    Only batch sizes at which no batch holds a cluster twice, if there are any: else texts that recur would be counted
    as a tenant's.
    """
    several = [each for each in mixing if each.tenants > 1 and each.draft_length in lengths]
    distinct = [each for each in several if each.distinct]
    rows = [
        {
            "tenants": each.tenants,
            "batch_size": each.batch_size,
            "draft_length": each.draft_length,
            **interval_cells("extra", each.extra, around(each.extra, each.extra_half)),
            "extra_formula": each.extra_formula,
            **interval_cells("extra_ms", each.extra_ms, around(each.extra_ms, each.extra_ms_half)),
            **interval_cells("share", each.share, around(each.share, each.share_half)),
            "distinct": each.distinct,
            "marks": ", ".join(
                said
                for said, true in (
                    ("not significant", abs(each.extra) <= each.extra_half),
                    ("texts recur", not each.distinct),
                )
                if true
            )
            or None,
        }
        for each in distinct or several
    ]
    columns = (
        number("tenants", "tenants"),
        number("batch\nsize", "batch_size"),
        number("K", "draft_length"),
        with_interval("experts more\nthan 1 tenant", "extra", "+.2f"),
        number("by\npopularity", "extra_formula", "+.2f"),
        with_interval("ms more\na round", "extra_ms", "+.3f"),
        with_interval("cost per token,\n%", "share", "+.1f", 100),
        words("", "marks"),
    )
    notes = [
        "equal parts; the same number of requests and the same acceptance on both sides; differences are paired, and "
        "given these tenants: other tenants may differ more"
    ]
    if not distinct:
        notes.append(
            "texts recur: one tenant's batches hold texts of one cluster twice, which is part of the difference"
        )
    elif len(distinct) < len(several):
        notes.append(
            f"larger batches than {max(each.batch_size for each in distinct)} are left out: those of one tenant would "
            "hold texts of one cluster twice, and touch fewer experts for that reason alone"
        )
    return Table("tenants_mixed", "What mixing tenants in a batch costs", columns, rows, notes)
