"""What is shown of recorded traffic in batches: unique experts, measured and by formula, and tenants mixed."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from oracle.crossover.formulas import uniform_unique_experts
from oracle.crossover.jackknife import half_widths
from oracle.crossover.mixing import MixingCost, measured_and_beyond
from oracle.crossover.study import Studied
from oracle.summaries.crossover_sizes import around
from oracle.summaries.shares import part
from oracle.tables import Table, interval_cells, number, with_interval, words


def traffic_tables(studied: Studied) -> list[Table]:
    """Show the unique experts that were measured, and what mixing tenants costs."""
    found = [unique_table(studied)]
    if studied.mixing:
        lengths = studied.shown_lengths[:2]
        found.append(mixing_table(studied.mixing, lengths))
        if measured_and_beyond(studied.mixing, lengths)[1]:
            found.append(formula_table(studied.mixing, lengths))
    return found


def _make(tenants: int) -> str:
    return "at random" if not tenants else "1 tenant" if tenants == 1 else f"{tenants} tenants"


def unique_table(studied: Studied) -> Table:
    """Show unique experts of batches, measured and by the two formulas."""
    rows: list[Mapping[str, Any]] = []
    for make, each in studied.experts.items():
        half = half_widths(each.left_out)
        for i, B in enumerate(studied.shown):
            if make > B:
                continue
            for k in studied.shown_lengths:
                mean = float(each.mean[B - 1, k])
                uniform = float(uniform_unique_experts(B * (k + 1), studied.num_experts, studied.top_k))
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
    measured, beyond = measured_and_beyond(mixing, lengths)
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
        for each in measured
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
    if not all(each.distinct for each in measured):
        notes.append(
            "texts recur: one tenant's batches hold texts of one cluster twice, which is part of the difference"
        )
    elif beyond:
        notes.append(
            f"larger batches than {max(each.batch_size for each in measured)} are left out: those of one tenant would "
            "hold texts of one cluster twice, and touch fewer experts for that reason alone"
        )
    return Table("tenants_mixed", "What mixing tenants in a batch costs", columns, rows, notes)


def formula_table(mixing: Sequence[MixingCost], lengths: Sequence[int]) -> Table:
    """Show what more tenants would cost in larger batches than could be measured, by the popularity formula."""
    measured, beyond = measured_and_beyond(mixing, lengths)
    rows = [
        {
            "tenants": each.tenants,
            "batch_size": each.batch_size,
            "draft_length": each.draft_length,
            "experts": each.popularity,
            "extra_formula": each.extra_formula,
            "share_formula": each.share_formula,
        }
        for each in beyond
    ]
    columns = (
        number("tenants", "tenants"),
        number("batch\nsize", "batch_size"),
        number("K", "draft_length"),
        number("experts\nby formula", "experts", ".2f"),
        number("more than\n1 tenant", "extra_formula", "+.2f"),
        part("cost per token,\n%", "share_formula", "+.1f", 100),
    )
    notes = (
        "a formula, not measured: every token independent, experts by their popularity with each tenant; equal parts",
        f"{_held_against(measured, lengths)}; prices as in the table of batch sizes",
    )
    title = "What mixing tenants would cost in larger batches, by formula"
    return Table("tenants_formula", title, columns, rows, notes)


def _held_against(measured: Sequence[MixingCost], lengths: Sequence[int]) -> str:
    """Say what the formula makes of the further experts that were measured."""
    said = []
    for k in lengths:
        of_k = [each for each in measured if each.draft_length == k]
        more = sum(each.extra for each in of_k)
        if more > 0:
            said.append(f"{sum(each.extra_formula for each in of_k) / more:.2f} times (K = {k})")
    most = max((each.batch_size for each in measured), default=0)
    if not said:
        return "where batches were measured too, they show no further experts"
    return f"up to batch size {most}, where both are known, it says {' and '.join(said)} the further experts measured"


def unions_said(studied: Studied) -> str:
    """Say what was measured beside the uniform formula: one request that drafts most, and a larger batch."""
    whoever, lengths = studied.experts[0], studied.shown_lengths
    sizes = [size for size in studied.shown if size <= whoever.distinct_to]
    said = []
    cells = [(1, lengths[-1]), (sizes[-1], lengths[0]), (sizes[-1], lengths[min(1, len(lengths) - 1)])]
    for B, k in dict.fromkeys(cells):
        uniform = float(uniform_unique_experts(B * (k + 1), studied.num_experts, studied.top_k))
        said.append(f"batch size {B:,} at K = {k}: {float(whoever.mean[B - 1, k]):.1f}, by formula {uniform:.1f}")
    return f"unique experts a layer, measured and by the uniform formula: {'; '.join(said)}"


def mixing_said(studied: Studied) -> str:
    """Say what most tenants in the largest batch that was measured cost over one; "" where there is nothing to mix."""
    length = studied.shown_lengths[min(1, len(studied.shown_lengths) - 1)]
    measured, _ = measured_and_beyond(studied.mixing, [length])
    measured = [each for each in measured if np.isfinite(each.share)]  # NaN: no price there
    if not measured:
        return ""
    most = max(measured, key=lambda each: (each.tenants, each.batch_size))
    cost = around(100 * most.share, 100 * most.share_half)
    interval = "" if cost is None else f" [{cost.low:+.1f}; {cost.high:+.1f}]"
    unsure = ", not significant" if cost is not None and cost.low <= 0 <= cost.high else ""
    return (
        f"{most.tenants} tenants in a batch of {most.batch_size:,} touch {most.extra:+.2f} experts a layer over one "
        f"tenant at K = {length}, and a token costs {100 * most.share:+.1f}{interval} %{unsure}; the popularity "
        f"formula says {most.extra_formula:+.2f} experts"
    )
