"""Texts of a decision: marks against a definition, hostile and missing texts, the end of a text."""

import numpy as np
import pyarrow as pa
import pytest
from traces_factory import lists, trace_table

from oracle.panels import SIGNS, Panel, Token, make_panel, marks_of, visible
from oracle.traces import Traces


def panel(position: int = 0, K: int = 3, drop: tuple[str, ...] = (), **columns: pa.Array) -> Panel:
    table = trace_table((5,), K=K, drop=drop, **columns)
    return make_panel(
        Traces.from_arrow(table, "t"),
        position,
        K,
        title="title",
        caption="caption",
        match_prob=np.full(K, 0.5),
        new_experts=np.ones(K + 1),
        draft_length=1,
        changed_length=2,
        modal_advance=2,
    )


def ids(values: list[int]) -> pa.Array:
    return lists((5,), pa.array(values, pa.int32()))


def chains(rows: list[list[int]]) -> pa.Array:
    return lists((5,), pa.array(rows, pa.list_(pa.int32())))


def test_marks_say_where_draft_and_target_part() -> None:
    found = panel(token_id=ids([1, 2, 3, 4, 5]), draft_token_id=chains([[1, 9, 3]] * 5))
    assert found.marks == ("match", "first mismatch", "after the mismatch")
    assert [SIGNS[mark] for mark in found.marks] == ["=", "×", "·"]
    assert found.recorded_matches == 1
    assert [token.token_id for token in found.target] == [1, 2, 3, 4]


def test_a_chain_that_matches_as_far_as_the_text_reaches_is_past_its_end() -> None:
    found = panel(3, token_id=ids([1, 2, 3, 4, 5]), draft_token_id=chains([[4, 5, 6]] * 5))
    assert found.marks == ("match", "match", "past the end")
    assert [token.token_id for token in found.target] == [4, 5]
    assert [token.token_id for token in found.before] == [1, 2, 3]


def test_a_negative_id_ends_the_chain() -> None:
    found = panel(token_id=ids([1, 2, 3, 4, 5]), draft_token_id=chains([[1, -1, 3]] * 5))
    assert found.marks == ("match",)


def test_ids_decide_and_texts_where_there_are_no_ids() -> None:
    same_text = Token("\ufffd", 1), Token("\ufffd", 2)
    assert marks_of(same_text[:1], same_text[1:]) == ("first mismatch",)
    assert marks_of([Token("a", None)], [Token("a", 3)]) == ("match",)
    assert marks_of([Token("a", None)], [Token(None, 3)]) == ("unknown",)


def test_without_proposals_there_are_no_marks() -> None:
    found = panel(drop=("draft_token_id", "draft_text"))
    assert found.draft is None
    assert found.marks == ()
    assert found.recorded_matches is None


def test_without_texts_ids_are_shown() -> None:
    found = panel(2, drop=("token_text", "draft_text"), token_id=ids([1, 2, 3, 4, 5]))
    assert not found.has_text
    assert found.context == "#1 #2"
    assert [token.shown for token in found.target] == ["#3", "#4", "#5"]
    nothing = panel(2, drop=("token_text", "draft_text", "token_id", "draft_token_id"))
    assert [token.shown for token in nothing.target] == ["?", "?", "?"]


def test_byte_pieces_are_named_with_their_ids() -> None:
    texts = lists((5,), pa.array(["a", "\ufffd", "b", "c", "d"]))
    found = panel(token_text=texts, token_id=ids([1, 240, 3, 4, 5]))
    assert found.byte_pieces
    assert found.target[1].shown == "\ufffd#240"
    assert not panel().byte_pieces


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (" of", "␣of"),
        ("a b", "a b"),
        ("\n        x", "↵␣(8)x"),
        ("   ", "␣␣␣"),
        ("\t\r\x00", "⇥\\r\\x00"),
        ("\x1b[31m\u202e\u200b", "\\x1b[31m\\u202e\\u200b"),
        ("Привет 中", "Привет 中"),
        ("", ""),
    ],
)
def test_every_character_is_visible_and_does_nothing(text: str, shown: str) -> None:
    assert visible(text) == shown
    assert visible(text).isprintable()


def test_long_texts_are_cut_and_say_so() -> None:
    assert Token("x" * 50, None).cut(14) == "x" * 13 + "…"
    texts = lists((5,), pa.array(["y" * 90, "\n", "z", "a", "b"]))
    context = panel(2, token_text=texts).context
    assert len(context) == 72
    assert context.startswith("…y")
    assert context.endswith("y↵")
