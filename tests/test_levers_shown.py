"""Tables beside the page of serving levers: break-evens by batch, chains, the intervals of a fitted overhead."""

import json

import numpy as np
import pytest
import statsmodels.api as sm
from levers_strategies import LEVERS, example
from test_cli import succeeded

from oracle.levers.fitted import Measured, fit_overhead
from oracle.levers.measured_file import measured_from_text

DEPLOYMENT, AGENT = LEVERS / "deployment.toml", LEVERS / "coding-agent.toml"
D = example()


@pytest.fixture(scope="module")
def shown():
    said = succeeded("levers", DEPLOYMENT, "--traffic", AGENT, "--measured", LEVERS / "measured.csv", "--json")
    return json.loads(said)["tables"]


@pytest.fixture(scope="module")
def stated():
    return json.loads(succeeded("levers", DEPLOYMENT, "--traffic", AGENT, "--json"))["tables"]


def test_break_evens_by_batch_hold_the_published_ones(stated):
    rows = {row["batch"]: row for row in stated["levers_by_batch"]["rows"]}
    assert [B for B, row in rows.items() if row["here"]] == [24]
    assert list(rows)[-3:] == [337, 412, 449]
    for B, name, printed in ((32, "FP16", 0.06), (32, "NVFP4", 0.14), (256, "FP16", 0.29), (256, "NVFP4", 0.45)):
        assert round(rows[B][f"repetitiveness_needed_{name}"], 2) == printed
    assert rows[449]["repetitiveness_needed_FP16"] is None  # more than fits
    share = [rows[B]["prefix_share_needed_NVFP4"] for B in (32, 256)]
    assert share[1] == pytest.approx(8 * share[0])
    page = succeeded("levers", DEPLOYMENT, "--traffic", AGENT)
    assert "   449      –      –  0.618  0.613\n" in page


def test_a_rise_that_cannot_be_seen_is_said_to_be_small(stated):
    rows = {(row["reading"], row["precision"]): row for row in stated["levers_autocorrelation"]["rows"]}
    assert rows["renewal", "FP16"]["shown"] == "rises by under 0.001"
    assert rows["renewal", "NVFP4"]["shown"] == "rises"
    assert rows["stationary", "FP16"]["shown"] == "falls"


def test_intervals_of_the_overhead_are_those_of_least_squares(shown):
    rows = measured_from_text((LEVERS / "measured.csv").read_text("utf-8"), "m.csv")
    x = [D.read_ms_per_byte * D.named(r.precision).bytes_per_parameter * r.batch_size for r in rows]
    (host, slope) = sm.OLS([r.step_on_ms - r.step_off_ms for r in rows], sm.add_constant(x)).fit().conf_int()
    found = fit_overhead(D, rows)
    assert found.host_interval == pytest.approx(tuple(host))
    assert found.verify_interval == pytest.approx((1 / slope[1], 1 / slope[0]))
    (row,) = shown["levers_overhead"]["rows"]
    assert (row["round_host_ms_low"], row["verify_batch_high"]) == (found.host_interval[0], found.verify_interval[1])


def test_two_measurements_give_no_interval_and_noise_an_open_one():
    def timed(*added):
        return [
            Measured("FP16", B, step_off_ms=7.0, step_on_ms=7.0 + each)
            for B, each in zip((32, 64, 96), added, strict=False)
        ]

    assert fit_overhead(D, timed(0.5, 0.9)).host_interval is None
    wide = fit_overhead(D, timed(0.5, 1.4, 0.9))
    assert wide.verify_interval[1] == np.inf
    assert wide.host_interval[0] == 0.0
