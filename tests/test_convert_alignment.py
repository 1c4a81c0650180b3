"""Rows find their positions: against a decode loop that writes routing down as engines do, and every refusal."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracle.errors import Faults, InputError
from oracle.recorded_by.alignment import (
    INFER,
    context_start_of,
    emitting_logprobs,
    emitting_rows,
    layers_seen,
    positions_of,
    routed,
    whole_rounds,
)


def decode(prompt: int, emitted: int) -> tuple[list[int], list[int], list[int]]:
    """Decode a text of tokens 0, 1, 2 …: the rows an engine keeps, and what decode rounds emit, with their context.

    A pass takes an input token, adds it to the cache, and emits the next token. A row holds the token it emits.
    """
    rows, decoded, context = [], [], []
    cache = 0
    for token in range(prompt):  # prefill; its last row emits the first new token
        rows.append(token + 1)
        cache += 1
    last = prompt
    while last < prompt + emitted - 1:  # decode: the last token is never an input
        cache += 1
        context.append(cache)
        rows.append(last + 1)
        decoded.append(last + 1)
        last += 1
    return rows, decoded, context


@given(prompt=st.integers(1, 6), emitted=st.integers(1, 8), data=st.data())
def test_rows_are_those_of_the_passes_that_emit(prompt, emitted, data):
    rows, decoded, context = decode(prompt, emitted)
    start = data.draw(st.integers(0, prompt))
    routing = np.array(rows)[start:, None, None] * np.ones((1, 2, 2), int)
    for said in (start, INFER):
        found = emitting_rows(routing, prompt, emitted, said, "here")
        assert found[:, 0, 0].tolist() == decoded
    assert positions_of(emitted) == len(decoded)
    assert [context_start_of(prompt) + t for t in range(len(decoded))] == context
    logprobs = np.arange(prompt + emitted, dtype=float)
    assert emitting_logprobs(logprobs, prompt, emitted, "here").tolist() == decoded


@pytest.mark.parametrize(
    ("rows", "start", "text"),
    [
        (
            10,
            None,
            "here: 10 rows of routing where 4 prompt and 6 emitted tokens have 9 (one fewer than tokens, from token 0 "
            "on); one more than there were passes: the last token is never an input, leave its row out",
        ),
        (
            8,
            None,
            "here: 8 rows of routing where 4 prompt and 6 emitted tokens have 9 (one fewer than tokens, from token 0 "
            "on); if the server was asked to leave prompt rows out, say from where with --routing-start",
        ),
        (
            20,
            0,
            "here: 20 rows of routing where 4 prompt and 6 emitted tokens have 9 (one fewer than tokens, from token 0 "
            "on); do the rows belong to this request?",
        ),
        (
            4,
            INFER,
            "here: routing begins at token 5 of a prompt of 4; it must begin at or before the prompt's end, or decode "
            "rows are missing or too many",
        ),
        (
            10,
            INFER,
            "here: routing begins at token -1 of a prompt of 4; it must begin at or before the prompt's end, or "
            "decode rows are missing or too many",
        ),
    ],
)
def test_rows_that_do_not_fit_are_never_shifted(rows, start, text):
    with pytest.raises(InputError) as caught:
        emitting_rows(np.zeros((rows, 1, 1), int), 4, 6, start, "here")
    assert str(caught.value) == text


def test_logprobs_that_do_not_fit():
    with pytest.raises(InputError) as caught:
        emitting_logprobs(np.zeros(9), 4, 6, "here")
    assert str(caught.value) == (
        "here: 9 log-probabilities for 4 prompt and 6 emitted tokens; there is one for each token of the text (null "
        "for the first)"
    )


def rows_of(layers: list[list[list[int]]]) -> np.ndarray:
    """(N, layers, slots) from a list a layer."""
    return np.array(layers).transpose(1, 0, 2)


def test_dense_layers_are_those_that_never_route():
    rows = rows_of([[[0, 0], [0, 0]], [[0, 1], [2, 0]], [[-1, -1], [-1, -1]], [[3, 2], [1, 0]]])
    seen = layers_seen(rows)
    assert seen.dense_layers(2) == (0, 2)
    assert seen.largest == 3
    more = layers_seen(rows_of([[[0, 0]], [[1, 0]], [[2, 1]], [[0, 0]]]))
    assert (seen | more).dense_layers(2) == (0,)  # layer 2 routed once, so it is padded where it reads -1
    assert (seen | layers_seen(rows[:0])).dense_layers(2) == (0, 2)
    assert (layers_seen(rows[:0]) | seen).dense_layers(2) == (0, 2)


def test_expert_0_throughout_may_be_a_choice_of_one():
    seen = layers_seen(rows_of([[[0], [0]], [[1], [0]]]))
    assert seen.dense_layers(1) == ()


def refused(rows: np.ndarray, dense: tuple[int, ...] = (), experts: int = 8) -> list[str]:
    faults = Faults()
    assert routed(rows, dense, experts, "here", faults) is None
    with pytest.raises(InputError) as caught:
        faults.raise_if_any()
    return list(caught.value.faults)


def test_ids_are_narrowed_and_dense_layers_left_out():
    faults = Faults()
    rows = rows_of([[[0, 0], [0, 0]], [[5, 1], [2, 7]]])
    found = routed(rows, (0,), 8, "here", faults)
    assert found.dtype == np.uint8
    assert found.tolist() == [[[5, 1]], [[2, 7]]]
    assert routed(rows, (0,), 257, "here", faults).dtype == np.uint16
    assert not faults


def test_pads_in_the_middle_are_refused():
    assert refused(rows_of([[[1, 2], [-1, -1], [3, 4]]])) == [
        "here, position 1: routing[MoE layer 0, slot 0] is -1; the row was not recorded; leave the request out"
    ]
    assert refused(rows_of([[[1, 2], [3, 4], [-1, -1]]])) == [
        "here, position 2: routing[MoE layer 0, slot 0] is -1; the last row was not recorded; leave the request out"
    ]


def test_ids_beyond_the_experts_are_refused():
    assert refused(rows_of([[[1, 2]], [[3, 8]]])) == [
        "here, position 0: routing[MoE layer 1, slot 1] is 8; ids lie in 0 … 7: is --num-experts right, and was raw "
        "int32 read in the right shape?"
    ]


def test_rows_that_were_not_recorded_read_0_twice():
    assert refused(rows_of([[[1, 2], [0, 0]]])) == [
        "here, position 1: MoE layer 0 names expert 0 more than once; a router takes each expert once: was the row "
        "recorded (it reads 0 otherwise), and is --top-k right?"
    ]


def test_rounds_make_up_the_text_or_are_not_laid_out():
    assert whole_rounds(np.array([2, 0, 3]), 8, "here")
    assert whole_rounds(np.array([2, 0, 3]), 5, "here")  # the last round ran past the end
    assert not whole_rounds(np.array([2, 0]), 8, "here")  # steps without a draft are missing
    with pytest.raises(InputError) as caught:
        whole_rounds(np.array([3, 1, 4]), 6, "here")
    assert str(caught.value) == (
        "here: the steps before the last emit 6 tokens, but decode rounds emitted 6; is the token that prefill emits "
        "counted, or an accepted count the advance already?"
    )
