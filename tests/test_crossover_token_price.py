"""The price of a further token: what beta0 tells of it, how sure that is, and what is said where it tells nothing."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given, settings
from hypothesis import strategies as st
from report_traces import model as fitted
from test_crossover import linear_model

from oracle.crossover import pays
from oracle.crossover.answer import Crossover, crossover
from oracle.crossover.costs import LOWER_END, UPPER_END, Scaling
from oracle.crossover.readings import readings
from oracle.crossover.token_price import token_price
from oracle.crossover.traffic import by_formula, equal_match_lengths
from oracle.figures.crossover import curves
from oracle.latency.model import DraftLine, LatencyModel, ModelByBatchSize
from oracle.summaries.crossover import crossover_tables
from oracle.summaries.crossover_headline import engine_remarks, headline
from oracle.summaries.crossover_prices import assumptions
from oracle.summaries.crossover_texts import large_batches, reading_exits

T_975 = {4: 2.7764451051977987, 38: 2.024394163911969}  # Student's t by degrees of freedom


def of(beta0: tuple[float, ...], first_m: int = 1, **more: Any) -> LatencyModel:
    m = tuple(range(first_m, first_m + len(beta0)))
    return LatencyModel(m, beta0, (0.1,) * len(m), 0.001, DraftLine(0.3, 0.1), **more)


def answered(model: LatencyModel | ModelByBatchSize, match: float = 0.8, most: int = 64, **more: Any) -> Crossover:
    k_max = model.blocks[-1].m[-1] - 1
    traffic = by_formula(equal_match_lengths(match, k_max), 100.0, num_experts=64, top_k=4, most=most)
    return crossover(traffic, model, range(1, k_max + 1), scaling=Scaling(**more))


def test_a_line_is_told_by_least_squares_over_the_upper_half_of_m() -> None:
    base = (1.0, 9.0, 1.0, 2.0, 2.7, 3.0)
    found = token_price(of(base), 1)
    line = sm.OLS(base[3:], sm.add_constant([4, 5, 6])).fit()
    assert found.ms == pytest.approx(line.params[1], rel=1e-12)
    assert found.interval is not None
    low, high = line.conf_int()[1]
    assert (found.interval.low, found.interval.high) == pytest.approx((max(0.0, low), high), rel=1e-9)
    assert found.origin == "the slope of beta0 over m = 4 … 6"


def test_of_errors_and_scatter_the_wider_one_is_taken() -> None:
    model = fitted()
    found = token_price(model, 1)
    assert model.fit is not None
    record = model.fit["coefficients"]
    at = [record["names"].index(f"beta0_ms[{m}]") for m in range(6, 12)]
    m, base = np.arange(6.0, 12), np.array([record["values"][i] for i in at])
    weights = (m - m.mean()) / ((m - m.mean()) ** 2).sum()
    by_errors = T_975[38] * np.sqrt(weights @ np.array(record["covariance_cr3"])[np.ix_(at, at)] @ weights)
    line = sm.OLS(base, sm.add_constant(m)).fit()
    by_scatter = T_975[4] * line.bse[1]
    assert found.interval is not None
    assert found.interval.high - found.ms == pytest.approx(max(by_errors, by_scatter), rel=1e-9)
    short = {"beta0_ms": model.beta0_ms[:3], "alpha_ms_per_expert": model.alpha_ms_per_expert[:3]}
    two = replace(model, m=(1, 2, 3), fit=model.fit | {"alpha_source": model.fit["alpha_source"][:3]}, **short)
    assert token_price(two, 1).interval is not None  # of two m only errors tell
    assert token_price(replace(two, fit=None), 1).interval is None


def test_a_block_of_several_requests_adds_their_tokens_with_each_m() -> None:
    one, four = token_price(of((1.0, 2.0, 3.0, 4.0)), 1), token_price(of((1.0, 2.0, 3.0, 4.0), batch_size=4), 1)
    assert (one.ms, four.ms) == pytest.approx((1.0, 0.25))


def test_two_batch_sizes_tell_it_by_the_same_m() -> None:
    model = ModelByBatchSize([of((5.0, 6.0, 7.0), batch_size=1), of((8.0, 12.0, 7.0), batch_size=4)])
    assert [token_price(model, k).ms for k in (0, 1)] == pytest.approx([3 / 3, 6 / 6])
    assert token_price(model, 0).interval is None  # typed by hand: nothing tells the error
    flat = token_price(model, 2)
    assert flat.untold == "beta0 of the same m from batch size 1 to 4 does not rise"


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (of((1.0, 2.0)), "beta0 is known at m = 2 alone, of the upper half of m"),
        (of((1.0, 9.0, 1.0, 3.0, 2.5, 2.0)), "beta0 over m = 4 … 6 does not rise"),
        (of((7.3, 8.9, 10.5, 4.7, 4.7, 4.7, 4.7), 2), "beta0 over m = 5 … 8 does not rise"),
    ],
)
def test_where_it_cannot_be_told_nothing_is_claimed(model: LatencyModel, said: str) -> None:
    assert token_price(model, 1).untold == said
    found = answered(model, off_ms=5.0)
    rests = found.costs.further_tokens > 0
    assert rests[-1].all()
    assert np.isnan(found.speed_up[rests[:, 0]]).all()
    assert found.untold[-1]
    assert np.isnan(found.limit).all()
    assert "is not known: the price of a further token cannot be told" in large_batches(found)
    sizes = crossover_tables(found, [1, 64], assumptions(found, model))[1].rows
    assert sizes[-1]["verdict"] == "unknown: price of a further token"
    assert any(f"price of a further token: cannot be told ({said})" in each for each in assumptions(found, model))
    stated = answered(model, off_ms=5.0, token_ms=0.05)
    assert not stated.untold.any()
    assert np.isfinite(stated.limit).all()


def test_another_length_does_not_say_that_none_pays_where_one_has_no_price() -> None:
    up = np.array([[1.0, 0.9, np.nan], [1.0, 1.1, np.nan], [1.0, 0.9, 0.8]])
    untold = np.array([[False, False, True], [False, False, True], [False, False, False]])
    assert [pays.STATES[i] for i in pays.states_of(up, None, untold)] == ["unknown", "on", "off"]


def test_unknown_is_not_off() -> None:
    found = answered(of((1.0, 2.0)))
    assert (found.states[1:] == pays.UNKNOWN).all()
    assert headline(found)[-1].endswith("; batch sizes 2 … 64 are unknown, written as K = 0")
    remark = "# batch sizes 2 … 64 are unknown, written as K = 0: that is no finding that drafts do not pay there\n"
    assert remark in engine_remarks(found, [])
    tables = {table.name: table for table in crossover_tables(found, [1, 64], [])}
    rows = [(r["from"], r["to"], r["draft_length"], r["why"]) for r in tables["schedule"].rows]
    assert rows[-1] == (2, None, 0, "unknown, written as K = 0")
    assert rows[0][:2] == (1, 1)
    assert "unknown at batch sizes 2 … 64: the price of a further token cannot be told" in "".join(
        tables["crossover"].notes
    )


@settings(deadline=None, max_examples=60)
@given(st.floats(0.2, 0.95), st.integers(2, 80), st.floats(0, 0.3))
def test_its_break_even_flips_the_answer(match: float, B: int, assumed: float) -> None:
    model = of((3.0, 3.2, 3.4))
    found = answered(model, match, B, token_ms=assumed)
    most = float(found.break_evens.token_most_ms[-1])
    assert not np.isfinite(most) or found.states[-1] == (pays.ON if most > assumed else pays.OFF)
    if np.isfinite(most) and most > 1e-3:
        states = [answered(model, match, B, token_ms=most * by).states[-1] for by in (1 - 1e-6, 1 + 1e-6)]
        assert states == [pays.ON, pays.OFF]
    if most == -np.inf:
        assert answered(model, match, B, token_ms=0.0).states[-1] == pays.OFF


def test_both_ends_of_its_interval_are_answered_and_said_first() -> None:
    model = of((3.0, 3.2, 3.3, 3.7, 3.75, 4.1))
    price = token_price(model, 1)
    assert price.interval is not None
    found = answered(model, 0.45, 256)
    again = readings(found, model)
    tokens = [each for each in again if each.price == "token"]
    assert [each.end for each in tokens] == [True, True]
    for each, ms in zip(tokens, (price.interval.low, price.interval.high), strict=True):
        assert each.answer is not None
        assert np.array_equal(each.answer.speed_up, answered(model, 0.45, 256, token_ms=ms).speed_up, equal_nan=True)
    exits = [each.answer.crossings.last_exit for each in tokens if each.answer is not None]
    assert exits[0] != exits[1]
    said = next(each for each in headline(found, again) if each.startswith("the exit rests on"))
    assert f"if a further token takes {price.interval.low:.3g} ms (lower end of its interval), " in said
    assert f"if {price.interval.high:.3g} ms (upper end of its interval), " in said
    assert "# if a further token takes" in engine_remarks(found, again)
    assert not any(each.startswith("if a further token") for each in reading_exits(found, again))
    column = crossover_tables(found, [128], [], (), again)[1]
    (row,) = column.rows
    ups = sorted(float(each.answer.speed_up[127, row["best_length"]]) for each in tokens if each.answer is not None)
    assert [row["speed_up_at_ends_least"], row["speed_up_at_ends_most"]] == ups
    assert not any(each.price == "token" for each in readings(answered(model, token_ms=0.1), model))


def test_ends_are_taken_only_of_what_is_told() -> None:
    model = of((3.0, 3.2, 3.3, 3.7, 3.75, 4.1))
    price = token_price(model, 1)
    assert price.interval is not None
    ends = [answered(model, token_ms=end).costs.token_ms[0] for end in (LOWER_END, UPPER_END)]
    assert ends == [price.interval.low, price.interval.high]
    assert np.isnan(answered(of((1.0, 2.0)), token_ms=UPPER_END).costs.token_ms).all()


def test_the_shortest_drafts_and_the_best_are_drawn() -> None:
    dear = answered(of((3.0, 3.2, 3.4, 3.6, 3.8, 4.0)), 0.3)
    cheap = answered(of((3.0, 3.2, 3.4, 3.6, 3.8, 4.0)), 0.95)
    assert curves(dear) == [1, 2]
    long = int(np.bincount(cheap.best).argmax())
    assert long > 2
    assert curves(cheap) == [1, 2, long]


def test_a_tie_is_no_gain() -> None:
    found = answered(linear_model(beta0_ms=(1.0, 1.1, 1.3)), 1.0, token_ms=0.1)
    assert found.limit == pytest.approx(np.ones(3), rel=1e-9)
    assert large_batches(found).endswith("no K ≥ 1 pays: the best is as fast as K = 0, no faster")
    up = np.array([[1.0, 1 + 1e-12, 1 + 2e-12], [1.0, 1.2, 1.2 * (1 + 1e-12)]])
    assert [pays.STATES[i] for i in pays.states_of(up)] == ["off", "on"]
    assert pays.best_length(up).tolist() == [1, 1]
