"""What may be called significant: one rule, from two clusters to many, wherever differences are shown."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
from oracle.intervals import FEW_CLUSTERS, Interval, doubt_about
from oracle.realised.calibration import CalibrationTally, calibrate
from oracle.realised.scores import differences
from oracle.recommendation.from_traces import recommend_from_totals
from oracle.scores import MEASURES, PolicyTotals
from oracle.tuning import Compared

NAMES = ("static:0", "static:1")


@given(st.floats(-1, 1), st.floats(0, 1), st.integers(0, 60))
def test_ten_clusters_and_no_zero_inside(low: float, width: float, clusters: int) -> None:
    doubt = doubt_about(Interval(low, low + width), clusters)
    if clusters < 10:
        assert doubt == "few clusters"
    else:
        assert doubt == ("not significant" if low <= 0 <= low + width else "")
    assert doubt_about(None, clusters) == ("few clusters" if clusters < 10 else "not significant")


def totals(clusters: int) -> PolicyTotals:
    """K = 1 takes 79 to 81 % of the time of K = 0 in every cluster."""
    tokens = np.full(clusters, 100.0)
    sums = np.zeros((clusters, 2, len(MEASURES)))
    share = np.linspace(0.79, 0.81, clusters)
    sums[:, :, MEASURES.index("verify_ms")] = np.column_stack([tokens, tokens * share])
    sums[:, :, MEASURES.index("rounds")] = tokens[:, None]
    sums[:, 1, MEASURES.index("drafted")] = tokens
    return PolicyTotals(NAMES, tuple(map(str, range(clusters))), tuple(map(str, range(clusters))), tokens, sums)


@pytest.mark.parametrize("clusters", [2, 5, 9, 10, 11, 39])
def test_the_same_difference_is_called_the_same_everywhere(clusters: int) -> None:
    many = clusters >= 10
    [realised] = differences(totals(clusters), "static:0")
    assert realised.interval is not None
    assert realised.interval.high < 0
    assert (realised.significant, realised.doubt) == (many, "" if many else "few clusters")
    answer = recommend_from_totals(totals(clusters))
    over_off = answer.of(1).over_off
    assert over_off is not None
    assert over_off.verdict("faster", "slower") == ("faster" if many else "few clusters")
    assert answer.provisional is not many
    assert answer.recommended == 1
    compared = Compared(realised.ms_per_token, realised.interval, clusters)
    assert compared.verdict == ("faster" if many else "few clusters")
    first = np.zeros((clusters, 10, 3))
    first[:, 5] = [100.0, 55.0, 30.0]
    first[:, 5, 2] += np.arange(clusters) % 2
    names = tuple(map(str, range(clusters)))
    whole = calibrate(CalibrationTally(("greedy",) * clusters, names, first, np.zeros((clusters, 0, 3))))[0]
    assert whole.gap_interval is not None
    assert whole.gap_interval.high < 0
    assert whole.apart is many
    assert replace(whole, gap_interval=None).apart is False


def test_the_threshold_stands_in_one_place() -> None:
    folder = Path(oracle.__file__).parent
    places = [
        path.relative_to(folder).as_posix()
        for path in sorted(folder.rglob("*.py"))
        if re.search(r"^FEW\w*CLUSTERS\s*=", path.read_text(), re.MULTILINE)
    ]
    assert (places, FEW_CLUSTERS) == (["intervals.py"], 10)
