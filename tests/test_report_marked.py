"""Texts of a page as markup: what is typed is code that no line ends within, numbers break before their intervals."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracle.pages.html import cells_of
from oracle.pages.marked import coded, pieces
from oracle.tables import Table, number, with_interval, words


@pytest.mark.parametrize(
    ("text", "typed"),
    [
        ("state one (--deployment FILE, its traffic with --traffic FILE)", ["--deployment FILE", "--traffic FILE"]),
        ("[assumptions] reads_grow = true counts them", ["[assumptions] reads_grow = true"]),
        ("give [[unique_experts]] as measured, or --traces of this model", ["[[unique_experts]]", "--traces"]),
        ("as draft-oracle recommend gives it; `policies` compares", ["draft-oracle recommend", "policies"]),
        ("record --match greedy", ["--match"]),
        ("off -- on, m = 4, x--y, [0.1; 0.2], 2 - 3, 0.66@keep, n = 19,746", []),
    ],
)
def test_what_is_typed_is_code(text: str, typed: list[str]) -> None:
    marked = str(coded(text))
    assert re.findall("<code>(.*?)</code>", marked) == typed
    assert re.sub("</?code>", "", marked) == text.replace("`", "")


def test_long_code_scrolls() -> None:
    assert "<code>" + "a" * 36 + "</code>" in coded("`" + "a" * 36 + "`")
    assert '<code class="long">' + "a" * 37 + "</code>" in coded("`" + "a" * 37 + "`")


@given(st.text(st.sampled_from("`<>&\"'-a_ =[]F\n"), max_size=60))
def test_whatever_a_text_holds_only_code_is_markup(text: str) -> None:
    left = re.sub('</?code( class="long")?>', "", str(coded(text)))
    assert not re.search("[<>\"']", left)
    assert re.sub("&(amp|lt|gt|#34|#39);", "", left).count("&") == 0


@given(st.text(st.sampled_from("1.2 [];/-+"), max_size=30))
def test_pieces_are_the_cell(cell: str) -> None:
    assert " ".join(pieces(cell)) == cell


def test_pieces_end_before_an_interval_and_between_readings() -> None:
    assert pieces("-0.236 [-0.368; -0.133]") == ["-0.236", "[-0.368; -0.133]"]
    assert pieces("0.349 / 0.215") == ["0.349 /", "0.215"]
    assert pieces("12 → 3") == ["12 → 3"]


def test_tables_that_compare_words_are_stacked_where_they_are_short() -> None:
    numbers = (number("x", "x"), number("y", "x"))
    row = {"a": "a", "b": "b", "x": 1.0}
    two = (words("a", "a"), words("b", "b"), *numbers)
    assert cells_of(Table("t", "T", two, [row] * 12))["stacked"]
    assert not cells_of(Table("t", "T", two, [row] * 13))["stacked"]
    assert not cells_of(Table("t", "T", (words("a", "a"), *numbers, *numbers), [row]))["stacked"]
    assert not cells_of(Table("t", "T", two[:3], [row]))["stacked"]
    interval = with_interval("x", "x")
    assert interval.show({"x": 1.0, "x_low": 0.5, "x_high": 1.5}) == "1.000 [0.500; 1.500]"
