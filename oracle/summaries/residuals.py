"""What is shown of residuals: trends, bins, spread, tails, drift, draft times."""

import math
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

from oracle.latency.diagnostics.draft_residuals import DraftResiduals
from oracle.latency.diagnostics.drift import BlockDrift
from oracle.latency.diagnostics.residual_bins import Bin, BinnedResiduals
from oracle.latency.diagnostics.residuals import Heteroscedasticity, Residuals, Tails
from oracle.latency.estimates import Estimate
from oracle.summaries.diagnostics import estimate_cells
from oracle.summaries.evidence import SIGNED
from oracle.tables import NOT_AVAILABLE, Column, Row, Table, number, show, with_interval, words

SHOWN = (0.0005, 0.005, 0.025, 0.5, 0.975, 0.995, 0.9995)  # quantiles in the table; JSON holds all
LARGE = 1000  # written out, without an exponent
NOTHING = 1e-9  # of an interval's width
UNITS = {"context_len": "token", "position": "token", "round_index": "round", "row order": "round"}

Fact = tuple[str, str, float | str | Estimate | None, str]  # key, words, value, unit


def residual_tables(residuals: Residuals, draft_rounds: int | None = None) -> list[Table]:
    """Trends, bins, spread, tails, drift and draft times, where there are such.

    Parameters
    ----------
    residuals
        Results of `residual_diagnostics`.
    draft_rounds
        Rounds behind the draft fit, to say so where the diagnostics rest on fewer; None if nobody knows.
    """
    tables = [_trends(residuals)]
    if residuals.binned:
        tables.append(_bins(best_available(residuals.binned)))
    tables += [_tails(residuals.tails), _spread(residuals.heteroscedasticity)]
    if residuals.drift is not None:
        tables.append(_drift(residuals.drift))
    return tables if residuals.draft is None else [*tables, _draft(residuals.draft, draft_rounds)]


def best_available(binned: Sequence[BinnedResiduals]) -> list[BinnedResiduals]:
    """For each variable the held-out residuals, in-sample ones where there are none."""
    return list({each.variable: each for each in sorted(binned, key=lambda b: b.held_out)}.values())


def _kind(held_out: bool) -> str:
    return "held out" if held_out else "in sample"


def _trends(residuals: Residuals) -> Table:
    rows = [
        {
            "variable": each.variable,
            "residuals": _kind(each.held_out),
            **estimate_cells("slope_ms_per_unit", each.trend.slope),
            "p": each.trend.p,
            "rise_percent": each.trend.rise_percent,
            "largest_percent": each.largest_percent,
        }
        for each in residuals.binned
    ]
    columns = (
        words("along", "variable"),
        words("residuals", "residuals"),
        Column("slope µs per unit", _slope_cell),
        number("p", "p", ".2g"),
        number("rise from 5 to 95 %,\n% of the mean time", "rise_percent", SIGNED),
        number("farthest bin,\n% of the mean time", "largest_percent", SIGNED),
    )
    units = ", ".join(f"{name}: {UNITS[name]}" for name in dict.fromkeys(r["variable"] for r in rows) if name in UNITS)
    notes = [
        f"{residuals.rounds:,} rounds, mean time {residuals.mean_target_ms:.4g} ms; p: of no slope; intervals: 95 %, "
        f"CR3{f'; units: {units}' if units else ''}",
        "in sample the fit leaves no slope along context_len; with many rounds a p says little, the size says more",
        *([f"{residuals.unpredicted:,} rounds have no held-out prediction"] if residuals.unpredicted else []),
        *residuals.notes,
    ]
    return Table("residual_trends", "Residuals of verification time: trends", columns, rows, notes)


def _slope_cell(row: Row) -> str:
    value, low, high = (row[f"slope_ms_per_unit{end}"] for end in ("", "_low", "_high"))
    if low is None or high is None:
        return show(value, ".4g", 1e3)
    if abs(value) < NOTHING * (high - low):
        value = 0.0  # what rounding leaves of a slope that least squares takes out
    return f"{show(value, '.4g', 1e3)} [{show(low, '.4g', 1e3)}; {show(high, '.4g', 1e3)}]"


def _bins(binned: Sequence[BinnedResiduals]) -> Table:
    """One line a bin, the variables side by side."""
    rows = []
    for i, bins in enumerate(zip_longest(*(each.bins for each in binned)), start=1):
        row: dict[str, Any] = {"bin": i}
        for each, one in zip(binned, bins, strict=True):
            row |= _bin_cells(each.variable, one)
        rows.append(row)
    columns: list[Column] = [number("bin", "bin")]
    for each in binned:
        columns.append(_edge(each.variable))
        columns.append(with_interval("residual ms\nthere", f"{each.variable}_mean_ms", "+.3f"))
    kinds = dict.fromkeys(_kind(each.held_out) for each in binned)
    notes = [
        f"mean residuals, {' and '.join(kinds)}; bins of about equal size by rising value (fewer where values repeat); "
        "intervals: 95 %, leaving out one cluster at a time",
        "ends at " + ", ".join(f"{each.variable} {_brief(each.bins[-1].high)}" for each in binned),
    ]
    return Table("residual_bins", "Residuals of verification time in bins", columns, rows, notes)


def _edge(variable: str) -> Column:
    return Column(f"{variable}\nfrom", lambda row: _brief(row[f"{variable}_from"]))


def _bin_cells(variable: str, one: Bin | None) -> dict[str, Any]:
    keys = ("from", "to", "rounds", "clusters", "mean_ms", "mean_ms_low", "mean_ms_high")
    values: tuple[Any, ...] = (None,) * len(keys)
    if one is not None:
        values = (one.low, one.high, one.rounds, one.clusters, one.mean_ms, one.mean_low_ms, one.mean_high_ms)
    return {f"{variable}_{key}": value for key, value in zip(keys, values, strict=True)}


def _tails(tails: Sequence[Tails]) -> Table:
    rows: list[dict[str, Any]] = [
        {
            "residuals": _kind(each.held_out),
            "rounds": each.rounds,
            "sd_ms": each.sd_ms,
            "over_1_ms_share": each.over_1_ms_share,
            "over_3_sd_share": each.over_3_sd_share,
            "robust_sd_ms": each.robust_sd_ms,
            "over_3_robust_sd_share": each.over_3_robust_sd_share,
            "largest_ms": each.largest_ms,
            "quantiles_sd": {str(p): quantile for p, quantile, _ in each.quantiles},
        }
        for each in tails
    ]
    normal = {str(p): quantile for p, _, quantile in tails[0].quantiles}
    rows.append(
        {
            "residuals": "normal distribution",
            "rounds": None,
            "sd_ms": None,
            "over_1_ms_share": None,
            "over_3_sd_share": math.erfc(3 / math.sqrt(2)),
            "robust_sd_ms": None,
            "over_3_robust_sd_share": math.erfc(3 / math.sqrt(2)),
            "largest_ms": None,
            "quantiles_sd": normal,
        }
    )
    columns = (
        words("residuals", "residuals"),
        number("rounds", "rounds"),
        number("sd ms", "sd_ms", ".4f"),
        number("over 1 ms\n%", "over_1_ms_share", ".2f", 100),
        number("over 3 sd\n%", "over_3_sd_share", ".2f", 100),
        number("robust sd\nms", "robust_sd_ms", ".4f"),
        number("over 3\nrobust sd %", "over_3_robust_sd_share", ".2f", 100),
        number("farthest\nms", "largest_ms", "+.2f"),
        *(_quantile(p) for p in SHOWN if str(p) in normal),
    )
    notes = ["quantiles in standard deviations about 0; robust sd: 1.4826 times the median absolute residual"]
    return Table("residual_tails", "Residuals of verification time: tails", columns, rows, notes)


def _quantile(probability: float) -> Column:
    head = f"quantile\n{100 * probability:g} %"
    return Column(head, lambda row: show(row["quantiles_sd"][str(probability)], "+.2f"))


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _spread(spread: Heteroscedasticity) -> Table:
    facts: list[Fact] = [
        ("lm", "Breusch–Pagan statistic (Koenker)", spread.lm, ""),
        ("degrees", "its degrees of freedom", spread.degrees, ""),
        ("p", "p that residuals spread alike everywhere", spread.p, ""),
        ("bottom_sd_ms", "sd in the fastest tenth of fitted times", spread.bottom_sd_ms, "ms"),
        ("top_sd_ms", "sd in the slowest tenth", spread.top_sd_ms, "ms"),
        ("ratio", "slowest over fastest", spread.ratio, ""),
    ]
    notes = ["the test takes rounds for independent; clustered errors allow for unequal spread; p is 0 below 1e-308"]
    return _of_facts("residual_spread", "Residuals of verification time: whether they spread alike", facts, notes)


def _drift(drift: BlockDrift) -> Table:
    facts: list[Fact] = [
        ("block", "size of a block (found)", drift.block, drift.order),
        ("blocks", "blocks", drift.blocks, ""),
        ("rounds_in_block", "rounds in a block", drift.rounds_in_block, ""),
        ("share_of_variance_percent", "residual variance common to a block", _percent(drift.share_of_variance), "%"),
        ("share_within_clusters_percent", "the same within clusters", _percent(drift.share_within_clusters), "%"),
        ("likelihood_ratio", "likelihood ratio over independent rounds", drift.likelihood_ratio, ""),
        ("sd_percent", "sd of a block's level", drift.sd_percent, "% of the time"),
        ("lowest_percent", "lowest block", drift.lowest_percent, "% of the time"),
        ("highest_percent", "highest block", drift.highest_percent, "% of the time"),
    ]
    notes = [
        "0 %: rounds recorded together are as independent as any; lowest and highest are shrunk by the noise of a "
        "block's mean",
    ]
    return _of_facts("drift", "Drift: what rounds recorded together have in common", facts, notes)


def _draft(draft: DraftResiduals, fitted: int | None) -> Table:
    a, b = (None, None) if draft.line is None else draft.line.each
    at = "" if draft.worst_k is None else f" (k = {draft.worst_k})"
    facts: list[Fact] = [
        ("rounds", "rounds with a draft time", draft.rounds, ""),
        ("zero_percent", "rounds with k ≥ 1 and draft_ms ≤ 0, left out", _percent(draft.zero_share), "%"),
        ("line_ms_per_token", "line: time of a step, a", a, "ms"),
        ("line_base_ms", "line: base, b", b, "ms"),
        ("mean_deviation_percent", "line from the means by k, mean size", draft.mean_deviation_percent, "%"),
        ("worst_deviation_percent", f"line minus mean, worst{at}", draft.worst_deviation_percent, "%"),
        ("line_r2", "R² of the line, single rounds", draft.line_r2, ""),
        ("line_medape_percent", "MedAPE held out, line", draft.line_medape_percent, "%"),
        ("table_medape_percent", "MedAPE held out, table of means", draft.table_medape_percent, "%"),
        ("sd_ms", "sd about the means", draft.sd_ms, "ms"),
        ("over_1_ms_percent", "rounds over 1 ms from their mean", _percent(draft.over_1_ms_share), "%"),
        ("over_3_sd_percent", "rounds over 3 sd from it (normal: 0.27)", _percent(draft.over_3_sd_share), "%"),
        ("curvature_ms", "curvature, coefficient of k²", draft.curvature, "ms"),
        ("shape", "shape in k", draft.shape, ""),
    ]
    notes = ["intervals: 95 %, CR3"]
    if fitted is not None and fitted != draft.rounds:
        notes.append(
            f"on {draft.rounds:,} rounds whose target_ms is above 0; the draft fit takes those without one too, "
            f"{fitted:,} in all"
        )
    return _of_facts("draft_residuals", "Draft times: the line, and what it leaves", facts, notes)


def _of_facts(name: str, title: str, facts: Sequence[Fact], notes: Sequence[str]) -> Table:
    """One fact a line."""
    rows = []
    for key, fact, value, unit in facts:
        cells: dict[str, Any] = estimate_cells("value", value if isinstance(value, Estimate) else None)
        if not isinstance(value, Estimate):
            cells["value"] = value
        rows.append({"key": key, "fact": fact, **cells, "unit": unit})
    columns = (words("", "fact"), Column("", _fact_cell, text=True), words("", "unit"))
    return Table(name, title, columns, rows, notes)


def _fact_cell(row: Row) -> str:
    value, low, high = row["value"], row["value_low"], row["value_high"]
    if isinstance(value, str):
        return value
    around = "" if low is None or high is None else f" [{_brief(low)}; {_brief(high)}]"
    return _brief(value) + around


def _brief(value: float | None) -> str:
    large = value is not None and math.isfinite(value) and abs(value) >= LARGE
    return show(value, ",.0f" if large else ".3g") if value is not None else NOT_AVAILABLE
