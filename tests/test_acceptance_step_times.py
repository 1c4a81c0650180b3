"""Step times: typed by K or m, by setting, or priced with a latency model."""

from pathlib import Path

import pytest

from oracle.acceptance import read_step_times, step_times_from_model, step_times_from_text
from oracle.errors import InputError, InputWarning
from oracle.latency.model import DraftLine, DraftTable, LatencyModel


def test_step_times_by_k_or_m_and_by_setting() -> None:
    by_k = step_times_from_text("draft_length,step_ms\n0,20\n2,31.5\n", "f")
    by_m = step_times_from_text('[{"m": 1, "step_ms": 20}, {"m": 3, "step_ms": 31.5}]', "f")
    assert by_k[0].step_ms == by_m[0].step_ms == {0: 20.0, 2: 31.5}
    several = step_times_from_text(
        "setting,batch_size,draft_length,tokens_per_second\na,1,2,50\na,8,2,300\nb,1,2,40\n", "f"
    )
    assert [(t.setting, t.batch_size, dict(t.tokens_per_second)) for t in several] == [
        ("a", 1, {2: 50.0}),
        ("a", 8, {2: 300.0}),
        ("b", 1, {2: 40.0}),
    ]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("step_ms\n20\n", "give either draft_length (K) or m"),
        ("draft_length,m,step_ms\n1,2,20\n", "give either draft_length (K) or m"),
        ("draft_length,step_ms\n1,0\n", "K = 1 has not one positive step time"),
        ("draft_length,step_ms,tokens_per_second\n1,,\n", "K = 1 has no step time; give step_ms"),
        ("draft_length,step_ms,tokens_per_second\n1,2,3\n", "not one positive step time; give one"),
        ("draft_length,step_ms\n1,20\n1,21\n", "K = 1 is there twice"),
        (
            "draft_length,step_ms,tokens_per_second\n1,20,\n2,,30\n",
            "holds step_ms and tokens_per_second; give one kind",
        ),
        ("draft_length,step_ms\n1.5,20\n", "draft_length is '1.5'; it is a whole number"),
        ("draft_length,step_s\n1,20\n", "'step_s' is not a column here"),
        ("draft_length,step_ms\n300,20\n", "K = 300 is beyond 128"),
        ("draft_length,step_ms\n1,inf\n", "step_ms is 'inf'; it is a number"),
    ],
)
def test_faults_of_step_times(text: str, fault: str) -> None:
    with pytest.raises(InputError) as caught:
        step_times_from_text(text, "f")
    assert fault in str(caught.value)


MODEL = LatencyModel((1, 2, 3), (5.0, 7.0, 8.0), (0.1, 0.1, 0.2), 0.001, DraftLine(0.5, 0.25), reject_ms=0.125)


def test_a_model_priced_at_given_experts() -> None:
    steps = step_times_from_model(MODEL, {1: 8, 3: 20}, 2000)
    assert steps.step_ms == {0: pytest.approx(5 + 0.8 + 2), 2: pytest.approx(8 + 4 + 2 + 1.25 + 0.125)}
    assert "no U is given for K = 1: left out" in steps.notes
    assert step_times_from_model(MODEL, 0, 0).step_ms == {0: 5.0, 1: 7.875, 2: 9.375}
    with pytest.warns(InputWarning, match="one U = 8 for every m"):
        step_times_from_model(MODEL, 8, 0)


def test_what_a_model_cannot_price() -> None:
    with pytest.raises(InputError, match="names m = 5, which the latency model cannot price; it knows m = 1, 2, 3"):
        step_times_from_model(MODEL, {5: 8}, 0)
    with pytest.raises(InputError, match="falls from 9 at m = 1 to 8 at m = 2"):
        step_times_from_model(MODEL, {1: 9, 2: 8}, 0)
    table = LatencyModel((1, 2, 3), (5.0, 7.0, 8.0), (0.1,) * 3, 0.001, DraftTable((1,), (1.0,)))
    with pytest.raises(InputError, match="names m = 3"):
        step_times_from_model(table, {3: 8}, 0)
    negative = LatencyModel((1,), (-5.0,), (0.1,), 0.001, DraftLine(0.5, 0.0))
    with pytest.raises(InputError, match=r"prices a round over m = 1 at -4\.2 ms"):
        step_times_from_model(negative, {1: 8}, 0)


def test_step_times_within_a_range(tmp_path: Path) -> None:
    path = tmp_path / "steps.csv"
    path.write_text("draft_length,step_ms\n0,20\n2,31.5\n4,40\n")
    table = read_step_times(path)[0]
    assert table.within(1, 3).lengths == (2,)
    with pytest.raises(InputError, match="measured: K = 0, 2, 4"):
        table.within(5, None)
