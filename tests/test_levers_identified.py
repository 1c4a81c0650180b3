"""Which parameters the four published break-evens identify, against a twin written from the equations."""

import itertools
import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from levers_strategies import LEVERS, example, traffic
from scipy.optimize import brentq
from test_cli import succeeded

from oracle.errors import InputError
from oracle.levers.break_even import repetitiveness_needed
from oracle.levers.fitted import Measured
from oracle.levers.identified import identify
from oracle.levers.measured_file import measured_from_text
from oracle.summaries.levers_identified import identified_table
from oracle.tables import render

D = example()
PUBLISHED = (0.06, 0.14, 0.29, 0.45)  # FP16 and NVFP4 at 32, then both at 256
CASES = tuple(zip(("FP16", "NVFP4") * 2, (32.0, 32.0, 256.0, 256.0), strict=True))
HALF_A_DIGIT = 0.005


def assuming(kappa=1.0, base_match=0.0):
    """The example with another kappa of NVFP4, or a base acceptance."""
    precisions = tuple(replace(p, kappa=kappa if p.name == "NVFP4" else 1.0) for p in D.precisions)
    return replace(D, precisions=precisions, speculation=replace(D.speculation, base_match=base_match))


def observed(values, width=0.0):
    return [
        Measured(name, B, break_even=(value - width, value + width))
        for (name, B), value in zip(CASES, values, strict=True)
    ]


def told(width=0.0, values=PUBLISHED, **assumed):
    (found,) = identify(assuming(**assumed), observed(values, width))
    return found


def in_letters(found):
    """eta, h, phi at 32 and at 256, phi ratio: the lower and the upper end of each."""
    host = [end / D.read_ms_per_byte for end in found.round_host_ms]
    return np.array([found.eta, host, *(at.share for at in found.verification), found.growth]).T


def gain(a, g=8):
    return sum(a**j for j in range(1, g + 1))


def solved(values, kappa=1.0, a0=0.0):
    """Four equations solved by elimination: h from both batch sizes is the same. None where eta would pass the end."""
    u = [a0 + (1 - a0) * r for r in values]

    def host(eta, B):
        return (gain(eta * u[2 * B + 1]) - kappa * gain(u[2 * B])) / (2 - kappa / 2)

    eta = brentq(lambda eta: host(eta, 1) - host(eta, 0), 1e-9, 1 / max(u), xtol=1e-14)
    h = host(eta, 0)
    phi = [gain(u[2 * B]) - h / 2 for B in (0, 1)]
    return np.array([eta, h, *phi, phi[1] / phi[0]])


@pytest.mark.parametrize(
    ("assumed", "printed"),
    [
        ({}, "0.692 0.029 0.049 0.394 7.98"),
        ({"kappa": 1.2}, "0.775 0.032 0.048 0.392 8.22"),
        ({"kappa": 1.4}, "0.848 0.035 0.046 0.391 8.43"),
        ({"kappa": 1.8}, "0.973 0.039 0.044 0.389 8.77"),
        ({"base_match": 0.05}, "0.709 0.020 0.110 0.473 4.30"),
        ({"base_match": 0.10}, "0.726 0.010 0.177 0.560 3.16"),
    ],
)
def test_given_kappa_and_base_match_four_break_evens_identify_four_parameters(assumed, printed):
    low, high = in_letters(told(**assumed))
    assert high == pytest.approx(low, rel=1e-6)
    assert " ".join(f"{value:.{d}f}" for value, d in zip(low, (3, 3, 3, 3, 2), strict=True)) == printed
    twin = solved(PUBLISHED, assumed.get("kappa", 1.0), assumed.get("base_match", 0.0))
    assert low == pytest.approx(twin, rel=1e-6)


def test_a_base_match_of_0_145_leaves_no_host_work():
    """eta .742, h 0, phi .244 and .647, ratio 2.65; a larger base match would ask for negative host work."""
    printed = (0.742, 0.0, 0.244, 0.647, 2.65)
    assert solved(PUBLISHED, a0=0.145) == pytest.approx(printed, abs=0.003)
    assert told(base_match=0.16).is_excluded
    ends = in_letters(told(HALF_A_DIGIT, base_match=0.145))
    assert all(low <= value <= high for value, low, high in zip(printed, *ends, strict=True))
    assert ends[0][1] == 0.0


def test_rounding_leaves_intervals():
    """Of all solutions within half a digit: the corners of the box have them, and no point of it lies beyond.

    A random search gives them a little too narrow: [.660, .725], [.020, .039], [.039, .059], [.381, .406] and
    [6.6, 10.3].
    """
    low, high = in_letters(told(HALF_A_DIGIT))
    corners = [solved(np.add(PUBLISHED, signs)) for signs in itertools.product((-HALF_A_DIGIT, HALF_A_DIGIT), repeat=4)]
    assert low == pytest.approx(np.min(corners, axis=0), rel=1e-4)
    assert high == pytest.approx(np.max(corners, axis=0), rel=1e-4)
    assert np.round(low, 3).tolist() == [0.657, 0.019, 0.038, 0.380, 6.462]
    assert np.round(high, 3).tolist() == [0.727, 0.040, 0.060, 0.408, 10.397]
    rng = np.random.default_rng(0)
    inside = [solved(PUBLISHED + rng.uniform(-HALF_A_DIGIT, HALF_A_DIGIT, 4)) for _ in range(500)]
    assert (np.min(inside, axis=0) >= low - 1e-9).all()
    assert (np.max(inside, axis=0) <= high + 1e-9).all()


def test_kappa_of_two_leaves_one_percent_of_the_box_and_more_leaves_nothing():
    assert told(kappa=2.0).is_excluded  # the centre asks for an eta of 1.03
    assert solved(PUBLISHED, kappa=2.0)[0] == pytest.approx(1.03, abs=0.005)
    assert told(HALF_A_DIGIT, kappa=2.0).eta.high == 1.0
    rng = np.random.default_rng(1)
    eta = [solved(PUBLISHED + rng.uniform(-HALF_A_DIGIT, HALF_A_DIGIT, 4), kappa=2.0)[0] for _ in range(2000)]
    assert 0.005 < np.mean(np.array(eta) <= 1) < 0.02
    assert told(HALF_A_DIGIT, kappa=2.2).is_excluded


def test_readings_that_the_break_evens_exclude():
    """Eta alone cannot give them: overhead is neither the same at both precisions nor a multiple in precision."""
    low16, low4, high16, high4 = PUBLISHED
    # the same overhead at both: eta low4 = low16 and eta high4 = high16, for no eta even within the rounding
    assert (low16 + HALF_A_DIGIT) / (low4 - HALF_A_DIGIT) < (high16 - HALF_A_DIGIT) / (high4 + HALF_A_DIGIT)
    # no host work and any kappa, the same at both batch sizes: what it would have to be differs
    box = [np.add(PUBLISHED, signs) for signs in itertools.product((-HALF_A_DIGIT, HALF_A_DIGIT), repeat=4)]
    ratios = [gain(e * b[1]) / gain(b[0]) / (gain(e * b[3]) / gain(b[2])) for b in box for e in (0.5, 0.8, 1.0)]
    assert f"{min(ratios):.2f}" == "1.07"
    assert in_letters(told(HALF_A_DIGIT))[0][1] > 0  # with a kappa of 1, host work is needed
    assert in_letters(told(HALF_A_DIGIT))[1][0] < 1  # and so is a loss of acceptance
    for kappa in np.linspace(0.2, 3.9, 38):
        assert told(HALF_A_DIGIT, kappa=kappa).is_excluded or told(HALF_A_DIGIT, kappa=kappa).round_host_ms.low > 0


def test_one_batch_size_leaves_a_curve():
    (found,) = identify(D, observed(PUBLISHED)[:2])
    assert not found.is_point
    assert found.growth is None
    assert found.eta.high - found.eta.low > 0.4
    assert found.eta.low <= 0.7 <= found.eta.high
    assert identify(D, observed(PUBLISHED)[::2]) == ()  # one precision
    assert identify(D, [observed(PUBLISHED)[0], observed(PUBLISHED)[3]]) == ()  # never at the same batch size


@settings(deadline=None, max_examples=40)
@given(st.floats(0.3, 1.0), st.floats(0.0, 0.2), st.floats(100, 2000), st.integers(2, 12), st.floats(0.5, 1.8))
def test_the_truth_is_among_the_solutions(eta, host, verify_batch, g, kappa):
    how = replace(D.speculation, draft_length=g, round_host_ms=host, verify_batch=verify_batch)
    precisions = tuple(replace(p, eta=eta, kappa=kappa) if p.name == "NVFP4" else p for p in D.precisions)
    d = replace(D, precisions=precisions, speculation=how)
    needed = [float(repetitiveness_needed(d, d.named(name), traffic(B))) for name, B in CASES]
    assume(all(0.001 < r < 0.999 for r in needed))
    (found,) = identify(d, observed(needed, 1e-4))
    near = 1e-9
    assert found.eta.low - near <= eta <= found.eta.high + near
    assert found.round_host_ms.low - near <= host <= found.round_host_ms.high + near
    for at in found.verification:
        assert at.verify_batch.low * (1 - near) <= verify_batch <= at.verify_batch.high * (1 + near)
    assert found.growth.low - 1e-6 <= 8 <= found.growth.high + 1e-6


def test_break_evens_at_nothing_and_at_everything():
    """Speculation that pays on any text leaves no host work and no verification; never exact zeros turned into NaN."""
    (found,) = identify(D, observed((0.0, 0.0, 0.0, 0.0)))
    assert found.round_host_ms == (0.0, 0.0)
    assert all(at.share == (0.0, 0.0) and at.verify_batch == (np.inf, np.inf) for at in found.verification)
    assert found.growth == (0.0, np.inf)
    assert "no verification" in render([identified_table(D, (found,))], "text")
    rng = np.random.default_rng(2)
    for _ in range(40):
        values, width = rng.choice([0.0, 1.0, rng.random()], 4), float(rng.choice([0.0, 0.01, 0.3]))
        (found,) = identify(D, observed(np.clip(values, width, 1 - width), width))
        assert "nan" not in render([identified_table(D, (found,))], "text")
        assert found.is_excluded or found.eta.low <= found.eta.high + 1e-12


CSV = "precision,batch_size,break_even,break_even_low,break_even_high\n" + "".join(
    f"{name},{B:g},{value},{value - HALF_A_DIGIT:.3f},{value + HALF_A_DIGIT:.3f}\n"
    for (name, B), value in zip(CASES, PUBLISHED, strict=True)
)


def test_what_a_user_reads(tmp_path):
    asked = ("levers", LEVERS / "deployment.toml", "--traffic", LEVERS / "coding-agent.toml", "--measured", "-")
    page = succeeded(*asked, stdin=CSV)
    table = page[page.index("What observed break-evens tell of the parameters") :]
    cells = [line.split() for line in table.splitlines()[4:9]]
    assert cells[0] == ["FP16,", "NVFP4", "eta", "of", "NVFP4", "0.657", "–", "0.7268", "0.7"]
    assert " ".join(cells[4][2:]) == "verification at 256 over that at 32 6.462 – 10.4 8"
    assert "FP16 and NVFP4: told up to the width of the observations; excluded: eta of 1, no host work" in table
    assert "OUTSIDE" not in page
    rows = json.loads(succeeded(*asked, "--json", stdin=CSV))["tables"]["levers_identified"]["rows"]
    assert rows[1]["told_low"] < rows[1]["stated"] < rows[1]["told_high"]
    other = tmp_path / "other.toml"
    text = (LEVERS / "deployment.toml").read_text("utf-8")
    other.write_text(text.replace("eta = 0.70", "eta = 0.80\nkappa = 1"), "utf-8")
    assert "0.8  OUTSIDE" in succeeded("levers", other, *asked[2:], stdin=CSV)
    other.write_text(text.replace("eta = 0.70", "eta = 0.70\nkappa = 2.2"), "utf-8")
    said = succeeded("levers", other, *asked[2:], stdin=CSV)
    assert "no eta up to 1 and no host work give these break-evens with base_match 0 and the kappa stated" in said
    curve = succeeded(*asked, stdin="\n".join(CSV.splitlines()[:3]))
    assert "observed together at one batch size only, which leaves a curve of solutions" in curve


def test_refusals():
    text = "precision,batch_size,break_even,break_even_low,break_even_high\n"
    text += "FP16,,0.3,,\nFP16,32,0.3,0.2,\nFP16,32,0.3,0.4,0.5\nFP16,32,30,,\n"
    with pytest.raises(InputError) as refusal:
        measured_from_text(text, "m.csv")
    assert refusal.value.faults == (
        "m.csv, line 2: batch_size is missing; a break-even needs it",
        "m.csv, line 3: break_even, break_even_low without the others; give break_even, alone or with both ends",
        "m.csv, line 4: break_even is 0.3 in [0.4, 0.5]; an interval holds the value",
        "m.csv, line 5: break_even is '30'; it is a number of at least 0 and at most 1",
    )
    with pytest.raises(InputError, match="break-evens tell parameters of a step that reads weights only"):
        identify(replace(D, kv_read_share=0.5), observed(PUBLISHED))
    with pytest.raises(InputError, match=r"weighs the same at FP16 and NVFP4 \(bytes times kappa\)"):
        identify(assuming(kappa=4.0), observed(PUBLISHED))
