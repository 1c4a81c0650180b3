"""The latency model: its coefficients, and the rounds behind it where they are given."""

from functools import partial

from oracle.figures import latency as figures
from oracle.figures.model_file import coefficients_of_model
from oracle.figures.residuals import NAMES, residuals_in_bins
from oracle.latency.diagnostics.doubts_about_rounds import on_drift
from oracle.latency.diagnostics.residuals import Residuals
from oracle.pages.drawn import coefficients_drawn, rounds_drawn
from oracle.pages.material import Absent, Material, Rounds
from oracle.pages.page import Figure, Section
from oracle.summaries.fit import fit_tables
from oracle.summaries.model_file import model_table
from oracle.tables import Table, number, with_interval, words


def latency(material: Material) -> Section:
    """Coefficients from the model file; with the rounds, time against U, residuals and draft times too."""
    table = model_table(material.study.model)
    rounds = material.rounds
    if isinstance(rounds, Absent):
        said = f"Points, residuals and draft times are not shown: {rounds.why}."
        return Section("The latency model", "latency", (said,), (_of_file(table),), (table,))
    return Section(
        "The latency model",
        "latency",
        (rounds.agreement, *_drift(rounds)),
        tuple(_of_rounds(rounds)),
        (table,),
        folded=tuple(fit_tables(rounds.result)),
    )


def _drift(rounds: Rounds) -> tuple[str, ...]:
    """Say what speaks against taking the rounds for independent of when they were recorded."""
    said = (spot.sentence for spot in on_drift(rounds.evidence, rounds.residuals))
    return tuple(f"Weak spot of the fit: {one}." for one in said)


def _of_file(table: Table) -> Figure:
    return Figure(
        "coefficients",
        f"Coefficients by verified positions, from the model file; bars: {table.notes[1]}. Hollow: alpha is borrowed.",
        f"beta0, alpha and c against m = {table.rows[0]['m']} … {table.rows[-1]['m']}.",
        partial(coefficients_of_model, table.rows),
        table,
    )


def _of_rounds(rounds: Rounds) -> list[Figure]:
    result, evidence, joint = rounds.result, rounds.evidence, rounds.result.joint
    n = f"n = {result.counts.verify_rounds:,} rounds, {result.counts.clusters:,} clusters"
    tables = {table.name: table for table in fit_tables(result)}
    made = [
        Figure(
            "time-by-experts",
            f"Verification time against unique experts, at most {figures.MOST_POINTS} random rounds at each m; "
            f"line: the joint fit at the mean context of that m ({n}); points are single rounds, so without intervals.",
            f"One panel for each of {len(joint.rows)} m: points of single rounds around the fitted line.",
            partial(figures.time_by_experts, evidence, joint),
            rounds_drawn(evidence, joint),
        ),
        Figure(
            "coefficients",
            "Coefficients by verified positions, joint fit and a fit for each m by itself; bars: 95 % CR3 intervals "
            f"({n}). Hollow: alpha is borrowed.",
            f"beta0, alpha and c against m = {joint.rows[0].m} … {joint.rows[-1].m}.",
            partial(figures.coefficients_by_m, result),
            coefficients_drawn(result),
        ),
    ]
    if rounds.residuals.binned:
        made.append(
            Figure(
                "residuals",
                f"Mean residuals in bins of equal size; bars: 95 % intervals, leaving out one cluster at a time ({n}).",
                "Mean residual of the fit along each variable, around a line at 0.",
                partial(residuals_in_bins, rounds.residuals),
                _bins(rounds.residuals),
            )
        )
    if result.draft.rows:
        made.append(
            Figure(
                "draft-times",
                f"Draft time by draft length: means with 95 % CR3 intervals and the straight line ({n}); right: what "
                "one more step takes.",
                f"Draft time from {result.draft.rows[0].mean_ms.value:.2f} ms at k = {result.draft.rows[0].k} to "
                f"{result.draft.rows[-1].mean_ms.value:.2f} ms at k = {result.draft.rows[-1].k}.",
                partial(figures.draft_by_length, result),
                tables["draft_times"],
            )
        )
    return made


def _bins(residuals: Residuals) -> Table:
    """The bins that the figure draws, one row a bin."""
    drawn = {each.variable: each for each in sorted(residuals.binned, key=lambda b: b.held_out)}.values()
    rows = [
        {
            "variable": NAMES.get(each.variable, each.variable),
            "residuals": "held-out" if each.held_out else "in-sample",
            "from": one.low,
            "to": one.high,
            "rounds": one.rounds,
            "clusters": one.clusters,
            "mean_ms": one.mean_ms,
            "mean_ms_low": one.mean_low_ms,
            "mean_ms_high": one.mean_high_ms,
        }
        for each in drawn
        for one in each.bins
    ]
    columns = (words("variable", "variable"), number("from", "from"), with_interval("mean ms", "mean_ms"))
    return Table("residual_bins", "Mean residuals in bins of equal size", columns, rows)
