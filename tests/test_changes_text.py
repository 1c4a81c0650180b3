"""The text form of changes: round trips, what is refused and where, and the notes a reader gets."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracle.changes import Change, FlatRegime, Replaced, Scaled, Span, lanes_of, parse_change
from oracle.changes.terms import BASE, CONTEXT, EXPERTS, QUANTITIES
from oracle.costs import length_costs
from oracle.errors import InputError
from oracle.latency.model import DraftLine, LatencyModel

MODEL = LatencyModel(
    m=(1, 2, 3, 5),
    beta0_ms=(2.0, 3.0, 3.5, 5.0),
    alpha_ms_per_expert=(0.25, 0.25, 0.5, -0.125),
    context_ms_per_token=0.0078125,
    draft=DraftLine(0.5, 0.25),
    fit={"alpha_source": ["borrowed from m = 2", "own", "own", "own"]},
)
COSTS = length_costs(MODEL, 0, 4)


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(InputError) as error:
        call()
    return str(error.value)


numbers = st.one_of(st.integers(0, 10**17).map(float), st.floats(0, 1e300))
names = st.sampled_from(QUANTITIES)


@st.composite
def terms(draw: st.DrawFn) -> Scaled | Replaced | FlatRegime:
    if draw(st.integers(0, 5)) == 0:
        return FlatRegime()
    quantity = draw(names)
    first = draw(st.integers(1, 120))
    span = Span(first, first + draw(st.integers(0, 8))) if quantity.single and draw(st.booleans()) else None
    kind, number = draw(st.sampled_from([Scaled, Replaced])), draw(numbers)
    sign = -1 if kind is Replaced and quantity in (BASE, EXPERTS, CONTEXT) and draw(st.booleans()) else 1
    return kind(quantity, span, sign * number)


@given(st.lists(terms(), min_size=1, max_size=4), st.sampled_from([",", " , "]))
def test_text_forms_round_trip(drawn: list[Scaled | Replaced | FlatRegime], comma: str) -> None:
    kept: list[Scaled | Replaced | FlatRegime] = []
    for term in drawn:
        if not any(term.repeats(earlier) for earlier in kept):
            kept.append(term)
    change = Change(tuple(kept))
    assert parse_change(str(change)) == change
    assert parse_change(comma.join(map(str, kept))) == change
    assert str(parse_change(str(change))) == str(change)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        (" experts = 0.50 ,draft*0.5", "experts=0.5, draft=0.5"),
        ("alpha[ 2 - 4 ] * 1e-1", "alpha[2-4]*0.1"),
        ("beta0[03-3]=-1.50 ms,context[2]=1e-3ms", "beta0[3]=-1.5ms, context[2]=0.001ms"),
        ("draft[3]=0ms,reject=.25ms,regime = flat", "draft[3]=0ms, reject=0.25ms, regime=flat"),
        ("base=-0", "base=0"),
    ],
)
def test_canonical_texts(text: str, canonical: str) -> None:
    assert str(parse_change(text)) == canonical
    assert parse_change(canonical) == parse_change(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "change '': is empty; known terms: experts=, context=, draft=, base=, reject= a factor, or"),
        ("  ", "change '  ': is empty"),
        ("alfa=0", "change 'alfa=0', term 1 'alfa=0': 'alfa' is not a term; known terms: experts=, context=, draft="),
        ("alfa[2]*0", "'alfa' is not a term; known terms: experts="),
        ("experts", "term 1 'experts': no such form; known terms: "),
        ("experts=0,", "term 2 '': the term is empty; remove the comma or write a term"),
        ("experts=-1", "the factor is -1; a factor is a finite number of 0 or more"),
        ("experts=nan", "'nan' is not a finite number; give a factor of 0 or more, or a value in milliseconds, as in "
                        "experts=0.5 or experts=1.2ms"),
        ("draft=inf", "'inf' is not a finite number"),
        ("draft=1e999", "'1e999' is not a finite number"),
        ("draft=", "'' is not a finite number"),
        ("draft=1_0", "the unit '_0' is not known"),
        ("draft=٣", "'٣' is not a finite number"),
        ("draft=1.2us", "the unit 'us' is not known; values are in milliseconds, as in draft=0.5 or draft=1.2ms"),
        ("draft=-1ms", "the value is -1 ms; a time is a finite number of 0 or more milliseconds"),
        ("draft[2]=-1ms", "the value is -1 ms; a time is"),
        ("alpha=0", "alpha needs brackets that name m, as in alpha[5]; for all m write experts="),
        ("beta0=0", "beta0 needs brackets that name m, as in beta0[5]; for all m write base="),
        ("experts[5]=0", "experts takes no brackets; write alpha[5]"),
        ("reject[1]=0", "reject takes no brackets; it is one time for all k >= 1: write reject="),
        ("alpha[5]=0.08", "0.08 can be a factor or a value; write alpha[5]*0.08 or alpha[5]=0.08ms"),
        ("alpha[5]*0.08ms", "a factor has no unit; write alpha[5]*0.08, or alpha[5]=0.08ms for a value"),
        ("alpha[]*2", "[] names no m; brackets hold one m from 1 to 129, or a rising range, as in alpha[5] or alpha["),
        ("alpha[0]*2", "[0] names no m"),
        ("alpha[4-2]*2", "[4-2] names no m"),
        ("alpha[130]*2", "[130] names no m"),
        ("draft[0]*2", "[0] names no k; brackets hold one k from 1 to 128, or a rising range, as in draft[5] or draft"),
        ("regime=none", "'none' is no regime; the only change of regimes is regime=flat"),
        ("regime[2]=flat", "'regime' is not a term"),
        ("model=", "model= needs the path of a latency model file; a path with a comma or a double quote stands in"),
        ('model="a', "stands in double quotes, as in model=\"a,b.json\""),
        ("model=nowhere.json", "nowhere.json: cannot be read (No such file or directory)"),
        ("experts=0,experts*2", "term 2 'experts*2': the same is changed twice; keep one of the two"),
        ("alpha[2-3]*2,alpha[3]=1ms", "term 2 'alpha[3]=1ms': the same is changed twice"),
        ("regime=flat,regime=flat", "the same is changed twice"),
        ("\x1b[31m=0", "change '\\x1b[31m=0'"),
    ],
)  # fmt: skip
def test_refused_texts(text: str, said: str) -> None:
    assert said in refusal(lambda: parse_change(text))


@given(st.text('experts,alpha[2-4]*=0.5ms"model regime=flat', max_size=40))
def test_any_text_is_read_or_refused_in_words(text: str) -> None:
    try:
        change = parse_change(text)
    except InputError as error:
        faults = error.faults
    else:
        faults = ()
        assert parse_change(str(change)) == change
    assert all(fault.startswith("change '") for fault in faults)


def test_all_faults_are_said_at_once() -> None:
    said = refusal(lambda: parse_change("experts=x, alpha[4]*2,bogus=1, draft[3-4]=1ms", model=MODEL)).splitlines()
    assert [line.split("': ", 1)[0].split("', ")[1] for line in said] == [
        "term 1 'experts=x",
        "term 2 'alpha[4]*2",
        "term 3 'bogus=1",
        "term 4 'draft[3-4]=1ms",
    ]
    assert said[1].endswith(
        "the latency model has no m = 4; measured: m = 1, 2, 3, 5; name measured ones (nothing is interpolated)"
    )
    assert "the latency model has no k = 3; measured: k = 1, 2, 4;" in said[3]


def test_lengths_not_measured_are_refused_when_a_change_is_applied_too() -> None:
    changes = [parse_change(text) for text in ("alpha[4]*2", "experts=0", "draft[9]=1ms", "experts=0")]
    said = refusal(lambda: lanes_of(changes, COSTS, MODEL))
    assert (
        "1. change 'alpha[4]*2', term 1 'alpha[4]*2': the latency model has no m = 4; measured: m = 1, 2, 3, 5" in said
    )
    assert "2. change 'experts=0' is given 2 times; give it once" in said
    assert "3. change 'draft[9]=1ms', term 1 'draft[9]=1ms': the latency model has no k = 9" in said
    for call in (changes[0].as_is, changes[0].refitted, changes[0].notes):
        assert "the latency model has no m = 4" in refusal(lambda call=call: call(COSTS, MODEL))


def test_the_other_model_comes_first_and_says_what_is_measured(tmp_path) -> None:
    path = tmp_path / "other.json"
    replace(MODEL, m=(1, 2, 4, 5), fit=None).save(path)
    assert str(parse_change(f"model={path},alpha[4]*2", model=MODEL)) == f"model={path}, alpha[4]*2"
    changed = parse_change(f"model={path},alpha[4]*2").as_is(length_costs(MODEL, 0, 1), MODEL)
    assert changed.alpha_ms.tolist() == [0.25, 0.25]
    assert "has no m = 3; measured: m = 1, 2, 4, 5" in refusal(
        lambda: parse_change(f"model={path},alpha[3]*2", model=MODEL)
    )
    said = refusal(lambda: parse_change(f"experts=0,model={path}"))
    assert said.endswith("another model replaces all that was changed before it; write it first")
    path.write_text("{}")
    said = refusal(lambda: parse_change(f"model={path},alfa=1"))
    assert "1. change 'model=" in said
    assert "'alfa' is not a term" in said.splitlines()[-1]


def test_costs_beyond_all_numbers_are_refused() -> None:
    for text in ("base=1e308", "alpha[1]*1e308,experts=1e300", "context=1e308,context[2]*1e308"):
        with np.errstate(over="ignore"):
            said = refusal(lambda text=text: parse_change(text).as_is(COSTS, MODEL))
        assert said.endswith("gives a cost that is not a finite number; give smaller numbers")


def notes(text: str, model: LatencyModel = MODEL) -> tuple[str, ...]:
    return parse_change(text).notes(length_costs(model, 0, 4), model)


def test_notes_on_changes_that_change_nothing() -> None:
    dense = replace(MODEL, alpha_ms_per_expert=(0.0,) * 4)
    assert notes("experts=0", dense) == (
        "experts=0 changes nothing: experts cost nothing in this model, as for a dense target",
    )
    assert notes("reject=0") == ("reject=0 changes nothing: reject costs nothing in this model",)
    assert notes("draft=1") == (
        "draft=1 changes nothing: the coefficients are what they were, or no allowed length has them",
    )
    assert (
        parse_change("alpha[5]*2").notes(length_costs(MODEL, 0, 2), MODEL)[0].startswith("alpha[5]*2 changes nothing")
    )
    assert notes("draft=0.5") == ()


def test_notes_on_what_a_change_rests_on() -> None:
    loan = (
        "alpha at m = 1 is borrowed from m = 2: only beta0 + alpha · U is measured there; what the change does at the "
        "boundary 0 → 1 rests on that loan"
    )
    assert loan in notes("experts=0")
    assert notes("experts=0, base=2").count(loan) == 1
    assert loan not in notes("alpha[2-3]*0.5")
    negative = "alpha is negative at m = 5 after the change (least: -0.25 ms at m = 5)"
    assert any(note.startswith(negative) for note in notes("experts=2"))
    assert any(note.startswith("beta0 is negative at m = 1, 2 after") for note in notes("beta0[1-2]=-1ms"))
    assert notes("context=0")[0] == (
        "one context coefficient for all m, before and after: the context term of every decision is zero; decisions "
        "move only because each further round costs more or less"
    )
    assert "one context" not in " ".join(notes("context[2]=0.1ms"))


def test_notes_on_the_regimes_say_what_was_averaged_and_what_the_line_misses() -> None:
    rows = [{"m": m, "rounds": 10 * m, "mean_unique_experts": 3.0 + m} for m in MODEL.m]
    flat = notes("regime=flat", replace(MODEL, fit=dict(MODEL.fit or {}, per_m=rows)))
    alpha = (0.25 * 20 + 0.5 * 30 - 0.125 * 50) / 100
    assert flat[0].startswith(
        f"regime=flat: alpha is {alpha:.4g} ms per expert, the mean over m = 2, 3, 5 weighted by rounds; beta0 is a "
    )
    line = np.polyval(np.polyfit([2, 3, 5], [3, 3.5, 5], 1, w=np.sqrt([20, 30, 50])), [1, 2, 3, 5])
    off = line - [2, 3, 3.5, 5] - ([0.25, 0.25, 0.5, -0.125] - np.array(alpha)) * [4, 5, 6, 8]
    worst = int(np.abs(off).argmax())
    assert (
        f"as is: no line fits every m; farthest off, a mean round at m = {MODEL.m[worst]} costs {off[worst]:+.2g} ms"
        in (flat[1])
    )
    assert flat[2].startswith("regime=flat, refitted: no line fits every m")
    assert "weighted equally" in notes("regime=flat")[0]
