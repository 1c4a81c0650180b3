"""Matches that follow one another as traffic states them: read, refused, and decided with as if typed by hand."""

import json
import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from levers_strategies import LEVERS, example, regimes, traffic
from test_levers_files import faults_of

from oracle.errors import InputError
from oracle.figures.levers_curves import round_length_curves
from oracle.levers.answer import answer, plan
from oracle.levers.break_even import repetitiveness_needed
from oracle.levers.cost import TOGGLES, cost_parts
from oracle.levers.deployment import Speculation
from oracle.levers.matches import READINGS, accept_needed, below_one, mean_length
from oracle.levers.procedure import decide_joint
from oracle.levers.schedule import schedule
from oracle.levers.shared import shared_by
from oracle.levers.traffic_file import plain_traffic, series_from_text, traffic_from_text
from oracle.levers.traffic_matches import WHAT_IF, as_read, in_traffic, slot_of, untold
from oracle.summaries.levers_matches import matches_notes

HEAD = "slot,concurrency,prefix_share,repetitiveness,autocorrelation,reading,prompt_tokens,output_tokens,context_tokens"
REST = "8192,512,16384"
D = example()
CHAINS = READINGS[1:]
chain = st.floats(0, 0.99)


def typed(deployment, reading, x):
    return replace(deployment, speculation=replace(deployment.speculation, reading=reading, autocorrelation=x))


def series(*rows, how=D.speculation, head=HEAD):
    return series_from_text("\n".join((head, *(f"{row},{REST}" for row in rows))), "t.csv", {}, how)


@settings(deadline=None)
@given(st.sampled_from(READINGS), st.integers(1, 12), st.lists(st.tuples(st.floats(0, 1), chain), min_size=1))
def test_many_chains_at_once_equal_each_alone(reading, g, pairs):
    a, x = np.array(pairs).T
    alone = [float(mean_length(*one, reading, other)) for *one, other in ((p, g, q) for p, q in pairs)]
    assert mean_length(a, g, reading, x) == pytest.approx(alone, rel=1e-13)
    w = 3 * a
    alone = [float(accept_needed(one, g, reading, other)) for one, other in zip(w, x, strict=True)]
    assert accept_needed(w, g, reading, x) == pytest.approx(alone, rel=1e-9, abs=1e-12)


@given(st.sampled_from(CHAINS), st.integers(1, 24), st.floats(0, 1))
def test_rounds_grow_with_the_chain_and_shrink_where_it_renews(reading, g, a):
    """The order in which traffic gives the ends of x."""
    steps = np.diff(mean_length(a, g, reading, np.linspace(0, 0.99, 100)))
    assert (steps <= 1e-12).all() if reading == "renewal" else (steps >= -1e-12).all()


@settings(max_examples=40, deadline=None)
@given(regimes(), st.sampled_from(CHAINS), chain)
def test_one_regime_is_decided_as_if_its_chain_were_typed_into_the_deployment(regime, reading, x):
    values = regime.values() | {"reading": reading, "autocorrelation": x}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = plain_traffic(values, "t", D.speculation)
    deployment, there = in_traffic(D, found)
    assert deployment == typed(D, reading, x)
    assert there.regime.autocorrelation is None
    by_hand, kept = decide_joint(typed(D, reading, x), regime), decide_joint(as_read(D, found), found.regime.at(0))
    assert kept.same_as(by_hand)
    assert float(kept.cost_ms) == float(by_hand.cost_ms)
    for p in D.precisions:
        assert repetitiveness_needed(as_read(D, found), p, found.regime.at(0)) == repetitiveness_needed(
            deployment, p, regime
        )


def test_every_slot_has_its_own_chain():
    (found,) = series("a,30,0.4,0.3,0.8,stationary", "b,200,0.4,0.3,0,stationary", "c,200,0.4,0.3,0.9,stationary")
    deployment, there = in_traffic(D, found)
    assert deployment == typed(D, "stationary", 0.0)
    planned = plan(deployment, there, schedule(deployment, there.regime, there.tokens, 0.0))
    made, p = planned.schedule, D.precisions[planned.schedule.precision]
    for t, x in enumerate((0.8, 0.0, 0.9)):
        alone = traffic(C=float(found.regime.concurrency[t]), r=0.3)
        costs = [float(cost_parts(typed(D, "stationary", x), p, alone, toggles).total_ms) for toggles in TOGGLES]
        assert made.cost_ms[t] == pytest.approx(min(costs), rel=1e-12)
    assert made.speculation_on.tolist() == [True, False, True]
    (note,) = matches_notes(D, [found])
    assert note == (
        "matches follow one another as the traffic states, stationary with x = 0 – 0.9, each slot its own; the "
        "deployment's own (independent) does not count here"
    )
    one, _ = in_traffic(D, slot_of(found, 2))
    assert one == typed(D, "stationary", 0.9)


def test_tenants_share_a_deployment_each_with_its_own_chain():
    rows = ("a,30,0.4,0.3,0.8,stationary", "b,90,0.4,0.3,0.1,stationary")
    tenant_head = HEAD.replace("slot", "tenant")
    tenants = series(*rows, head=tenant_head)
    found = shared_by(as_read(D, tenants[0]), tenants)
    p, B = D.precisions[found.configuration.precision], np.array(found.batch)
    costs = [
        float(cost_parts(typed(D, "stationary", x), p, traffic(r=0.3), found.configuration.toggles, B).total_ms)
        for x in (0.8, 0.1)
    ]
    assert [each.cost_ms for each in found.tenants] == costs
    assert found.cost_ms == pytest.approx(0.25 * costs[0] + 0.75 * costs[1], rel=1e-12)
    (note,) = matches_notes(D, tenants)
    assert "x = 0.1 – 0.8, each tenant its own; the deployment's own (independent)" in note
    (doubt,) = matches_notes(D, series("a,30,0.4,0.05,,stationary", "b,90,0.4,0.6,,stationary", head=tenant_head))
    assert "in 1 of 2 tenants" in doubt


def test_the_deployment_s_own_is_the_default():
    own = typed(D, "stationary", 0.4)
    head = HEAD.replace(",autocorrelation,reading", "")
    for rows, columns in ((("a,30,0.4,0.3",), head), (("a,30,0.4,0.3,,stationary",), HEAD)):
        (found,) = series(*rows, how=own.speculation, head=columns)
        assert in_traffic(own, found)[0] == own
        assert matches_notes(own, [found]) == ()
    (mixed,) = series("a,30,0.4,0.3,,stationary", "b,30,0.4,0.3,0.7,stationary", how=own.speculation)
    assert mixed.regime.autocorrelation.tolist() == [0.4, 0.7]
    assert matches_notes(own, [mixed]) == (
        "matches follow one another as the traffic states, stationary with x = 0.4 – 0.7, each slot its own; the "
        "deployment's own (stationary, x = 0.4) counts in 1 of 2 slots, where none is stated",
    )
    assert matches_notes(own, [slot_of(mixed, 0)]) == ()
    assert "does not count" in matches_notes(own, [slot_of(mixed, 1)])[0]
    (plain,) = series("a,30,0.4,0.3,,independent", how=own.speculation)
    assert in_traffic(own, plain)[0].speculation.reading == "independent"
    assert matches_notes(own, [plain]) == (
        "matches are independent, as the traffic states; the deployment's own (stationary, x = 0.4) does not count "
        "here",
    )


def test_another_reading_does_not_take_over_an_autocorrelation():
    otherwise = traffic().values() | {"reading": "gated", "autocorrelation": 0.4, "autocorrelation_low": 0.3}
    otherwise["autocorrelation_high"] = 0.5
    (found,) = traffic_from_text("repetitiveness = 0.2", "t.toml", otherwise, D.speculation)
    assert (found.reading, found.regime.autocorrelation.tolist()) == ("gated", [0.4])
    text = 'reading = "renewal"\nautocorrelation = 0.2\n'
    (found,) = traffic_from_text(text, "t.toml", otherwise, D.speculation)
    assert [float(each.autocorrelation[0]) for each in (found.low, found.regime, found.high)] == [0.2, 0.2, 0.2]
    assert faults_of(traffic_from_text, 'reading = "renewal"', "t.toml", otherwise, D.speculation)


def test_the_ends_of_x_go_with_those_of_speculation():
    interval = {"autocorrelation": 0.5, "autocorrelation_low": 0.4, "autocorrelation_high": 0.6}
    for reading, ends in (("stationary", (0.4, 0.6)), ("gated", (0.4, 0.6)), ("renewal", (0.6, 0.4))):
        found = plain_traffic(traffic().values() | interval | {"reading": reading}, "t")
        assert (float(found.low.autocorrelation[0]), float(found.high.autocorrelation[0])) == ends


@pytest.mark.parametrize("reading", CHAINS)
def test_an_interval_of_x_alone_leaves_a_lever_undecided(reading):
    x = {"stationary": (0.0, 0.8), "gated": (0.0, 0.8), "renewal": (0.0, 0.95)}[reading]
    r = {"stationary": 0.1, "gated": 0.1, "renewal": 0.143}[reading]
    values = traffic(r=r).values() | {"reading": reading, "autocorrelation": x[0]}
    values |= {"autocorrelation_low": x[0], "autocorrelation_high": x[1]}
    deployment, there = in_traffic(
        replace(D, experts=None, experts_per_token=None, expert_parameters=None),
        plain_traffic(values, "t", D.speculation),
    )
    found = answer(deployment, *(each.at(0) for each in (there.regime, there.low, there.high)))
    assert found.has_intervals
    assert found.speculation == "undecided"
    exhaustive = {
        decide_joint(typed(deployment, reading, float(at)), traffic(r=r)).configuration() for at in np.linspace(*x, 201)
    }
    assert set(found.possible) == exhaustive


def test_a_chain_without_x_is_told_what_it_would_change():
    (found,) = series("a,30,0.4,0.05,,stationary", "b,90,0.4,0.6,,stationary")
    said = untold(D, [found])
    independent, p11 = sum(0.6**j for j in range(9)), 0.6 + WHAT_IF * 0.4
    chained = 1 + 0.6 * sum(p11**j for j in range(8))
    assert said == (
        "repetitiveness was measured under the reading stationary and no autocorrelation is stated, so matches count "
        f"as independent, as the deployment has it (x = 0): at x = {WHAT_IF:g} a round would emit {chained:.3f} tokens "
        f"instead of {independent:.3f} (r = 0.6), which sets other levers in 1 of 2 slots; add autocorrelation, which "
        "draft-oracle observe writes"
    )
    assert in_traffic(D, found)[0] == D
    assert matches_notes(D, [found]) == (said,)
    (stated,) = series("a,30,0.4,0.05,0.2,stationary", "b,90,0.4,0.6,0,stationary")
    assert untold(D, [stated]) is None


GATED = (
    "t.csv, line 2: repetitiveness was measured under the reading gated (of all tokens, those that match), whose "
    "autocorrelation is missing, and the deployment reads it as independent (of first draft tokens, those accepted); "
    "add autocorrelation, which draft-oracle observe writes, or observe with --reading independent"
)
SOME = (
    "t.csv, line 3: autocorrelation is missing, and other rows state it; the deployment, which reads matches as "
    "independent, has none for the reading stationary; state it in every row, or reading and autocorrelation under "
    "[speculation] of the deployment"
)
ONE = (
    "t.csv, line 2: autocorrelation is 1; it is at least 0 and below 1: at 1 no mismatch would ever follow a match, "
    "which no log can show; where none did, give the most that the log carries, as draft-oracle observe writes it: "
    "with n matches that followed one, an acceptance after a match of n / (n + 1)"
)


@pytest.mark.parametrize(
    ("rows", "fault"),
    [
        (["a,30,0.4,0.3,,gated"], GATED),
        (["a,30,0.4,0.3,1,stationary"], ONE),
        (["a,30,0.4,0.3,-0.1,stationary"], ONE.replace("is 1;", "is -0.1;", 1)),
        (
            ["a,30,0.4,0.3,0.4,"],
            "t.csv, line 2: autocorrelation is 0.4 without a reading, and the deployment's is independent, which has "
            "none; add reading: stationary, gated, renewal",
        ),
        (
            ["a,30,0.4,0.3,0.4,independent"],
            "t.csv, line 2: autocorrelation is 0.4 under the reading independent, which has none; give the reading "
            "that it was measured under",
        ),
        (["a,30,0.4,0.3,0.9,stationary", "b,30,0.4,0.3,,stationary", "c,30,0.4,0.3,,stationary"], SOME),
        (["a,30,0.4,0.3,nan,gated"], "t.csv, line 2: autocorrelation is 'nan'; it is a number"),
        (
            ["a,30,0.4,0.3,0.4,gated", "b,30,0.4,0.3,0.4,renewal"],
            "t.csv: rows have different readings (gated, renewal); give all of them the same",
        ),
    ],
)
def test_halves_and_contradictions_are_refused(rows, fault):
    text = "\n".join((HEAD, *(f"{row},{REST}" for row in rows)))
    assert faults_of(series_from_text, text, "t.csv", {}, D.speculation) == (fault,)


def test_intervals_of_x_are_checked():
    for ends, fault in (
        (
            {"autocorrelation_low": 0.1},
            "t: autocorrelation_low and autocorrelation_high go together; give both or none",
        ),
        (
            {"autocorrelation": 0.5, "autocorrelation_low": 0.1, "autocorrelation_high": 1.0},
            "t: autocorrelation is 0.5 in [0.1, 1]; an interval holds the value and lies in [0, 1)",
        ),
        (
            {"autocorrelation_low": 0.1, "autocorrelation_high": 0.2},
            "t: autocorrelation_low and autocorrelation_high without autocorrelation; add it",
        ),
    ):
        values = traffic().values() | {"reading": "stationary"} | ends
        assert fault in faults_of(plain_traffic, values, "t", Speculation(8, 0.1, 640))
    with pytest.raises(InputError, match=r"speculation\.autocorrelation is 1; it is at least 0 and below 1"):
        typed(D, "stationary", 1.0)


def test_values_state_it_too():
    text = json.dumps(traffic().values() | {"reading": "stationary", "autocorrelation": 0.5})
    (found,) = traffic_from_text(text, "t.json", {}, D.speculation)
    assert in_traffic(D, found)[0] == typed(D, "stationary", 0.5)
    text = (LEVERS / "coding-agent.toml").read_text("utf-8") + "reading = 5\nx = 0.5\n"
    assert faults_of(traffic_from_text, text, "t.toml", {}, D.speculation) == (
        "t.toml: x is not a key of traffic; it is written autocorrelation",
        "t.toml: reading is a number; it is a text",
    )


def test_an_x_that_is_close_to_one_is_not_shown_as_one():
    assert [below_one(x) for x in (0.7965, 0.9997, 0.99999999)] == ["0.796", "0.999700", "1 - 1e-08"]
    for x, shown in ((0.797392, "0.797"), (0.99999999, "1 - 1e-08")):
        regime = traffic()
        drawn = round_length_curves(answer(typed(D, "stationary", x), regime, regime, regime))
        assert [curve.name for curve in drawn] == ["independent", *(f"{each}, x = {shown}" for each in CHAINS)]
