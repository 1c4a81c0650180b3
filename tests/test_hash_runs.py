"""Hashes that occurred before: against a dictionary, and in little more memory than they take themselves."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracle.hash_runs import HashRuns

HASHES = st.integers(0, 40) | st.integers(0, 40).map(lambda i: 2**64 - 1 - i) | st.integers(0, 2**64 - 1)


@given(st.lists(st.lists(HASHES, unique=True, max_size=30), max_size=20), st.booleans())
def test_what_came_first_is_what_a_dictionary_says(batches, numbered):
    runs, first = HashRuns(numbered=numbered), {}
    for number, batch in enumerate(batches):
        wanted = [(first[each] if numbered else 0) if each in first else -1 for each in batch]
        found = runs.add(np.array(batch, np.uint64), number)
        assert found.tolist() == wanted
        for each in batch:
            first.setdefault(each, number)
        assert len(runs) == len(first)


@pytest.mark.parametrize(("numbered", "each"), [(False, 8), (True, 12)])
def test_a_merge_takes_little_beside_what_is_kept(numbered, each):
    batch, batches = 1_000, 300
    rng = np.random.default_rng(5)
    given_hashes = rng.integers(0, 2**64, batch * batches, dtype=np.uint64)
    runs = HashRuns(numbered=numbered)
    tracemalloc.start()
    try:
        for i in range(batches):
            runs.add(given_hashes[i * batch : (i + 1) * batch], i)
        kept, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(runs) == batch * batches
    needed = each * batch * batches
    assert kept < 1.1 * needed
    assert most < 1.25 * needed
