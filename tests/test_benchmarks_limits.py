"""What kernels need at least and what the machine can do: formulas counted on the kernels' own arithmetic."""

import random

import numpy as np
import pytest

from benchmarks import arithmetic, inputs, needs, routing, serving
from benchmarks.inputs import USUAL, K
from benchmarks.limits import Limits, Needs
from benchmarks.report import timed_row
from benchmarks.timing import Timing
from kernels.bellman import solve_one
from kernels.decisions import continuation_credit
from kernels.discarded import add_up_discarded
from kernels.evaluation import policy_marginal, visit_probability

N = 40


class Counted:
    """A number that counts what is done with it."""

    done = 0

    def __init__(self, value: float) -> None:
        self.value = float(value)

    def _counting(self, value: float) -> "Counted":
        Counted.done += 1
        return Counted(value)

    def __add__(self, other: object) -> "Counted":
        return self._counting(self.value + plain(other))

    def __sub__(self, other: object) -> "Counted":
        return self._counting(self.value - plain(other))

    def __mul__(self, other: object) -> "Counted":
        return self._counting(self.value * plain(other))

    def __rsub__(self, other: object) -> "Counted":
        return self._counting(plain(other) - self.value)

    def __xor__(self, other: object) -> "Counted":
        return self._counting(int(self.value) ^ int(plain(other)))

    __radd__, __rmul__ = __add__, __mul__

    def __lt__(self, other: object) -> bool:  # comparisons are counted by the formula: Python makes some twice
        return self.value < plain(other)

    def __gt__(self, other: object) -> bool:
        return self.value > plain(other)


def plain(number: object) -> float:
    return number.value if isinstance(number, Counted) else float(number)  # type: ignore[arg-type]


def counted(values: np.ndarray) -> np.ndarray:
    """An object array of numbers that count."""
    out = np.empty(values.shape, dtype=object)
    out.reshape(-1)[:] = [Counted(value) for value in np.asarray(values).reshape(-1)]
    return out


@pytest.fixture
def some():
    """A short problem as arrays that count."""
    Counted.done = 0
    problem = inputs.problem_of(1)
    first = slice(0, N)
    arrays = (problem.survival[first], problem.unique_experts[first], problem.context_len[first])
    model = inputs.costs()
    coefficients = [counted(c) for c in (model.base_ms, model.alpha_ms, model.context_ms)]
    return [counted(a) for a in arrays], coefficients


def interpreted(kernel):
    return getattr(kernel, "py_func", kernel)


def test_solving_takes_products_sums_and_one_comparison_a_length(some):
    (survival, unique, context), coefficients = some
    marginal, lengths = counted(np.zeros(N + K)), np.empty(N, np.int16)
    flat = survival.reshape(-1), unique.reshape(-1)
    interpreted(solve_one)(*flat, context, *coefficients, (0,) * (K + 1), marginal, lengths)
    assert needs.solve(K).operations == Counted.done / N + K
    assert needs.solve(K, 32).operations == 32 * needs.solve(K).operations


def test_values_of_policies_take_what_their_lengths_ask(some):
    (survival, unique, context), coefficients = some
    lengths = np.array([[random.Random(f"{t} {p}").randint(0, K) for p in range(3)] for t in range(N)], np.int16)
    marginal = counted(np.zeros((N + K, 3)))
    interpreted(policy_marginal)(lengths, survival, unique, context, *coefficients, marginal)
    assert needs.policy_marginal(K, 3, lengths.mean()).operations == pytest.approx(Counted.done / N)


def test_visits_take_two_operations_a_drafted_token_and_a_comparison(some):
    (survival, _, _), _ = some
    lengths = np.array([random.Random(t).randint(0, K) for t in range(N)], np.int16)
    visit = np.empty(N + K, dtype=object)
    interpreted(visit_probability)(lengths, survival, visit)
    assert needs.visit_probability(K, lengths.mean()).operations == pytest.approx(Counted.done / N + 1)


def test_credits_take_a_product_and_a_sum_a_token(some):
    (survival, _, _), _ = some
    interpreted(continuation_credit)(survival, counted(np.ones(N + K)), np.empty((N, K + 1), dtype=object))
    assert needs.continuation_credit(K).operations == Counted.done / N


def test_what_is_left_out_takes_seven_operations_where_something_is(some):
    visit, steps = counted(np.ones((N, 2))), counted(np.arange(K + 1.0))
    verified = np.array([[3, 4]] * N, np.int16)
    drafted = verified + np.array([1, 0], np.int16)
    tokens, ms = counted(np.zeros((2, 1, 2)))
    interpreted(add_up_discarded)(visit, verified, drafted, np.array([0, N]), steps, tokens, ms)
    # counted: two products, two sums, the difference of steps; on plain whole numbers the difference of lengths, and
    # the comparisons with k and with 0
    assert Counted.done == 5 * N
    assert needs.add_up_discarded(2, 0.5).operations * N == Counted.done + 2 * N + 2 * N


def test_bytes_are_those_of_the_arrays():
    problem = inputs.problem_of(2)
    n = problem.positions
    read = problem.survival.nbytes + problem.unique_experts.nbytes + problem.context_len.nbytes
    assert needs.solve(K).moved == (read + n * 8 + n * 2) / n
    assert needs.solve(K, 32).moved == (read + 32 * n * (8 + 2)) / n
    assert needs.policy_marginal(K, 12, 3.0).moved == (read + 12 * n * (8 + 2)) / n
    assert needs.continuation_credit(K).moved == (problem.survival.nbytes + n * 8 + n * 8 * (K + 1)) / n
    windows = routing.Windows(USUAL, 2)
    assert needs.new_experts(USUAL, K).moved == (windows.experts.nbytes + windows.new.nbytes) / n
    assert needs.unique_experts(K).moved == (windows.new.nbytes + windows.unique.nbytes) / n
    batches = serving.Batches(3, 1)
    of_ids, of_masks = (array.nbytes / len(array) for array in (batches.experts, batches.masks))
    assert needs.window_masks(USUAL, 4).moved == 4 + of_ids + of_masks
    assert needs.batch_unions(USUAL, 1).moved == 4 + of_masks


def test_word_operations_of_windows():
    # 48 layers, 8 ids: a shift and an or each; 2 words: 10 and-nots, 11 population counts, 11 additions
    assert needs.new_experts(USUAL, 10).operations == 48 * (8 * 2 + 2 * (10 + 11 + 11))
    assert needs.window_masks(USUAL, 4).operations == 48 * 4 * 8 * 2
    assert needs.batch_unions(USUAL, 17).operations == 48 * 17 * 2 * 3


def test_the_limit_is_the_longer_of_both_times():
    limits = Limits(20.0, {"floating": 40.0, "integer": 10.0})
    assert limits.least_ns(Needs(100.0, 40.0, "floating")) == {"memory": 5.0, "arithmetic": 1.0}
    assert limits.least_ns(Needs(100.0, 80.0, "integer")) == {"memory": 5.0, "arithmetic": 8.0}
    found = timed_row(
        "x", "solve", "", Timing((2e-6, 1e-6, 4e-6)), positions=100, needs=Needs(100.0, 80.0, "integer"), limits=limits
    )
    assert (found.value, found.bound_by, found.limit_ns_per_position) == (20.0, "arithmetic", 8.0)
    assert found.limit_share == pytest.approx(0.4)
    assert (found.gb_per_s, found.gop_per_s, found.bandwidth_share) == (5.0, 4.0, 0.25)


@pytest.mark.parametrize("loop", [arithmetic.multiply_and_add, arithmetic.add_and_exclude])
def test_the_loops_of_the_peak_do_as_many_operations_as_they_are_credited_with(loop):
    Counted.done = 0
    values = counted(np.arange(arithmetic._LANES))
    loop(values, 3, 5, 2)
    assert Counted.done == 2 * arithmetic._STEPS * arithmetic._LANES * 2


def test_the_loops_of_the_peak_compute_what_they_say():
    values = np.linspace(0.0, 1.0, 8)
    expected = 0.5**16 * (values - 2.0) + 2.0  # x / 2 + 1 has the fixed point 2
    arithmetic.multiply_and_add(values, 0.5, 1.0, 2)
    np.testing.assert_allclose(values, expected, rtol=1e-15)
    words = np.arange(4, dtype=np.uint64)
    once = words.copy()
    for _ in range(8):
        once = (once + np.uint64(3)) ^ np.uint64(5)
    arithmetic.add_and_exclude(words, np.uint64(3), np.uint64(5), 1)
    np.testing.assert_array_equal(words, once)
