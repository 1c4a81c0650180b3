"""The budget of memory: what is given is shared out in whole, in one unit, and draws and policies count."""

import pytest

from oracle.errors import InputError
from oracle.traces.budget import budget_of

LOADED, MB = 380, 1_000_000


@pytest.mark.parametrize(("threads", "given"), [(1, 400), (2, 396), (2, 450), (8, 700)])
def test_what_is_loaded_and_all_batches_are_what_was_given(threads, given):
    found = budget_of(given, threads, 10)
    assert LOADED * MB + (threads + 2) * found.working_bytes == pytest.approx(given * MB, abs=threads + 2)
    assert found.batch_bytes < found.working_bytes


def test_batches_do_not_depend_on_threads_unless_memory_is_short():
    assert budget_of(None, 1, 10) == budget_of(None, 16, 10) == budget_of(10_000, 2, 10)
    assert budget_of(None, 2, 10).working_bytes == 45 * MB


def test_draws_make_batches_smaller():
    rows = [budget_of(None, 2, 10, draws=draws).rows(100, 1_000) for draws in (0, 100, 1_000, 100_000)]
    assert rows == sorted(set(rows), reverse=True)
    each = 2 * 8 * 100_000  # V under every draw, worked out and waiting to be added up
    assert rows[-1] * each <= budget_of(None, 2, 10).working_bytes


def test_too_little_names_what_is_needed():
    with pytest.raises(InputError, match=r"^--memory is 391 MB; 1 thread needs at least 392 MB: give more, or fewer"):
        budget_of(391, 1, 10)
    assert budget_of(392, 1, 10).working_bytes == 4 * MB
