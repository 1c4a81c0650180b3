"""What a model file records of its fit is read with suspicion: anyone may have edited it."""

import json
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from oracle.alpha_path.study import fitted_margin
from oracle.errors import InputError
from oracle.latency.fit import fit_latency
from oracle.latency.model import LatencyModel
from oracle.latency.recorded_errors import Spread, verify_spread
from oracle.rounds import RoundFiles
from oracle.summaries.model_file import model_table

ROUNDS = Path(__file__).parents[1] / "cases" / "tiny-moe" / "rounds.parquet"


@pytest.fixture(scope="module")
def model() -> LatencyModel:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return LatencyModel.from_json(fit_latency(RoundFiles(ROUNDS)).model.to_json())


def with_coefficients(model: LatencyModel, **columns: object) -> LatencyModel:
    fit = json.loads(json.dumps(dict(model.fit or {})))
    fit["coefficients"].update(columns)
    return replace(model, fit=fit)


def test_errors_are_the_roots_of_the_diagonal(model: LatencyModel) -> None:
    spread = verify_spread(model)
    diagonal = np.diag(spread.report @ spread.covariance @ spread.report.T)
    np.testing.assert_allclose(spread.errors(), np.sqrt(diagonal), rtol=1e-10)
    np.testing.assert_allclose(spread.root() @ spread.root().T, spread.covariance, rtol=1e-9, atol=1e-18)


@pytest.mark.parametrize(
    "matrix",
    [
        [[1.0, 2.0], [2.0, 1.0]],
        [[-1.0, 0.0], [0.0, 1.0]],
        [[1.0, 0.5], [0.1, 1.0]],
        [[1e-300, 1e300], [1e300, 1e-300]],
        [[0.0, 1.0], [1.0, 0.0]],
    ],
)
def test_what_is_no_covariance_is_refused(matrix: list[list[float]]) -> None:
    with pytest.raises(InputError, match="not symmetric and positive semidefinite"):
        Spread(np.eye(2), np.array(matrix), 5).errors()


def test_a_singular_covariance_is_one() -> None:
    spread = Spread(np.eye(3), np.array([[4.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 0.0]]), 5)
    np.testing.assert_allclose(spread.errors(), [2.0, 1.0, 0.0], atol=1e-12)


def test_a_model_with_an_impossible_covariance_is_shown_without_intervals(model: LatencyModel) -> None:
    covariance = np.array((model.fit or {})["coefficients"]["covariance_cr3"])
    covariance[3, 3] *= -1
    shown = model_table(with_coefficients(model, covariance_cr3=covariance.tolist()))
    assert "no intervals: latency model: a covariance_cr3 of the fit is not symmetric" in "\n".join(shown.notes)


def test_the_margin_of_the_fit_is_the_widest_relative_half_of_an_interval(model: LatencyModel) -> None:
    record = (model.fit or {})["coefficients"]
    rows = zip(record["names"], record["values"], record["low"], record["high"], strict=True)
    halves = [
        (high - low) / 2 / value for name, value, low, high in rows if name.startswith("alpha") and low is not None
    ]
    assert fitted_margin(model) == (pytest.approx(max(halves)),)


@pytest.mark.parametrize(
    "columns",
    [
        {"low": 3},
        {"low": None},
        {"low": ["x"] * 23},
        {"high": [[1.0]] * 23},
        {"values": [0.0] * 23},
        {"values": [1e-320] * 23, "low": [-1e300] * 23, "high": [1e300] * 23},
        {"names": {"a": 1}},
    ],
)
def test_a_record_that_tells_no_interval_gives_no_margin(model: LatencyModel, columns: dict[str, object]) -> None:
    assert fitted_margin(with_coefficients(model, **columns)) == ()
