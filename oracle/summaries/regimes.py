"""What is shown of regimes of m, and of predictions from one m to another."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from oracle.latency.diagnostics.regime_tables import Boundary, NumberRow, Regimes
from oracle.latency.diagnostics.transfer_tables import ENOUGH, Mape, Transfer
from oracle.summaries.diagnostics import OVER_FOLDS, estimate_cells, folds_cells
from oracle.tables import NOT_AVAILABLE, Column, Row, Table, interval_cells, number, show, with_interval, words

FORMS = {"line": "beta0 linear in m inside a regime", "free": "beta0 free at every m"}


def regime_tables(found: Regimes) -> list[Table]:
    """How many regimes, their coefficients (if any are found), and (where there are several) where one may end."""
    tables = [_numbers(found)]
    if found.regimes:
        tables.append(_coefficients(found))
    several = found.number is not None and found.number > 1
    return [*tables, _boundaries(found)] if several and found.boundaries else tables


def transfer_tables(result: Transfer) -> list[Table]:
    """Predictions of each m from others, and of a regime from a few of its m (where it has three or more)."""
    return [_predictions(result), *([_anchors(result)] if result.anchors else [])]


def m_text(ms: Sequence[int]) -> str:
    """Write some m, whole stretches as a range: 2–4, 6."""
    parts: list[list[int]] = [[ms[0], ms[0]]] if ms else []
    for before, m in pairwise(ms):
        if m == before + 1:
            parts[-1][1] = m
        else:
            parts.append([m, m])
    return ", ".join(str(a) if a == b else f"{a}–{b}" for a, b in parts)


def yes_no(head: str, key: str) -> Column:
    """Give a column of truths; a dash where there is none."""
    return Column(head, lambda row: NOT_AVAILABLE if row[key] is None else "yes" if row[key] else "no", text=True)


def _partition_text(row: Row) -> str:
    return " | ".join(m_text(run) for run in row["partition"])


def _with_error(head: str, key: str) -> Column:
    """Give a column of numbers with their standard error."""

    def cell(row: Row) -> str:
        error = row[f"{key}_error"]
        return show(row[key], ".2g") + ("" if error is None else f" ± {show(error, '.2g')}")

    return Column(head, cell)


def _numbers(found: Regimes) -> Table:
    rows = [_number_row(found, row) for row in found.by_number]
    columns = (
        number("regimes", "regimes"),
        Column("best partition of m", _partition_text, text=True),
        number("in-sample\nRMSE ms", "rmse_ms", ".4f"),
        with_interval("held-out RMSE ms", "held_out_rmse_ms", ".4f"),
        _with_error("over the best ms", "excess_ms"),
        with_interval("held-out MAPE %", "held_out_mape_percent", ".2f"),
        number("folds that\nfind it %", "share_of_folds", ".0f", 100),
        number("resamples that\nfind it %", "share_of_resamples", ".0f", 100),
        number("resamples that choose\nthis number %", "share_chosen", ".0f", 100),
        words("choice", "choice"),
    )
    notes = [
        *found.said,
        "choice: the fewest regimes whose held-out RMSE is within one standard error of the best (over the best ± "
        "error, paired by fold); boundaries are searched anew in every training fold and resample",
        f"{found.folds} folds and {found.resamples:,} resamples of clusters hold every m; "
        f"{found.resamples_with_folds:,} resamples hold every m in every fold",
        OVER_FOLDS,
        *(f"m = {m}: left out, {why}" for m, why in found.left_out.items()),
    ]
    title = f"Regimes: how many, with {FORMS[found.levels]}"
    return Table(f"regimes_by_number_{found.levels}", title, columns, rows, notes)


def _number_row(found: Regimes, row: NumberRow) -> dict[str, Any]:
    rules = {"by RMSE": found.number, "by MAPE": found.number_by_mape}
    choice = ", ".join(rule for rule, chosen in rules.items() if chosen == row.regimes)
    return {
        "regimes": row.regimes,
        "partition": row.runs,
        "rmse_ms": row.rmse_ms,
        **folds_cells("held_out_rmse_ms", row.held_out_rmse_ms),
        "excess_ms": row.excess_ms,
        "excess_ms_error": row.excess_error_ms,
        **folds_cells("held_out_mape_percent", row.held_out_mape_percent),
        "share_of_folds": row.share_of_folds,
        "share_of_resamples": row.share_of_resamples,
        "share_chosen": row.share_chosen,
        "choice": choice or None,
    }


def _coefficients(found: Regimes) -> Table:
    rows = [
        {
            "m": regime.ms,
            **estimate_cells("alpha_ms_per_expert", regime.alpha_ms_per_expert),
            **estimate_cells("beta0_ms", regime.beta0_ms),
            **estimate_cells("beta0_slope_ms", regime.beta0_slope_ms),
        }
        for regime in found.regimes
    ]
    columns: tuple[Column, ...] = (
        Column("m", lambda row: m_text(row["m"]), text=True),
        with_interval("alpha ms/expert", "alpha_ms_per_expert", ".4f"),
    )
    if found.levels == "line":
        columns += (
            with_interval("beta0 ms at m = 0", "beta0_ms", ".3f"),
            with_interval("slope ms per m", "beta0_slope_ms", ".3f"),
        )
    notes = ["intervals: 95 %, CR3, with the partition taken as known (they leave out the search for it)"]
    c = found.context_ms_per_token
    if c is not None:
        around = "" if c.low is None or c.high is None else f" [{show(c.low, '.3f', 1e3)}; {show(c.high, '.3f', 1e3)}]"
        notes.append(f"one c for all: {show(c.value, '.3f', 1e3)}{around} µs per token")
    title = f"Coefficients of the regimes, with {FORMS[found.levels]}"
    return Table(f"regimes_{found.levels}", title, columns, rows, notes)


def _boundaries(found: Regimes) -> Table:
    rows = [_boundary_row(boundary) for boundary in found.boundaries]
    columns = (
        Column("between m", lambda row: f"{row['before']} and {row['after']}", text=True),
        yes_no("chosen", "chosen"),
        number("folds that\nfind it %", "share_of_folds", ".0f", 100),
        number("resamples that\nfind it %", "share_of_resamples", ".0f", 100),
        with_interval("change of alpha ms/expert", "alpha_change_ms_per_expert", "+.4f"),
        *((with_interval("step of the pass ms", "step_ms", "+.3f"),) if found.levels == "line" else ()),
        yes_no("alpha jumps", "jump"),
        yes_no("place settled", "settled"),
    )
    notes = [
        f"shares: of the best partitions into {found.number}, the number chosen above"
        + ("" if found.found else " (which makes no regimes)"),
        "settled: every fold and nine resamples in ten find it; intervals: 95 %, CR3",
    ]
    if found.levels == "line":
        notes.append("step: time at the first m after, by the coefficients after minus those before")
    title = f"Places where a regime may end, with {FORMS[found.levels]}"
    return Table(f"boundaries_{found.levels}", title, columns, rows, notes)


def _boundary_row(boundary: Boundary) -> dict[str, Any]:
    return {
        "before": boundary.before,
        "after": boundary.after,
        "chosen": boundary.chosen,
        "share_of_folds": boundary.share_of_folds,
        "share_of_resamples": boundary.share_of_resamples,
        **estimate_cells("alpha_change_ms_per_expert", boundary.alpha_change_ms_per_expert),
        **estimate_cells("step_ms", boundary.step_ms),
        "jump": boundary.jump,
        "settled": boundary.settled,
    }


def _mape_cells(key: str, error: Mape | None) -> dict[str, float | None]:
    return interval_cells(key, None if error is None else error.percent, error)


def _prediction_rows(result: Transfer) -> Iterator[dict[str, Any]]:
    for row in result.left_out:
        how = "between the others of its regime" if row.inside else "beyond the others of its regime"
        yield {
            "m": row.m,
            "from_m": row.from_ms,
            "how": how,
            **_mape_cells("mape_percent", row.error),
            **_mape_cells("own_mape_percent", row.own),
        }
    for across in result.across:
        ways = (("beta0 extended", across.extended), ("beta0 of the nearest m", across.nearest))
        for how, error in ways:
            yield {
                "m": across.m,
                "from_m": across.from_ms,
                "how": f"across a boundary, {how}",
                **_mape_cells("mape_percent", error),
                **_mape_cells("own_mape_percent", across.own),
            }


def _predictions(result: Transfer) -> Table:
    columns = (
        number("m", "m"),
        Column("predicted from m", lambda row: m_text(row["from_m"]), text=True),
        words("how", "how"),
        with_interval("MAPE %", "mape_percent", ".2f"),
        with_interval("MAPE % when fitted with it", "own_mape_percent", ".2f"),
    )
    regimes = " | ".join(m_text(run) for run in result.partition)
    notes = [
        *result.said,
        f"regimes: m = {regimes}, beta0 linear in m; intervals: 95 %, t over clusters; a dash: those m do not identify "
        "the coefficients",
    ]
    return Table("transfer", "Pricing an m from other m", columns, list(_prediction_rows(result)), notes)


def _anchors(result: Transfer) -> Table:
    picked = {"ends": "its ends, fixed beforehand", "best": "the best of so many, by hindsight"}
    rows = [
        {
            "regime": row.regime,
            "anchors": row.anchors,
            "picked": picked[row.picked],
            "worst_m": row.worst_m,
            **_mape_cells("worst_mape_percent", row.worst),
            "enough": row.enough,
        }
        for row in result.anchors
    ]
    columns = (
        Column("regime m", lambda row: m_text(row["regime"]), text=True),
        Column("timed m", lambda row: ", ".join(map(str, row["anchors"])), text=True),
        words("picked", "picked"),
        number("worst m", "worst_m"),
        with_interval("MAPE % there", "worst_mape_percent", ".2f"),
        yes_no("enough", "enough"),
    )
    notes = [f"enough: no m is off by {ENOUGH} percentage points more than by the fit of the whole regime"]
    return Table("anchors", "A regime from a few of its m, as if only those had been timed", columns, rows, notes)
