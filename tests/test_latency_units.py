"""Times in another unit than milliseconds are noticed by what is plausible, and never converted."""

import pytest

from oracle.latency.units import suspect_unit

# typical target_ms, draft_ms (None: no draft), c in milliseconds
MACHINES = {
    "the source's A100": (12.4, 2.5, 1.1e-3),
    "a small model on one core": (8.9, 4.4, 2e-6),
    "a slow pass on a processor": (1900.0, 140.0, 0.012),
    "a fast pass and an n-gram draft": (0.9, 0.02, 5e-5),
    "a laptop without a draft": (40.0, None, 2e-3),
}


@pytest.mark.parametrize("machine", MACHINES)
def test_milliseconds_are_not_suspected(machine):
    assert suspect_unit(*MACHINES[machine]) is None


@pytest.mark.parametrize(("unit", "factor"), [("microseconds", 1e3), ("seconds", 1e-3), ("nanoseconds", 1e6)])
@pytest.mark.parametrize("machine", ["the source's A100", "a small model on one core"])
def test_other_units_are_named_with_column_value_and_way_out(machine, unit, factor):
    target, draft, c = MACHINES[machine]
    said = suspect_unit(target * factor, draft * factor, c * factor, source="rounds.parquet")
    assert said.startswith(f"rounds.parquet: target_ms is typically {target * factor:.4g}, which looks like {unit}")
    assert f"draft_ms is typically {draft * factor:.4g}, which looks like {unit} ({draft:.3g} ms)" in said
    assert said.endswith(
        f"Nothing was converted; if that is so, multiply these columns by {1 / factor:g} and fit again"
    )


def test_a_fast_machine_in_microseconds_is_told_from_a_slow_one_by_its_context_slope():
    assert suspect_unit(3000.0, 460.0) is None
    assert suspect_unit(3000.0, 460.0, 0.01) is None
    assert suspect_unit(3000.0, 460.0, 1.1) == (
        "rounds: target_ms is typically 3000, which looks like microseconds (3 ms); draft_ms is typically 460, which "
        "looks like microseconds (0.46 ms) (one more token of context would cost 1.1 ms). Nothing was converted; if "
        "that is so, multiply these columns by 0.001 and fit again"
    )


@pytest.mark.parametrize(
    ("target", "draft", "said"),
    [
        (12.0, 1450.0, "draft_ms is typically 1450, which looks like microseconds (1.45 ms)"),
        (12.0, 0.0015, "draft_ms is typically 0.0015, which looks like seconds (1.5 ms)"),
        (0.012, 2.5, "target_ms is typically 0.012, which looks like seconds (12 ms)"),
        (7000.0, None, "target_ms is typically 7000, which looks like microseconds (7 ms)"),
    ],
)
def test_one_column_alone_is_named_alone(target, draft, said):
    message = suspect_unit(target, draft)
    assert message.startswith(f"rounds: {said}. Nothing was converted; if that is so, multiply {said.split()[0]} by")


def test_what_no_unit_explains_is_said():
    assert suspect_unit(1e12) == (
        "rounds: target_ms is typically 1e+12, which is no plausible time in any unit; check how it was timed"
    )
    assert suspect_unit(0.0, 1.0) is None  # rounds without a positive time are the fit's own fault to report
