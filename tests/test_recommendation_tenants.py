"""Acceptance measured while tenants share batches, beside the mix calculated from each alone."""

import math

import numpy as np
import pytest

from oracle.acceptance import Acceptance, Curve
from oracle.acceptance.curves import counted
from oracle.errors import InputError
from oracle.intervals import Interval
from oracle.recommendation.answers import Against
from oracle.recommendation.tenants import mixings, notes_on_mixing
from oracle.summaries.tenants import mixing_table
from oracle.tables import render


def curve(tenant: str | None, rates: list[float], rounds: float | None) -> Curve:
    return counted(np.array(rates), len(rates), tenant, rounds)


CODE, CHAT = curve("code", [0.9, 0.8], 800), curve("chat", [0.6, 0.3], 500)
APART = Acceptance((CODE, CHAT))


@pytest.mark.parametrize(
    ("against", "word"),
    [
        (Against(0.10, Interval(0.05, 0.15), 0.02), "faster"),
        (Against(-0.10, Interval(-0.15, -0.05), 0.02), "slower"),
        (Against(0.10, Interval(-0.05, 0.25), 0.02), "not significant"),
        (Against(0.01, Interval(0.005, 0.015), 0.02), "tie"),  # real, and worth nothing
        (Against(-0.01, Interval(-0.05, 0.03), 0.02), "tie, not significant"),
        (Against(0.0, Interval(0.0, 0.0), 0.0), "tie, not significant"),
        (Against(0.10, None, 0.02), "no interval"),
        (Against(0.02, None, 0.02), "tie"),
        (Against(0.10, Interval(0.05, 0.15), 0.02, 10), "faster"),
        (Against(0.10, Interval(0.05, 0.15), 0.02, 9), "few clusters"),
        (Against(0.10, None, 0.02, 1), "few clusters"),
        (Against(0.10, None, 0.02, 0), "no interval"),  # averages
        (Against(0.01, Interval(0.005, 0.015), 0.02, 9), "tie, few clusters"),
    ],
)
def test_two_notions_of_no_difference(against: Against, word: str) -> None:
    assert against.verdict("faster", "slower") == word
    turned = against.reversed
    assert (1 + turned.share) * (1 + against.share) == pytest.approx(1)
    if against.interval and turned.interval:
        assert turned.interval.low <= turned.share <= turned.interval.high
    assert turned.doubt == against.doubt


def test_the_whole_mix_against_the_calculated_one() -> None:
    measured = curve(None, [0.69, 0.475], 900)
    found, whole = mixings(APART, Acceptance((measured,)), {"code": 3, "chat": 1})
    assert whole.curves == (measured,)
    assert [(each.tenant, each.draft_length) for each in found] == [(None, 2)]
    apart = (3 * 2.7 + 1.9) / 4
    assert found[0].apart == pytest.approx(apart)
    assert found[0].change.share == pytest.approx(2.165 / apart - 1)

    def variance(rates: list[float], rounds: int) -> float:
        accepted = sum(rates)
        return (sum((2 * j + 1) * s for j, s in enumerate(rates)) - accepted**2) / rounds

    error = math.sqrt(
        9 / 16 * variance([0.9, 0.8], 800) + 1 / 16 * variance([0.6, 0.3], 500) + variance([0.69, 0.475], 900)
    )
    around = found[0].change.interval
    assert around is not None
    assert around.high - around.low == pytest.approx(2 * 1.959963984540054 * error / apart)
    assert "at K = 2 the mix emits 13.4 % less a round" in notes_on_mixing(found)[1]


def test_by_tenant_and_their_mix() -> None:
    together = Acceptance((curve("chat", [0.5, 0.2], 500), curve("code", [0.9, 0.8], 800)))
    found, whole = mixings(APART, together, {"code": 1, "chat": 1})
    assert [each.tenant for each in found] == ["code", "chat", None]
    assert [each.change.verdict("more", "less") for each in found] == ["tie, not significant", "less", "less"]
    assert whole.curves[0].mean_length(2) == pytest.approx((1.7 + 2.7) / 2)
    page = render([mixing_table(found)])
    assert " chat        2" in page
    assert "all, mixed, alone: calculated from the tenants by their shares" in page


def test_without_counts_nothing_tells_chance() -> None:
    found, _ = mixings(APART, Acceptance((curve(None, [0.69, 0.475], None),)))
    assert found[0].change.interval is None
    assert found[0].change.verdict("more", "less") == "no interval"
    assert notes_on_mixing(found) == (
        "acceptance is the one measured while tenants shared batches (--acceptance-mixed)",
    )


def test_intervals_of_the_difference_cover_the_truth() -> None:
    """Mixing halves what chat accepts: the interval of the change of the mix holds the truth about 95 times in 100."""
    rng = np.random.default_rng(4)
    truths = {"code": [0.9, 0.8], "chat": [0.6, 0.3], None: [0.7, 0.45]}

    def sampled(tenant: str | None, rounds: int) -> Curve:
        accepted = rng.choice(3, size=rounds, p=-np.diff([1.0, *truths[tenant], 0.0]))
        return curve(tenant, [float((accepted >= j).mean()) for j in (1, 2)], rounds)

    true = 2.15 / ((2.7 + 1.9) / 2) - 1
    held = 0
    for _ in range(400):
        apart = Acceptance((sampled("code", 200), sampled("chat", 200)))
        found, _ = mixings(apart, Acceptance((sampled(None, 300),)))
        around = found[0].change.interval
        assert around is not None
        held += around.low <= true <= around.high
    assert 0.92 <= held / 400 <= 0.98


def test_what_cannot_be_compared() -> None:
    with pytest.raises(InputError, match="--acceptance-mixed is of the tenants chat, --acceptance of chat, code"):
        mixings(APART, Acceptance((CHAT,)))
    with pytest.raises(InputError, match="have no draft length in common; measure both at the same K"):
        mixings(APART, Acceptance((curve(None, [0.9, 0.8, 0.7], 9),)))
