"""Survival products given as match_probs."""

import warnings

import numpy as np
import pyarrow as pa
from test_traces_checks import LENGTHS, fault_of
from traces_factory import DENSE, rows, trace_table

from oracle.errors import InputWarning
from oracle.traces import Traces


def chains(values: np.ndarray, lengths: tuple[int, ...] = LENGTHS) -> pa.Table:
    return trace_table(lengths, drop=("match_prob", *DENSE), match_probs=rows(lengths, values.astype(np.float32)))


def test_survival_products_are_converted():
    conditional = np.array([[0.5, 0.5, 1, 0, 0.25]] * 7)
    survival = np.cumprod(conditional, axis=1)
    assert survival[0].tolist() == [0.5, 0.25, 0.25, 0, 0]
    traces = Traces.from_arrow(chains(survival), match_is="survival")
    assert traces.match_probs[0].tolist() == [0.5, 0.5, 1, 0, 0]  # 0/0 is 0
    assert Traces.from_arrow(traces.to_arrow()).match_probs.tolist() == traces.match_probs.tolist()


def test_survival_products_survive_rounding():
    conditional = np.random.default_rng(1).uniform(0.9, 1, (7, 12))
    conditional[:, 5:] = 1
    survival = np.exp(np.cumsum(np.log(conditional), axis=1)).astype(np.float32)
    found = Traces.from_arrow(chains(survival), match_is="survival").match_probs
    assert np.allclose(found, conditional, rtol=1e-6)
    assert found.max() <= 1


def test_survival_products_that_rise():
    values = np.tile([0.9, 0.5, 0.25, 0.125], (7, 1))
    values[4, 2] = 0.5001
    values[4, 3] = 0.6
    assert fault_of(chains(values), match_is="survival") == (
        "t.parquet, generation 'g2', position 1: match_probs[2] is 0.500100017 after 0.5; a survival product never "
        "rises. If these are conditional probabilities, say --match-is conditional"
    )


def test_match_is_is_one_of_those_known():
    assert fault_of(chains(np.full((7, 4), 0.5)), match_is="joint") == (
        "match_is is 'joint'; it is one of conditional, survival, or None if not said"
    )


def warnings_of(table: pa.Table, match_is: str | None) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        Traces.from_arrow(table, "t.parquet", match_is)
    assert all(issubclass(w.category, InputWarning) for w in caught)
    return [str(w.message) for w in caught]


def test_chains_that_never_rise_look_like_survival_products():
    falling = np.tile([0.9, 0.5, 0.25, 0.125], (7, 1))
    assert warnings_of(chains(falling), None) == [
        "t.parquet: match_probs never rise along any chain, so they look like survival products; --match-is survival "
        "converts them, --match-is conditional says that they are conditional"
    ]
    assert warnings_of(chains(falling), "conditional") == []
    assert warnings_of(chains(falling), "survival") == []
    rising = falling.copy()
    rising[3, 1] = 0.95
    assert warnings_of(chains(rising), None) == []
    assert warnings_of(chains(np.full((7, 4), 0.5)), None) == []  # neither rises nor falls
    assert warnings_of(chains(falling[:, :3]), None) == []  # K < 4


def test_padding_past_the_end_is_no_chain():
    padded = np.full((7, 5), 0.5)
    for i, left in enumerate((3, 2, 1, 4, 3, 2, 1)):
        padded[i, left:] = 0
    assert warnings_of(chains(padded), None) == []
    padded[0, 3] = 0.9
    padded[0, 1] = 0.4  # a fall inside; the rise at cell 3 is past the end
    padded[0, 2] = 0.4
    assert len(warnings_of(chains(padded), None)) == 1
