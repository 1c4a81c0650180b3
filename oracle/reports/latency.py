"""The report of a latency fit: one Markdown page, the tables as JSON, the figures as SVG."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from oracle.errors import printable
from oracle.figures import diagnostics as factor_figures
from oracle.figures import evidence as evidence_figures
from oracle.figures import latency as fit_figures
from oracle.figures.residuals import residuals_in_bins
from oracle.latency.diagnostics.diagnose import Diagnosis
from oracle.latency.evidence import Evidence
from oracle.latency.fit import unit_remark
from oracle.latency.tables import FitResult
from oracle.summaries import diagnostics as factor_tables
from oracle.summaries import evidence as evidence_tables
from oracle.summaries.fit import error_table, of_batch_size, tables_at_one_batch_size
from oracle.summaries.regimes import regime_tables, transfer_tables
from oracle.summaries.residuals import residual_tables
from oracle.tables import Column, Table, as_json_text, escaped, render, show, words

PAGE, VALUES = "report.md", "report.json"
# Figure -> how the names of the tables begin behind whose last it stands.
FIGURES = {
    "time-by-experts": ("latency_model",),
    "coefficients": ("latency_",),
    "draft-times": ("draft_times",),
    "factors": ("factors",),
    "standardised": ("standardised",),
    "specifications": ("ladder", "budget_forms"),
    "regimes": ("regimes_", "boundaries_"),
    "robustness": ("robustness_",),
    "residuals": ("residual_bins",),
    "columns": ("columns_",),
}
_DIGEST = 12  # hexadecimal digits of a digest that a reader compares
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Figure:
    """A figure that was written.

    Attributes
    ----------
    name
        Its file.
    kind
        A key of `FIGURES`.
    caption
        What it shows.
    of
        What it is one of where there are several, else empty: the compared column.
    """

    name: str
    kind: str
    caption: str
    of: str = ""

    def belongs_to(self, table: str) -> bool:
        """Whether it shows what a table of that name holds."""
        return table.startswith(tuple(begin + self.of for begin in FIGURES[self.kind]))


_Drawn = Callable[[str, str, Callable[[Path], Path]], Figure]  # of a kind and a caption


def report_tables(result: FitResult, diagnosis: Diagnosis) -> list[Table]:
    """All tables of a fit at one batch size: doubts about units, verdicts, then what they rest on, where possible."""
    d = diagnosis

    def one(make: Callable[[_Result], Table], of: _Result | None) -> list[Table]:
        return [] if of is None else [make(of)]

    def several(make: Callable[[_Result], list[Table]], of: _Result | None) -> list[Table]:
        return [] if of is None else make(of)

    robust = None if d.robust_at_one_m is None or d.robust_joint is None else (d.robust_at_one_m, d.robust_joint)
    fitted = tables_at_one_batch_size(result)
    verified = next((i for i, table in enumerate(fitted) if table.name == "draft_times"), len(fitted))
    return [
        *one(_unit, unit_remark(result.verify_moments, result.draft_moments, result.joint)),
        *one(evidence_tables.weak_spot_table, d.weak_spots),
        *one(factor_tables.hypothesis_table, d.hypotheses),
        _evidence(d.evidence),
        *fitted[:verified],
        error_table(result),
        *fitted[verified:],
        *one(lambda found: factor_tables.factor_table(found, d.evidence.left_out), d.factors),
        *one(factor_tables.standardised_table, d.standardised),
        *one(factor_tables.relation_table, d.relations),
        *one(factor_tables.ladder_table, d.ladder),
        *one(factor_tables.pooled_table, d.pooled),
        *one(factor_tables.budget_table, d.budget_forms),
        *several(regime_tables, d.levels),
        *several(regime_tables, d.regimes),
        *several(transfer_tables, d.transfer),
        *several(lambda pair: evidence_tables.robustness_tables(*pair), robust),
        *several(lambda found: residual_tables(found, result.counts.draft_rounds), d.residuals),
        *(table for compared in d.columns for table in evidence_tables.column_tables(compared)),
        *several(_untested, d.untested or None),
    ]


def _unit(remark: str) -> Table:
    return Table(
        "units", "Times that look as if they were not milliseconds", [words("", "what", 2000)], [{"what": remark}]
    )


def _evidence(e: Evidence) -> Table:
    """Which rounds and columns the diagnostics rest on."""
    rows = [
        ("rounds", "decode rounds with target_ms above 0", e.rounds),
        ("clusters", "clusters", len(e.clusters)),
        ("folds", "folds of whole clusters", e.folds),
        ("factors", "candidate factors", ", ".join(e.factors)),
        ("left_out", "not among the factors", "; ".join(f"{name}: {why}" for name, why in e.left_out.items()) or None),
        ("compared", "compared with unique_experts", ", ".join(e.compared) or None),
    ]

    def value(row: Mapping[str, Any]) -> str:
        return printable(row["value"], 400) if isinstance(row["value"], str) else show(row["value"])

    columns = (words("", "fact"), Column("", value, text=True))
    cells = [{"key": key, "fact": fact, "value": cell} for key, fact, cell in rows]
    return Table("evidence", "The rounds behind the diagnostics", columns, cells, e.notes)


def _untested(reasons: Mapping[str, str]) -> list[Table]:
    rows = [{"diagnostic": name, "why": why} for name, why in reasons.items()]
    columns = (words("diagnostic", "diagnostic"), words("why not", "why", most=400))
    return [Table("untested", "What could not be tested on these rounds", columns, rows)]


def write_figures(result: FitResult, diagnosis: Diagnosis, folder: Path, suffix: str = "") -> Iterator[Figure]:
    """Draw every figure that there is something to show of; `suffix` tells batch sizes apart."""

    def drawn(kind: str, caption: str, draw: Callable[[Path], Path], number: int = 0, of: str = "") -> Figure:
        name = f"{kind}-{number}" if number else kind
        return Figure(draw(folder / f"{name}{suffix}.svg").name, kind, caption, of)

    yield from _fit_figures(result, diagnosis.evidence, drawn)
    yield from _factor_figures(diagnosis, drawn)
    yield from _evidence_figures(diagnosis, result, drawn)
    for i, compared in enumerate(diagnosis.columns, 1):
        yield drawn(
            "columns",
            f"Alpha by m fitted on {printable(compared.a)} and on {printable(compared.b)}, each m by itself (intervals "
            "over all m: in the table).",
            partial(evidence_figures.columns_by_m, compared),
            i,
            compared.b,
        )


def _fit_figures(result: FitResult, evidence: Evidence, drawn: _Drawn) -> Iterator[Figure]:
    n = f"{result.counts.verify_rounds:,} rounds, {result.counts.clusters:,} clusters"
    yield drawn(
        "time-by-experts",
        "Verification time against unique experts, a sample of the rounds at each m; line: the joint fit at the mean "
        f"context of that m ({n}).",
        lambda path: fit_figures.time_by_experts(evidence, result.joint, path),
    )
    yield drawn(
        "coefficients",
        "Coefficients by verified positions, joint fit and a fit for each m by itself; bars: 95 % CR3 intervals "
        f"({n}). Hollow: alpha is borrowed.",
        lambda path: fit_figures.coefficients_by_m(result, path),
    )
    if result.draft.rows:
        yield drawn(
            "draft-times",
            "Draft time by draft length: means with 95 % CR3 intervals and the straight line; right: what one more "
            "step takes (the first time holds what every draft costs, so this begins at the second length).",
            lambda path: fit_figures.draft_by_length(result, path),
        )


def _factor_figures(d: Diagnosis, drawn: _Drawn) -> Iterator[Figure]:
    factors, standardised, ladder, forms = d.factors, d.standardised, d.ladder, d.budget_forms
    if factors is not None:
        yield drawn(
            "factors",
            "Candidate factors, held out: alone, and what they save on top of U; bars: 95 % t intervals over folds.",
            lambda path: factor_figures.factor_strengths(factors, path),
        )
    if standardised is not None:
        yield drawn(
            "standardised",
            "Standardised coefficients of U and L within each K; bars: 95 % CR3 intervals.",
            lambda path: factor_figures.standardised(standardised, path),
        )
    if ladder is not None and forms is not None:
        yield drawn(
            "specifications",
            "Left: held-out error along the ladder of specifications, 95 % t intervals over the folds. Right: error "
            "at each K, known to the model or left out of it.",
            lambda path: factor_figures.specifications(ladder, forms, path),
        )


def _evidence_figures(d: Diagnosis, result: FitResult, drawn: _Drawn) -> Iterator[Figure]:
    searches = [search for search in (d.levels, d.regimes) if search is not None]
    if searches:
        yield drawn(
            "regimes",
            "Alpha by m with the levels of the regimes found, and the share of bootstrap resamples that find each "
            "boundary; bars: 95 % CR3 intervals.",
            lambda path: evidence_figures.regimes_by_m(searches, result.joint, path),
        )
    one_m, all_m, residuals = d.robust_at_one_m, d.robust_joint, d.residuals
    if one_m is not None and all_m is not None:
        yield drawn(
            "robustness",
            "Alpha at one m and c under each check; first row: the full fit with its 95 % CR3 interval.",
            lambda path: evidence_figures.robustness_checks(one_m, all_m, path),
        )
    if residuals is not None:
        yield drawn(
            "residuals",
            "Mean residuals in bins of equal size; bars: 95 % intervals, clustered.",
            lambda path: residuals_in_bins(residuals, path),
        )


def write_report(
    folder: Path, pairs: "list[tuple[FitResult, Diagnosis]]", provenance: Mapping[str, Any] | None
) -> list[Table]:
    """Write the report of every batch size into a folder; give all tables.

    Parameters
    ----------
    folder
        An empty folder.
    pairs
        The fit and the diagnosis of each batch size.
    provenance
        Kept in `report.json`.
    """
    page = ["# Latency model: the fit and the evidence for and against it\n", *_made_of(provenance or {})]
    every: list[Table] = []
    for result, diagnosis in pairs:
        size = result.batch_size
        suffix = "" if size is None else f"-batch-{size}"
        if size is not None:
            page.append(f"# Batch size {size}\n")
        tables = report_tables(result, diagnosis)
        figures = list(write_figures(result, diagnosis, folder, suffix))
        sized = [of_batch_size(table, size) for table in tables]
        page.extend(_laid_out(tables, sized, figures))
        every += sized
    (folder / PAGE).write_text("\n".join(page), "utf-8")
    (folder / VALUES).write_text(as_json_text(every, {"provenance": provenance}), "utf-8")
    return every


def _made_of(provenance: Mapping[str, Any]) -> Iterator[str]:
    """Say in a paragraph what the page rests on."""
    if provenance:
        files = ", ".join(f"{escaped(f['name'])} (sha256 {f['sha256'][:_DIGEST]}…)" for f in provenance["inputs"])
        values = {k: ", ".join(v) if isinstance(v, list | tuple) else v for k, v in provenance["options"].items()}
        options = escaped(printable("; ".join(f"{key} {value}" for key, value in values.items()), 400))
        yield f"Made by {provenance['program']} from {files}{f'; options: {options}' if options else ''}.\n"


def _laid_out(tables: Sequence[Table], shown: Sequence[Table], figures: Sequence[Figure]) -> Iterator[str]:
    """Tables, each figure behind the last table it belongs to; `shown` are the tables as they are written."""
    behind: dict[int, list[Figure]] = {}
    for figure in figures:
        places = [i for i, table in enumerate(tables) if figure.belongs_to(table.name)]
        behind.setdefault(places[-1] if places else len(tables) - 1, []).append(figure)
    for i, table in enumerate(shown):
        yield render([table], "markdown")
        for figure in behind.get(i, ()):
            yield f"![{figure.kind.replace('-', ' ')}]({figure.name})\n\n{escaped(figure.caption)}\n"


def is_report_name(name: str) -> bool:
    """Whether a report may hold a file of that name: what an earlier one is recognised by."""
    figure = re.fullmatch(r"([a-z-]+?)(-\d+)?(-batch-\d+)?\.svg", name)
    return name in (PAGE, VALUES) or (figure is not None and figure[1] in FIGURES)
