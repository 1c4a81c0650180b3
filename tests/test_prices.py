"""A problem is laid out only where every round has a price that a round can have."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from traces_factory import trace_table

from oracle.costs import LengthCosts
from oracle.errors import InputError
from oracle.prices import LEAST_MS, MOST_MS, priced_problem
from oracle.problem import make_problem
from oracle.traces import Traces

TRACES = Traces.from_arrow(trace_table((3, 0, 4), drop=("unique_experts",)), "t.parquet")


def costs_of(beta0, alpha=(0.1,) * 3, context=(0.0,) * 3, allowed=(True,) * 3) -> LengthCosts:
    arrays = (np.array(values, np.float64) for values in (beta0, alpha, context, (0.0, 0.4, 0.8), (0.0, 0.1, 0.1)))
    return LengthCosts(*arrays, np.array(allowed))


@settings(max_examples=200, deadline=None)
@given(
    *[st.lists(st.floats(low, high), min_size=3, max_size=3) for low, high in ((-2, 2), (-0.5, 0.5), (-0.02, 0.02))],
    st.lists(st.booleans(), min_size=3, max_size=3).filter(any),
)
def test_refused_where_and_only_where_a_round_has_no_price(beta0, alpha, context, allowed) -> None:
    costs = costs_of(beta0, alpha, context, allowed)
    problem = make_problem(TRACES, 2)
    L = problem.context_len
    prices = [
        beta0[k] + (0, 0.5, 0.9)[k] + alpha[k] * problem.unique_experts[t, k] + context[k] * L[t]
        for t in range(problem.positions)
        for k in range(3)
        if allowed[k]
    ]
    if min(prices) < LEAST_MS:
        with pytest.raises(InputError, match="prices a round of k = "):
            priced_problem(TRACES, costs)
    else:
        assert np.array_equal(priced_problem(TRACES, costs).survival, problem.survival)


def test_the_message_names_the_round_and_its_parts() -> None:
    with pytest.raises(InputError) as refusal:
        priced_problem(TRACES, costs_of((5.0, 5.0, 1.3), alpha=(0.1, 0.1, -0.5), context=(0.0, 0.0, 0.0)))
    assert refusal.value.faults == (
        "t.parquet: the latency model prices a round of k = 2 at -0.3 ms (position 0 of g0: beta0 1.3 ms, experts, 5 "
        "of them -2.5 ms, context, 10 tokens 0 ms, draft and rejection 0.9 ms); a round takes at least 1e-06 and at "
        "most 1e+09 ms: fit the model on rounds like these traces, or leave this length out by --k-min or --k-max",
    )
    later = replace(TRACES, context_start=np.array([0, 0, 10]))
    with pytest.raises(InputError, match=r"position 1 of g2: .* context, 11 tokens -5 ms"):
        priced_problem(later, costs_of((5.0, 5.0, 5.0), context=(0.0, 0.0, -5 / 11), alpha=(0.1, 0.1, -0.2)))


@pytest.mark.parametrize("beta0", [MOST_MS * 2, 1e307, np.finfo(float).max])
def test_prices_beyond_any_round_are_refused(beta0: float) -> None:
    with pytest.raises(
        InputError, match=r"^t.parquet: the latency model prices a round of k = 1 at .*ms: fit the model"
    ):
        priced_problem(TRACES, costs_of((5.0, beta0, 5.0), alpha=(0.1, 1e305, 0.1)))


def test_lengths_that_may_not_be_chosen_need_no_price() -> None:
    costs = costs_of((5.0, -50.0, 5.0), allowed=(True, False, True))
    assert priced_problem(TRACES, costs).positions == 7


def test_lengths_that_the_traces_do_not_carry_are_refused() -> None:
    short = Traces.from_arrow(trace_table(K=1, drop=("experts", "new_experts")), "s.parquet")
    with pytest.raises(
        InputError, match=r"^s\.parquet: carries draft lengths up to 1 only, but k_max is 2; lower --k-max"
    ):
        priced_problem(short, costs_of((5.0, 6.0, 7.0)))
