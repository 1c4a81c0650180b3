"""Draws of the cost coefficients: the covariance they come from, what is tied, and each refusal."""

import json
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from latency_simulation import simulated
from scipy import stats

from oracle.errors import InputError
from oracle.latency.draws import Draws, draws_from_file
from oracle.latency.fit import fit_latency
from oracle.latency.model import DraftLine, DraftTable, LatencyModel
from oracle.latency.refitted_draws import draws_from_rounds
from oracle.rounds import RoundFiles, Rounds

FOLDER = Path(__file__).parents[1] / "cases" / "tiny-moe"
MANY = 4000

pytestmark = pytest.mark.filterwarnings("ignore::oracle.errors.InputWarning")


@pytest.fixture(scope="module", params=["rounds", "rounds-grouped_mm"])
def recorded(request):
    files = RoundFiles(FOLDER / f"{request.param}.parquet")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return files, reread(fit_latency(files).model)


@pytest.fixture(scope="module")
def eager():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return reread(fit_latency(RoundFiles(FOLDER / "rounds.parquet")).model)


def reread(model: LatencyModel) -> LatencyModel:
    return LatencyModel.from_json(model.to_json())


def edited(model: LatencyModel, change) -> LatencyModel:
    """The model with another record of its fit."""
    fit = json.loads(json.dumps(dict(model.fit)))
    change(fit)
    return replace(model, fit=fit)


def coefficients(draws: Draws) -> np.ndarray:
    """(W, 2 M + 1): beta0, alpha, c of every draw."""
    return np.array([[*m.beta0_ms, *m.alpha_ms_per_expert, m.context_ms_per_token] for m in draws.models])


def mean_columns(model: LatencyModel) -> tuple[np.ndarray, np.ndarray]:
    rows = model.fit["per_m"]
    return tuple(np.array([row[name] for row in rows]) for name in ("mean_unique_experts", "mean_context_len"))


def test_draws_reproduce_the_covariance_of_the_file(recorded):
    """A multivariate t has covariance ν / (ν - 2) times its scale.

    Of W draws a sample covariance is off by about sqrt(2 / W) errors² at most (a little more for a t): 2.3 % at
    W = 4,000; 12 % is five times that, for the largest of 23 · 23 cells.
    """
    _, model = recorded
    drawn = coefficients(draws_from_file(model, draws=MANY, seed=3))
    record = model.fit["coefficients"]
    expected = np.array(record["covariance_cr3"]) * 38 / 36
    error = np.sqrt(np.diagonal(expected))
    assert (np.abs(np.cov(drawn.T) - expected) <= 0.12 * np.outer(error, error)).all()
    assert (np.abs(drawn.mean(axis=0) - record["values"]) <= 5 * error / np.sqrt(MANY)).all()


def test_marginals_are_those_behind_the_intervals_of_the_file(eager):
    """Kolmogorov and Smirnov against t with G - 1 = 38 degrees of freedom; a normal of that error is told apart."""
    drawn = coefficients(draws_from_file(eager, draws=MANY, seed=5))
    record = eager.fit["coefficients"]
    for i, name in enumerate(record["names"]):
        z = (drawn[:, i] - record["values"][i]) / record["error_cr3"][i]
        assert stats.kstest(z, stats.t(38).cdf).pvalue > 1e-4, name
        outside = ((drawn[:, i] < record["low"][i]) | (drawn[:, i] > record["high"][i])).mean()
        assert outside == pytest.approx(0.05, abs=5 * np.sqrt(0.05 * 0.95 / MANY)), name


def test_a_borrowed_alpha_follows_its_source_and_the_measured_sum_keeps_its_own_error(recorded):
    files, model = recorded
    U, _ = mean_columns(model)
    assert model.fit["alpha_source"][0] == "borrowed from m = 2"
    for draws in (draws_from_file(model, draws=500), draws_from_rounds(model, files, draws=500)):
        beta0, alpha = coefficients(draws)[:, :11], coefficients(draws)[:, 11:22]
        assert (alpha[:, 0] == alpha[:, 1]).all()
        measured = beta0[:, 0] + alpha[:, 0] * U[0]
        assert measured.std() < beta0[:, 0].std() / 2
        # what the file says of the sum's variance: var(b) + U² var(a) + 2 U cov(a, b)
        C = np.array(model.fit["coefficients"]["covariance_cr3"])
        error = np.sqrt(C[0, 0] + U[0] ** 2 * C[11, 11] + 2 * U[0] * C[0, 11])
        assert measured.std() == pytest.approx(error, rel=0.15)


def test_file_and_rounds_agree(recorded):
    """Spread of alpha, of the time at the mean U and L of each m, and of draft times.

    CR3 is wider than a bootstrap by a few percent and t(38) by 2.7 %; standard deviations of 2,000 draws are off by
    1.6 % each. Ratios lie between 0.99 and 1.11 here; 0.9 … 1.2 allows for both.
    """
    files, model = recorded
    one, other = draws_from_file(model, draws=2000, seed=1), draws_from_rounds(model, files, draws=2000, seed=1)
    assert (one.origin, other.origin, one.clusters, other.clusters) == ("file", "rounds", 39, 39)
    U, L = mean_columns(model)

    def spreads(draws):
        all_of = coefficients(draws)
        beta0, alpha, c = all_of[:, :11], all_of[:, 11:22], all_of[:, 22:]
        return np.concatenate(
            [
                alpha.std(axis=0),
                (beta0 + alpha * U).std(axis=0),
                (beta0 + alpha * U + c * L).std(axis=0),
                c.std(axis=0),
                np.array([m.draft.ms for m in draws.models]).std(axis=0),
            ]
        )

    ratio = spreads(one) / spreads(other)
    assert ((ratio > 0.9) & (ratio < 1.2)).all()


def test_draws_from_rounds_are_fits_of_resampled_rounds():
    """One draw by hand: the clusters as the generator names them, their rows repeated, and the fit made anew."""
    frame = simulated(120, 12, 2, (1, 2, 3))
    frame["reject_ms"] = np.where(frame["draft_length"] > 1, 0.25, 0.125)
    model = fit_latency(Rounds.from_pandas(frame), draft="line").model
    drawn = draws_from_rounds(model, Rounds.from_pandas(frame), draws=4, seed=9)
    clusters = sorted(frame["cluster"].unique())
    times = np.random.default_rng(9).multinomial(len(clusters), np.full(len(clusters), 1 / len(clusters)), 4)
    for each, counts in zip(drawn.models, times, strict=True):
        parts = [
            frame[frame["cluster"] == name].assign(cluster=f"{name}-{copy}", generation=f"{name}-{copy}")
            for name, count in zip(clusters, counts, strict=True)
            for copy in range(count)
        ]
        again = fit_latency(Rounds.from_pandas(pd.concat(parts, ignore_index=True)), draft="line").model
        for name in ("beta0_ms", "alpha_ms_per_expert", "context_ms_per_token", "reject_ms"):
            assert getattr(each, name) == pytest.approx(getattr(again, name), rel=1e-8)
        assert each.draft.ms_per_token == pytest.approx(again.draft.ms_per_token, rel=1e-8)
        assert each.draft.base_ms == pytest.approx(again.draft.base_ms, rel=1e-8)


def test_separate_fits_and_draft_lines_are_drawn_too():
    model = reread(fit_latency(Rounds.from_pandas(simulated(200, 20, 1, (1, 2, 3))), kind="separate").model)
    assert isinstance(model.draft, DraftLine)
    drawn = draws_from_file(model, draws=MANY, seed=1).models
    context = np.array([m.context_ms_per_token for m in drawn])
    record = model.fit["coefficients"]
    at = [record["names"].index(f"context_ms_per_token[{m}]") for m in (2, 3, 4)]
    assert context.std(axis=0) == pytest.approx(np.array(record["error_cr3"])[at] * np.sqrt(19 / 17), rel=0.1)
    line = np.array([(m.draft.ms_per_token, m.draft.base_ms) for m in drawn])
    expected = np.array(model.fit["draft"]["line"]["covariance_cr3"]) * 19 / 17
    error = np.sqrt(np.diagonal(expected))
    assert (np.abs(np.cov(line.T) - expected) <= 0.12 * np.outer(error, error)).all()


def test_the_same_seed_gives_the_same_draws(recorded):
    files, model = recorded
    assert draws_from_file(model, draws=7, seed=4) == draws_from_file(model, draws=7, seed=4)
    assert draws_from_file(model, draws=7, seed=4).models != draws_from_file(model, draws=7, seed=5).models
    assert draws_from_rounds(model, files, draws=7) == draws_from_rounds(model, files, draws=7)


def no_errors(fit):
    for part in (fit["coefficients"], fit["draft"]["line"]):
        part["covariance_cr3"] = [[0.0] * len(row) for row in part["covariance_cr3"]]
    for row in fit["draft"]["table"]:
        row["error_cr3"] = 0.0


def test_without_errors_every_draw_is_the_model(eager):
    sure = edited(eager, no_errors)
    for model in draws_from_file(sure, draws=3).models:
        assert replace(model, fit=None) == replace(sure, fit=None)


def test_impossible_draws_are_drawn_again_and_counted(eager):
    def wide(fit):
        for row in fit["draft"]["table"]:
            row["error_cr3"] = row["mean_ms"] / 2 if row["k"] == 1 else 0.0

    found = draws_from_file(edited(eager, wide), draws=400)
    assert len(found.models) == 400
    # P(t(38) < -2) = 0.026: about eleven of 411
    assert 1 <= found.set_aside <= 30
    assert min(m.draft.ms[0] for m in found.models) >= 0
    assert f"{found.set_aside} impossible ones drawn again" in found.said

    def wider(fit):
        for row in fit["draft"]["table"]:
            row["error_cr3"] = 100 * row["mean_ms"]

    with pytest.raises(InputError, match="of 40 draws give positive times at every m, so the errors are as large as"):
        draws_from_file(edited(eager, wider), draws=10)


def set_null(fit):
    fit["coefficients"]["covariance_cr3"][21][21] = None


def crooked(fit):
    fit["coefficients"]["covariance_cr3"][3][3] *= -1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda fit: fit.pop("coefficients"), "fit.coefficients is not in the file, so the errors of its coefficients"),
        (lambda fit: fit.pop("draft"), "fit.draft is not in the file"),
        (set_null, "fit.coefficients.covariance_cr3 has no value for alpha_ms_per_expert[11]: there is one cluster"),
        (crooked, "a covariance_cr3 of the fit is not symmetric and positive semidefinite"),
        (lambda fit: fit["coefficients"]["covariance_cr3"].pop(), "names, values and a square covariance_cr3"),
        (lambda fit: fit["coefficients"]["values"].__setitem__(2, 9.0), "but 9 in fit.coefficients: the errors there"),
        (lambda fit: fit["coefficients"]["names"].__setitem__(2, "x"), "but not kept in fit.coefficients"),
        (lambda fit: fit["alpha_source"].__setitem__(0, "\x1b[31m"), r"fit.alpha_source[0] is '\x1b[31m'; it is 'own'"),
        (lambda fit: fit.pop("alpha_source"), "fit.alpha_source does not say where each alpha comes from"),
        (lambda fit: fit["per_m"].pop(), "mean_unique_experts and mean_context_len of m = 11"),
        (lambda fit: fit["draft"]["table"][3].pop("error_cr3"), "fit.draft.table, k = 4: error_cr3 holds no error"),
        (
            lambda fit: fit["draft"]["table"][3].update(error_cr3=1e200),
            "k = 4: error_cr3 is 1e+200; an error is at most",
        ),
        (lambda fit: fit["draft"]["table"].pop(), "draft time at k = 10 is 8"),
        (lambda fit: fit["draft"]["table"][9].update(k=[10]), "draft time at k = 10 is 8"),
        (lambda fit: fit["per_m"][10].update(m={"11": 11}), "mean_unique_experts and mean_context_len of m = 11"),
        (lambda fit: fit["coefficients"].update(clusters=[1] * 23), "the fit rests on 1 cluster; errors need"),
    ],
)
def test_refusals_of_files(eager, change, said):
    with pytest.raises(InputError) as refused:
        draws_from_file(edited(eager, change))
    assert said in str(refused.value)
    assert "fit" in str(refused.value).rpartition(";")[2]


def test_a_model_typed_by_hand_has_no_errors():
    model = LatencyModel.load(FOLDER.parent / "published-a100" / "model.json")
    with pytest.raises(InputError, match=r"fit\.coefficients is not in the file.*nothing can be drawn; fit the rounds"):
        draws_from_file(model)


def test_refusals_of_rounds(eager):
    other = RoundFiles(FOLDER / "rounds-grouped_mm.parquet")
    with pytest.raises(InputError, match=r"rounds: they have beta0_ms\[1\] = .* was not fitted to these rounds"):
        draws_from_rounds(eager, other)
    with pytest.raises(InputError, match=r"they have no batch size, the latency model has batch size 4"):
        draws_from_rounds(replace(eager, batch_size=4), other)
    slower = replace(eager, draft=DraftTable(eager.draft.k, tuple(2 * ms for ms in eager.draft.ms)))
    with pytest.raises(InputError, match="they have draft time at k = 1"):
        draws_from_rounds(slower, RoundFiles(FOLDER / "rounds.parquet"))
    frame = simulated(60, 5, 0, (1, 2))
    frame["cluster"] = "one"
    with pytest.raises(InputError, match="one cluster only, so there is nothing to resample"):
        draws_from_rounds(fit_latency(Rounds.from_pandas(frame)).model, Rounds.from_pandas(frame))
    with pytest.raises(InputError, match="draws is 1; give at least 2"):
        draws_from_file(eager, draws=1)
