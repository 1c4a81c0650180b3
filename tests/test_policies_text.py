"""Text forms of policies, and what is refused: with the policy, the place and the way out."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from policy_inputs import INFORMED, ONLINE, random_inputs, refusal
from traces_factory import TEXTS, trace_table

from oracle.costs import LengthCosts
from oracle.errors import InputError
from oracle.policies import Capped, Confidence, Slope, Static, Survival, Training, inputs_of, lengths_of, parse_policy
from oracle.traces import Traces

# Whether an engine knows at a round's start all that the policy looks at, and whether a column's word is taken for it.
WHAT_FORMS_ARE = {
    "static:0": "online",
    "static:12@max=3": "online",
    "confidence:0.5": "online",
    "confidence:0.25@keep": "online",
    "confidence:1.0@max=4@min=2": "online",
    "survival:0.25": "online",
    "survival:0.125@keep": "online",
    "goodput": "online",
    "slope:0.5": "online",
    "slope:8.0@max=2": "online",
    "budget": "online",
    "logged": "online",
    "survival!:0.25": "looks ahead",
    "survival!:0.25@keep": "looks ahead",
    "goodput!": "looks ahead",
    "goodput!@max=3": "looks ahead",
    "slope!:2.0": "looks ahead",
    "blind": "looks ahead",
    "blind:refitted": "looks ahead",
    "blind@min=1": "looks ahead",
    "oracle": "looks ahead",
    "oracle@max=2": "looks ahead",
    "column:my lengths": "claimed",
    "column:a:b@min=1": "claimed",
}


@pytest.mark.parametrize(("text", "kind"), WHAT_FORMS_ARE.items())
def test_text_forms_round_trip_and_say_what_they_are(text: str, kind: str) -> None:
    policy = parse_policy(text)
    assert str(policy) == text
    assert parse_policy(str(policy)) == policy
    assert policy.online == (kind == "online")
    assert policy.claimed == (kind == "claimed")


def test_every_online_and_informed_form_of_the_other_tests_is_what_they_take_it_for() -> None:
    assert all(parse_policy(text).online for text in ONLINE)
    assert not any(parse_policy(text).online for text in INFORMED)


@given(st.floats(0, 1), st.booleans(), st.floats(0, 1e6), st.integers(0, 128))
def test_any_parameter_round_trips(threshold: float, keep: bool, price: float, cap: int) -> None:
    for policy in (Confidence(threshold, keep), Survival(threshold, True, keep), Slope(price), Static(cap)):
        assert parse_policy(str(policy)) == policy
        assert parse_policy(str(Capped(policy, longest=cap))) == Capped(policy, longest=cap)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("confidnce:0.5", "policy 'confidnce:0.5': no such form; known forms: static:K, confidence:T, survival:T"),
        ("", "policy '': no such form; known forms: static:K"),
        ("confidence", "confidence needs a value, as in confidence:0.4"),
        ("slope!:", "slope! needs a value, as in slope!:2.0"),
        ("confidence:1.5", "policy 'confidence:1.5': the threshold is 1.5; a probability lies in [0, 1]"),
        ("survival:nan", "the threshold is nan; a probability lies in [0, 1]"),
        ("survival:x", "'x' is not a number; write it as in survival:0.4"),
        ("logged@max=3", "policy 'logged@max=3': logged takes no bounds: where they bite, rounds would start where"),
        ("slope:-1", "the slope is -1.0; it is a price of 0 or more milliseconds a token"),
        ("slope:inf", "the slope is inf; it is a price of 0 or more"),
        ("static:2.5", "'2.5' is not a draft length; give a whole number, as in static:4"),
        ("static:500", "the draft length is 500; it is a whole number from 0 to 128"),
        ("goodput:3", "goodput takes no value; known forms: "),
        ("goodput@keep", "@keep goes with confidence and survival only"),
        ("static:2@most=3", "'@most=3' is not known; known: @max=K, @min=K, @keep"),
        ("static:2@max=3@max=4", "@max is given twice; give it once"),
        ("static:2@max=1@min=3", "@min is 3 and @max is 1; give @min <= @max"),
        ("static:2@max=999", "@max is 999; it lies between 0 and 128 draft tokens"),
        ("column:", "column needs a value, as in column:my_lengths"),
    ],
)
def test_refused_text_forms(text: str, said: str) -> None:
    with pytest.raises(InputError) as error:
        parse_policy(text)
    assert said in str(error.value)


def test_a_length_the_model_lacks_is_refused_where_it_is_meant_exactly() -> None:
    inputs = random_inputs(0, (5,), (0, 1, 3))
    said = refusal(["static:2", "static:9", "bogus"], inputs)
    assert said.startswith("1. policy 'bogus': no such form")
    assert "2. policy 'static:2': asks for k = 2, that is m = 3; lengths that may be chosen: k = 0, 1, 3 (what" in said
    assert "3. policy 'static:9': asks for k = 9, that is m = 10" in said
    assert (lengths_of(["confidence:0.0"], inputs).draft_length == 3).all(), "an adaptive policy takes a shorter one"
    assert (lengths_of(["confidence:1.0@max=2@min=2"], inputs).draft_length == 1).all()
    assert (lengths_of(["static:9@max=3"], inputs).draft_length == 3).all()


def test_what_a_policy_looks_at_must_be_there() -> None:
    bare = trace_table((4,), drop=(*TEXTS, "draft_prob", "category", "logged_draft_length", "logged_advance"))
    costs = LengthCosts(*np.ones((5, 4)), np.ones(4, dtype=bool))
    inputs = inputs_of(Traces.from_arrow(bare, "t.parquet"), costs)
    said = refusal(["confidence:0.5", "goodput", "budget", "logged", "blind:refitted", "column:mine"], inputs)
    assert "policy 'confidence:0.5': needs the column draft_prob (the draft's probability of its own proposal)" in said
    assert "which t.parquet lacks; record it, or take a policy that does without" in said
    assert "policy 'budget': needs the column category, which t.parquet lacks" in said
    assert "policy 'logged': needs the columns logged_draft_length and logged_advance, which t.parquet lacks" in said
    assert "policy 'blind:refitted': needs the mean unique experts by m in the latency model (fit.per_m)" in said
    assert "policy 'column:mine': the trace has no such column; the columns there: generation, " in said
    full = replace(random_inputs(0, (5,)), training=Training())
    said = refusal(["goodput", "slope:1", "budget"], full)
    assert "policy 'slope:1.0': needs the mean unique experts by m of training generations" in said
    assert "policy 'budget': needs the best static lengths of training generations" in said
    assert parse_policy("slope:2@max=3").columns == {"draft_prob"}
    assert parse_policy("column:mine").columns == {"mine"}
