"""The benchmark of the fit and its diagnostics: all rows there, all rivals in agreement on all of their numbers."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from benchmarks import fitting, fitting_rivals, run
from benchmarks.fitting_parts import RESAMPLES, parts
from benchmarks.rounds_input import CATEGORIES, DRAFT_LENGTHS, REGIMES, rounds_of
from benchmarks.timing import Timing
from oracle.errors import InputError
from oracle.latency.diagnostics.regimes import find_regimes
from oracle.latency.evidence import gather_evidence
from oracle.latency.fit import fit_latency
from oracle.latency.regression import Fit

SETTING = fitting.Setting(rounds=2_000, clusters=20, repeats=1, budget_s=0.0)
MACHINE = ("read bandwidth", "peak, floating", "peak, integer")
DIAGNOSTICS = (
    "factor_strengths",
    "factor_relations",
    "standardised_by_m",
    "specification_ladder",
    "pooled_model",
    "budget_forms",
    "judge_hypotheses",
    "find_regimes",
    "transfer",
    "robustness",
    "residual_diagnostics",
    "weak_spots",
)
SUMS = ("all diagnostics", "whole report")
PARTS = {
    "joint OLS, CR1": "statsmodels",
    "GroupKFold metrics": "scikit-learn",
    "cluster bootstrap": "scikit-learn",
    "leave a cluster out": "scikit-learn",
    "leave a category out": "scikit-learn",
    "boundary search": "scikit-learn",
    "moments-based parts": "statsmodels + scikit-learn",
}
RIVALS = [f"{name} / {rival}" for name, rival in PARTS.items()]


@pytest.fixture(scope="module")
def evidence():
    return gather_evidence(rounds_of(SETTING.rounds, SETTING.clusters), folds=fitting_rivals.FOLDS)


@pytest.fixture(scope="module")
def report():
    return run.measure("smallest", only=["fit"])


@pytest.fixture
def parts_only(monkeypatch):
    """Spare a run the diagnostics."""
    monkeypatch.setattr(fitting, "_steps", lambda *_: dict.fromkeys(("gather_evidence", "robustness"), Timing((1e-3,))))


def test_every_row_is_there_once_positive_and_finite(report):
    names = [row.name for row in report.rows]
    expected = [*MACHINE, "fit_latency", "gather_evidence", *DIAGNOSTICS, *SUMS, *PARTS, *RIVALS]
    assert sorted(names) == sorted(expected)
    for row in report.rows[len(MACHINE) :]:
        assert (row.group, row.unit, row.positions) == ("fit", "s", 2_000)
        assert 0 < row.least <= row.value <= row.most < math.inf
        assert row.runs >= 1
        assert row.per_second == pytest.approx(2_000 / row.value)
        assert row.what.endswith("2,000 rounds, 20 clusters, 10 m")
    json.dumps(report.to_dict(), allow_nan=False)


def test_each_part_has_its_ratio_and_blas_its_one_thread(report):
    for name, rival in PARTS.items():
        assert list(report.row(name).ratios) == [rival]
        assert 0 < report.row(name).ratios[rival] < math.inf
    every = [row for row in report.rows[len(MACHINE) :] if row.name != RIVALS[-1]]
    assert all(row.note.endswith("BLAS threads: 1") for row in every)


def test_scaled_rivals_say_so(report):
    notes = {row.name: row.note for row in report.rows}
    assert notes["cluster bootstrap / scikit-learn"] == "3 of 999 refits timed, scaled to all; BLAS threads: 1"
    assert notes["leave a cluster out / scikit-learn"].startswith("3 of 20 refits timed, scaled to all")
    assert notes["leave a category out / scikit-learn"].startswith("3 of 14 refits timed, scaled to all")
    assert notes["GroupKFold metrics / scikit-learn"].startswith("1 of 5 folds timed, scaled to all")
    assert notes["joint OLS, CR1 / statsmodels"] == "BLAS threads: 1"


def test_sums_are_those_of_their_rows(report):
    rows = {row.name: row for row in report.rows}
    ours = sum(rows[name].value for name in list(PARTS)[:-1])
    assert rows["moments-based parts"].value > ours
    theirs = sum(rows[name].value for name in RIVALS[:-1])
    assert rows[RIVALS[-1]].value == pytest.approx(theirs)
    least = sum(rows[name].least for name in DIAGNOSTICS)
    assert least <= rows["all diagnostics"].least < rows["whole report"].least


def test_all_numbers_of_all_rivals_are_ours(evidence):
    for part in parts(evidence, refits=60, folds=fitting_rivals.FOLDS):
        assert part.timed == min(60, part.of)
        ours, theirs = part.ours(), part.theirs()
        part.compare(ours, theirs)
        pair = part.name == "joint OLS, CR1"  # coefficients and errors of the one fit
        assert (len(ours), len(theirs)) == ((2, 2) if pair else (part.of, part.timed))
        assert part.of == (RESAMPLES if part.name == "cluster bootstrap" else part.timed)
        ours = ours[: len(theirs)]
        assert (np.abs(ours - theirs) <= 1e-9 * np.maximum(np.abs(theirs), part.scale)).all()
        with pytest.raises(AssertionError, match=f"{part.name} and {part.rival} differ by [0-9.e-]+ of the value"):
            part.compare(ours + 3e-9 * np.maximum(np.abs(ours), 1), theirs)
        with pytest.raises(AssertionError, match="differ by nan"):
            part.compare(np.full_like(ours, np.nan), theirs)


def test_cr3_errors_are_those_of_the_rivals_refits(evidence):
    fit = fit_latency(rounds_of(SETTING.rounds, SETTING.clusters))
    part = next(p for p in parts(evidence, refits=99, folds=1) if p.name == "leave a cluster out")
    refits, G = part.theirs(), SETTING.clusters
    M = len(DRAFT_LENGTHS)
    alpha = fit.joint.rows[3].alpha_ms_per_expert
    moved = refits[:, M + 3] - alpha.value
    assert alpha.error_cr3 == pytest.approx(np.sqrt((G - 1) / G * moved @ moved), rel=1e-9)


def test_a_rival_that_disagrees_stops_the_run(monkeypatch, parts_only):
    exact = Fit.covariance_cr1
    monkeypatch.setattr(Fit, "covariance_cr1", lambda fit: exact(fit) * (1 + 1e-7))
    said = fitting._printed(SETTING)
    assert said == {"disagreement": "joint OLS, CR1 and statsmodels differ by 5e-08 of the value"}
    monkeypatch.setattr(fitting, "run_module", lambda *_, **__: said)
    with pytest.raises(AssertionError, match="joint OLS, CR1 and statsmodels differ by"):
        fitting.rows(SETTING)


@pytest.mark.parametrize("missing", ["statsmodels", "scikit-learn"])
def test_a_rival_that_is_not_there_says_so(monkeypatch, parts_only, missing):
    monkeypatch.setattr(fitting, "installed", lambda name: name != missing)
    rows = {row.name: row for row in fitting.measured(SETTING)}
    assert list(rows)[-14:] == [name for pair in zip(PARTS, RIVALS, strict=True) for name in pair]
    for name, rival in PARTS.items():
        theirs = rows[f"{name} / {rival}"]
        assert rows[name].value > 0
        assert (theirs.value is None) == (missing in rival)
        assert (theirs.note == "not installed") == (missing in rival)
        assert list(rows[name].ratios) == ([] if missing in rival else [rival])


def test_without_threadpoolctl_nobody_counts_the_threads(monkeypatch):
    monkeypatch.setattr(fitting, "find_spec", lambda _: None)
    assert fitting.blas_threads() == "OPENBLAS_NUM_THREADS=1, unchecked: threadpoolctl is not installed"


def test_installed_looks_for_the_module():
    assert fitting_rivals.installed("scikit-learn")
    assert fitting_rivals.installed("statsmodels")


def test_times_of_the_same_round_are_added():
    assert fitting.summed([Timing((1.0, 5.0)), Timing((2.0, 0.5))]).seconds == (3.0, 5.5)


def test_input_has_the_shape_that_is_asked_for():
    rounds = rounds_of(4_321, 30)
    assert len(rounds) == 4_321
    assert sorted(np.unique(rounds.draft_length).tolist()) == list(DRAFT_LENGTHS)
    sizes = np.bincount(rounds.draft_length)[1:]
    assert sizes.max() - sizes.min() <= 1
    cells = np.unique(np.stack([rounds.draft_length, np.asarray(rounds.cluster_codes)]), axis=1)
    assert cells.shape[1] == 30 * len(DRAFT_LENGTHS)
    assert len(rounds.category_names) == CATEGORIES
    assert (rounds.unique_experts <= 8 * (rounds.draft_length + 1)).all()
    assert (rounds.target_ms > 0).all()
    assert (rounds.draft_ms > 0).all()
    again = rounds_of(4_321, 30)
    assert rounds.table.equals(again.table)


def test_input_has_the_regimes_it_names():
    evidence = gather_evidence(rounds_of(20_000, 60))
    assert set(evidence.left_out) == set()
    assert find_regimes(evidence, draws=0).partition == REGIMES
    alpha = [row.alpha_ms_per_expert.value for row in fit_latency(rounds_of(20_000, 60)).joint.rows]
    assert alpha == pytest.approx([0.081] * 3 + [0.266] * 7, rel=0.1)


def test_the_setting_is_handed_over_as_it_is():
    setting = replace(SETTING, refits=2)
    assert fitting.Setting(**json.loads(json.dumps(setting.__dict__))) == setting
    assert setting.what == "2,000 rounds, 20 clusters, 10 m"


def test_sizes_of_the_runs():
    assert [(scale.fit_rounds, scale.fit_clusters) for scale in run.SCALES.values()] == [
        (2_000, 20),
        (100_000, 300),
        (925_752, 300),
    ]
    with pytest.raises(InputError, match="compile, path, memory, threads, cluster, fit"):
        run.measure("smallest", only=["fitting"])
