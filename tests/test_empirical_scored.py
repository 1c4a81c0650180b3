"""A draft that scores the text alone: bounds of the overlap, and the layouts that scores come in."""

import numpy as np
import pytest
from engine_samples import make
from engine_samples.make import RECORDED
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from oracle.empirical.standalone import overlap_bounds, probabilities_of
from oracle.errors import InputError
from oracle.recorded_by.scored_text import ScoredTexts, match_of, scored

WEIGHTS = hnp.arrays(np.float64, 7, elements=st.floats(0.01, 1))


def top(distribution: np.ndarray, k: int) -> dict[int, float]:
    return {int(i): float(distribution[i]) for i in np.argsort(-distribution, kind="stable")[:k]}


@given(p=WEIGHTS, q=WEIGHTS, k=st.integers(0, 7), m=st.integers(0, 7))
def test_bounds_hold_the_overlap(p, q, k, m):
    p, q = p / p.sum(), q / q.sum()
    overlap = float(np.minimum(p, q).sum())
    low, high = overlap_bounds(top(p, k), top(q, m))
    assert 0 <= low <= overlap + 1e-12
    assert overlap - 1e-12 <= high <= 1
    if k == m == 7:
        assert (low, high) == pytest.approx((overlap, overlap))


@given(p=WEIGHTS, q=WEIGHTS, k=st.integers(1, 6))
def test_longer_lists_never_widen_the_bounds(p, q, k):
    p, q = p / p.sum(), q / q.sum()
    short, longer = overlap_bounds(top(p, k), top(q, k)), overlap_bounds(top(p, k + 1), top(q, k + 1))
    assert longer[0] >= short[0] - 1e-12
    assert longer[1] <= short[1] + 1e-12


def test_disjoint_lists():
    low, high = overlap_bounds({1: 0.6, 2: 0.4}, {3: 0.9, 4: 0.1})
    assert (low, high) == pytest.approx((0, 0))
    low, high = overlap_bounds({1: 0.6}, {2: 0.7})
    # 1 has at most 0.3 left in the draft, 2 at most 0.4 in the target; together no more than either has left
    assert (low, high) == pytest.approx((0, 0.7))


def test_probabilities():
    assert probabilities_of(np.log([0.5, 1.0]), "here").tolist() == [0.5, 1.0]
    assert probabilities_of(np.array([5e-5]), "here").tolist() == [1.0]  # rounding
    with pytest.raises(InputError, match="position 1: the log-probability is missing"):
        probabilities_of(np.array([-1, np.nan]), "here")


def test_greedy_is_whether_no_token_was_more_probable():
    for request in RECORDED:
        found = scored(make.scored_by_vllm(request), request.tokens, "here")
        values = match_of("greedy", found, None, len(request.prompt), len(request.tokens))
        expected = [
            float(request.logprob(i) >= request.logprob(i + 5))
            for i in range(len(request.prompt) + 1, len(request.prompt) + len(request.tokens))
        ]
        assert values.tolist() == expected


def test_bounds_of_recorded_scores_are_those_of_their_lists():
    request = RECORDED[2]
    draft = scored(make.scored_by_vllm(request), request.tokens, "draft")
    target = scored(make.scored_by_vllm(request, 3), request.tokens, "target")
    low, high = (
        match_of(f"overlap_{x}", draft, target, len(request.prompt), len(request.tokens)) for x in ("lower", "upper")
    )
    for t in range(request.positions):
        i = len(request.prompt) + 1 + t
        p = [np.exp(request.logprob(i + shift + 3) - 1) for shift in (0, 5)]
        q = [np.exp(request.logprob(i + shift) - 1) for shift in (0, 5)]
        assert low[t] == pytest.approx(min(p[0], q[0]) + min(p[1], q[1]), rel=1e-6)
        assert high[t] == pytest.approx(low[t] + min(1 - sum(p), 1 - sum(q)), rel=1e-5)


def test_the_texts_own_token_bounds_nothing():
    """vLLM lists it whatever its rank; tokens between it and the list can be more probable than it is."""
    entry = {
        "7": {"logprob": np.log(0.5), "rank": 1},
        "8": {"logprob": np.log(0.2), "rank": 2},
        "9": {"logprob": np.log(0.001), "rank": 40},
    }
    found = scored({"prompt_logprobs": [None, entry]}, [9], "here")
    assert found.top is not None
    assert set(found.top[1]) == {7, 8}
    assert found.logprob[1] == pytest.approx(np.log(0.001))
    assert not found.first[1]


def test_records_are_found_in_any_order(tmp_path):
    texts = ScoredTexts(make.HERE / "draft-vllm.jsonl")  # written in reverse
    for request in RECORDED:
        own = texts.of(request.name, request.tokens).logprob[len(request.prompt)]
        assert own == pytest.approx(request.logprob(len(request.prompt)) - 1)


@pytest.mark.parametrize(
    ("record", "kind", "text"),
    [
        ({"id": "x"}, "reference", "here: holds no prompt_logprobs (vLLM), meta_info.input_token_logprobs (SGLang) or"),
        (
            {"prompt_logprobs": [None, {"3": -1.0}]},
            "reference",
            "here: an entry of the log-probabilities is not as documented (TypeError: ",
        ),
        (make.scored_by_openai(RECORDED[0]), "greedy", "here: does not tell which token was the most probable; record"),
        (
            make.scored_by_openai(RECORDED[0]),
            "overlap_lower",
            "here: bounds of the overlap need the top log-probabilities",
        ),
    ],
)
def test_scores_that_do_not_tell(record, kind, text):
    request = RECORDED[0]
    with pytest.raises(InputError) as caught:
        match_of(kind, scored(record, request.tokens, "here"), None, len(request.prompt), len(request.tokens))
    assert str(caught.value).startswith(text)
