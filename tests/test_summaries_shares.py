"""Shares that are shown: nothing is called none or all that is not."""

import doctest

import pytest

from oracle.summaries import shares
from oracle.summaries.shares import part, percent


def test_the_examples_of_the_docstrings():
    assert doctest.testmod(shares).failed == 0


@pytest.mark.parametrize(
    ("spec", "scale", "value", "shown"),
    [
        (".1f", 100, 0.0, "0.0"),
        (".1f", 100, 1e-15, "0.0"),  # a rounding error of the arithmetic
        (".1f", 100, 0.0003, "<0.1"),
        ("+.1f", 100, -0.0003, ">-0.1"),
        (".2f", 100, 0.0003, "0.03"),
        (".1f", 100, 0.99999, ">99.9"),
        (".1f", 100, 1.0, "100.0"),
        (".1f", 100, 1.0001, "100.0"),
        (".2f", 1, 0.001, "<0.01"),
        (".2f", 1, None, "–"),
        ("+.1f", 100, 0.101, "+10.1"),
    ],
)
def test_cells(spec, scale, value, shown):
    assert part("", "x", spec, scale).show({"x": value}) == shown


@pytest.mark.parametrize(("share", "said"), [(-2e-6, "less, under 0.01 %"), (1e-14, "0 %"), (1.0, "100 %")])
def test_percentages(share, said):
    assert percent(share) == said
