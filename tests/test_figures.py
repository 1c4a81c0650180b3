"""Every figure: well-formed SVG, the same bytes each time, its words present, no value lost as nan."""

import functools
import warnings
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from latency_simulation import simulated

from oracle.errors import InputWarning
from oracle.figures.diagnostics import factor_strengths, specifications, standardised
from oracle.figures.evidence import columns_by_m, regimes_by_m, robustness_checks
from oracle.figures.latency import coefficients_by_m, draft_by_length, time_by_experts
from oracle.figures.residuals import residuals_in_bins
from oracle.latency.diagnostics.factors import factor_strengths as strengths_of
from oracle.latency.diagnostics.factors import standardised_by_m
from oracle.latency.diagnostics.ladder import specification_ladder
from oracle.latency.diagnostics.pooled import budget_forms
from oracle.latency.diagnostics.regimes import find_regimes
from oracle.latency.diagnostics.residuals import residual_diagnostics
from oracle.latency.diagnostics.robustness import robustness
from oracle.latency.diagnostics.weak_spots import compare_columns
from oracle.latency.evidence import gather_evidence
from oracle.latency.fit import fit_latency
from oracle.rounds import Rounds

FOLDER = Path(__file__).parents[1] / "cases" / "tiny-moe"
REFERENCE = "unique_experts_reference"
SVG = "{http://www.w3.org/2000/svg}"


@functools.cache
def figures_of(case):
    """Name -> how to draw it."""
    frame, further = CASES[case]()
    rounds = Rounds.from_pandas(frame)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputWarning)
        result = fit_latency(rounds)
    evidence = gather_evidence(rounds, further=further)
    searches = tuple(find_regimes(evidence, levels=levels, draws=50) for levels in ("line", "free"))
    robust, residuals = robustness(evidence, resamples=50), residual_diagnostics(evidence)
    strengths, rows = strengths_of(evidence), standardised_by_m(evidence)
    ladder, forms = specification_ladder(evidence), budget_forms(evidence)
    drawn = {
        "time_by_experts": lambda path: time_by_experts(evidence, result.joint, path),
        "coefficients_by_m": lambda path: coefficients_by_m(result, path),
        "draft_by_length": lambda path: draft_by_length(result, path),
        "factor_strengths": lambda path: factor_strengths(strengths, path),
        "standardised": lambda path: standardised(rows, path),
        "specifications": lambda path: specifications(ladder, forms, path),
        "regimes_by_m": lambda path: regimes_by_m(searches, result.joint, path),
        "robustness_checks": lambda path: robustness_checks(*robust, path),
        "residuals_in_bins": lambda path: residuals_in_bins(residuals, path),
    }
    if further:
        compared = compare_columns(evidence, "unique_experts", *further)
        drawn["columns_by_m"] = lambda path: columns_by_m(compared, path)
    return drawn


def strange():
    """Two K, categories with names that are hard to draw, drafts that take no time."""
    frame = simulated(rounds_per_k=80, questions=12, ks=(1, 3))
    names = np.array(["a$x^2$", "<b>&", "bell\x07", "x" * 300])
    frame["category"] = names[frame["cluster"].str[1:].astype(int) % 4]
    return frame


def some_of(name):
    frame = pd.read_parquet(FOLDER / f"{name}.parquet")
    return frame[frame["draft_length"].isin((0, 1, 4, 8))]


def one_question():
    frame = simulated(rounds_per_k=80, questions=6, ks=(1, 2, 3)).assign(cluster="q")
    return frame.assign(draft_ms=0.1 * frame["draft_length"] ** 2)


CASES = {
    "rounds": lambda: (pd.read_parquet(FOLDER / "rounds.parquet"), (REFERENCE,)),
    "rounds-batched_mm": lambda: (some_of("rounds-batched_mm"), (REFERENCE,)),
    "strange": lambda: (strange(), ()),
    "one question": lambda: (one_question(), ()),
}
SAID = {
    "time_by_experts": ("unique experts per layer, U", "verification time, ms", "m = 2: "),
    "coefficients_by_m": ("beta0, ms", "alpha, ms per expert", "c, ms per token", "verified positions, m", "joint"),
    "draft_by_length": ("draft time, ms", "time of one more draft step, ms", "draft length, k"),
    "factor_strengths": ("alone: R², held out", "on top of U: RMSE saved, ms", "unique experts", "context len"),
    "standardised": ("standardised coefficient, standard deviations", "draft length, K", "context length, L"),
    "specifications": ("MAPE held out, %", "MAPE at each K, %", "draft length, K"),
    "regimes_by_m": (
        "alpha, ms per expert",
        "% of resamples",
        "verified positions, m (a bar stands between two m; dashed: settled)",
        "beta0 linear in m: ",
        "beta0 free at every m: ",
        "alpha at m",
    ),
    "robustness_checks": ("ms per expert", "µs per token", "full fit", "Huber", "trimmed", "second half"),
    "residuals_in_bins": (
        "mean residual, ms",
        "context length, tokens",
        "residuals; rise: of a straight line",
        "rise ",
    ),
    "columns_by_m": ("verified positions, m", "alpha, ms per unit of the column", "fitted on unique_experts"),
}


def words_of(path):
    return "\n".join("".join(text.itertext()) for text in ET.parse(path).getroot().iter(f"{SVG}text"))


@pytest.mark.parametrize("case", list(CASES))
def test_every_figure_is_well_formed_and_labelled(case, tmp_path):
    for name, draw in figures_of(case).items():
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            once = draw(tmp_path / f"{name}.svg")
        assert ET.parse(once).getroot().tag == f"{SVG}svg"
        text = once.read_text("utf-8")
        assert "nan" not in text.lower(), (case, name)
        assert "<dc:date>" not in text
        shown = words_of(once)
        for word in SAID[name]:
            assert word in shown, (case, name, word)
        assert not {"s-", "o-", "^--"} & set(shown.split("\n")), (case, name)  # a format drawn as if it were a value


def test_the_same_results_give_the_same_bytes(tmp_path):
    for name, draw in figures_of("strange").items():
        once, again = draw(tmp_path / "once.svg"), draw(tmp_path / "again.svg")
        assert once.read_bytes() == again.read_bytes(), name
    draw = figures_of("rounds")["columns_by_m"]
    assert draw(tmp_path / "once.svg").read_bytes() == draw(tmp_path / "again.svg").read_bytes()


def words_in(case, name, tmp_path):
    return words_of(figures_of(case)[name](tmp_path / "figure.svg"))


def test_no_figure_of_the_package_is_left_out():
    from oracle.figures import diagnostics, evidence, latency, residuals  # noqa: PLC0415

    found = {
        name
        for module in (diagnostics, evidence, latency, residuals)
        for name, value in vars(module).items()
        if getattr(value, "__module__", "") == module.__name__ and "path" in getattr(value, "__annotations__", {})
    }
    assert found == set(SAID)


def test_figures_say_whether_regimes_were_found(tmp_path):
    shown = words_in("rounds", "regimes_by_m", tmp_path)
    assert "beta0 linear in m: no regimes found" in shown
    assert "beta0 free at every m: one regime" in shown
    assert "no boundary" in shown
    assert "borrowed alpha" in shown
    one = words_in("one question", "regimes_by_m", tmp_path)
    assert "no search: too few folds" in one


def test_names_from_files_are_drawn_as_they_are_and_cut(tmp_path):
    shown = words_in("strange", "robustness_checks", tmp_path)
    assert "without a$x^2$" in shown
    assert "without <b>&" in shown
    assert r"without bell\x07" in shown
    assert f"without {'x' * 27}…" in shown
