import json
import math
from dataclasses import replace

import numpy as np
import pytest

from oracle.errors import InputError
from oracle.latency.model import DraftLine, DraftTable, LatencyModel, missing_m_error

BY_HAND = """
{"format": "draft-oracle/latency-model", "version": 1,
 "verify": {"m": [1, 2, 4], "beta0_ms": [5.7, 7.3, 8.9], "alpha_ms_per_expert": [0.08, 0.08, 0.09],
            "context_ms_per_token": 0.0011},
 "draft": {"ms_per_token": 0.459, "base_ms": 0.073}}
"""


def by_hand(**changes):
    """The hand-typed model with some keys replaced; a dotted key reaches into verify or draft, None removes it."""
    tree = json.loads(BY_HAND)
    for path, value in changes.items():
        *outer, key = path.split("__")
        place = tree[outer[0]] if outer else tree
        if value is None:
            del place[key]
        else:
            place[key] = value
    return json.dumps(tree)


def faults_of(text):
    with pytest.raises(InputError) as fault:
        LatencyModel.from_json(text, "model.json")
    return list(fault.value.faults)


def test_a_hand_typed_model_prices_rounds():
    model = LatencyModel.from_json(BY_HAND, "model.json")
    assert model.m == (1, 2, 4)
    assert model.draft_lengths == (0, 1, 3)
    assert [model.has(k) for k in range(5)] == [True, True, False, True, False]
    assert model.draft_ms(0) == 0.0
    assert model.draft_ms(3) == 0.459 * 3 + 0.073
    assert model.coefficients(4) == (8.9, 0.09, 0.0011)
    assert model.context_of(2) == 0.0011
    assert (model.reject_ms, model.fit) == (0.0, None)


def test_a_table_of_draft_times_and_context_for_each_m():
    draft = {"k": [1, 2], "ms": [1.4, 2.5]}
    model = LatencyModel.from_json(by_hand(draft=draft, verify__context_ms_per_token=[0.1, 0.2, 0.3], reject_ms=0.25))
    assert model.draft == DraftTable((1, 2), (1.4, 2.5))
    assert model.draft_lengths == (0, 1)  # no draft time for k = 3, no m = 3 for k = 2
    assert [model.context_of(m) for m in model.m] == [0.1, 0.2, 0.3]
    assert model.reject_ms == 0.25
    with pytest.raises(InputError) as fault:
        model.draft_ms(3)
    assert str(fault.value) == (
        "the latency model has no draft time for k = 3; measured: k = 1, 2; record rounds with draft length 3 and fit "
        "again, or lower --k-max"
    )


def test_a_model_without_m_1_has_no_k_0():
    model = LatencyModel((2, 3), (1.0, 1.0), (0.1, 0.1), 0.0, DraftLine(0.5, 0.0))
    assert model.draft_lengths == (1, 2)
    assert missing_m_error(model, 1, "model.json") == (
        "model.json: the latency model has no m = 1 (k = 0); measured: m = 2, 3; record rounds with draft length 0 and "
        "fit again, or set --k-min 1"
    )


def test_an_m_that_was_not_measured_is_never_made_up():
    model = LatencyModel.from_json(BY_HAND)
    with pytest.raises(InputError) as fault:
        model.coefficients(3)
    assert str(fault.value) == (
        "the latency model has no m = 3 (k = 2); measured: m = 1, 2, 4; record rounds with draft length 2 and fit "
        "again, "
        "or lower --k-max"
    )


def test_what_is_written_reads_back_the_same(tmp_path):
    fit = {
        "rounds": 3,
        "covariance_cr3": [[0.1, None], [None, 2e-17]],
        "none": [],
        "empty": {},
        "said": ['a "quoted" µ'],
    }
    model = replace(LatencyModel.from_json(BY_HAND), fit=fit, beta0_ms=(0.1 + 0.2, 1 / 3, 1e-300))
    path = tmp_path / "folder" / "model.json"
    model.save(path)
    assert LatencyModel.load(path) == model
    assert path.read_text(encoding="utf-8") == model.to_json() == LatencyModel.load(path).to_json()
    assert [p.name for p in path.parent.iterdir()] == ["model.json"]


def test_the_file_is_readable():
    assert LatencyModel.from_json(BY_HAND).to_json() == (
        "{\n"
        '  "format": "draft-oracle/latency-model",\n'
        '  "version": 1,\n'
        '  "verify": {\n'
        '    "m": [1, 2, 4],\n'
        '    "beta0_ms": [5.7, 7.3, 8.9],\n'
        '    "alpha_ms_per_expert": [0.08, 0.08, 0.09],\n'
        '    "context_ms_per_token": 0.0011\n'
        "  },\n"
        '  "draft": {\n'
        '    "ms_per_token": 0.459,\n'
        '    "base_ms": 0.073\n'
        "  },\n"
        '  "reject_ms": 0.0\n'
        "}\n"
    )


def test_numbers_of_numpy_become_plain():
    model = LatencyModel(
        tuple(np.array([1, 2])),
        tuple(np.array([1.0, 2])),
        tuple(np.float32([0.5, 0.25])),
        np.float64(0.0),
        DraftLine(1, 0),
    )
    assert LatencyModel.from_json(model.to_json()) == model
    assert type(model.m[0]) is int


def test_nothing_half_written_when_a_value_is_not_json(tmp_path):
    model = replace(LatencyModel.from_json(BY_HAND), fit={"x": math.nan})
    with pytest.raises(ValueError, match="Out of range float values are not JSON compliant"):
        model.save(tmp_path / "model.json")
    assert list(tmp_path.iterdir()) == []


def test_all_faults_are_said_at_once():
    text = by_hand(
        verify__m=[1, 3, 3],
        verify__beta0_ms=[5.7, "7.3", True],
        verify__alpha_ms_per_expert=[0.08],
        verify__context_ms_per_token=None,
        verify__gamma=1,
        draft={"ms_per_token": 0.4, "slope": 1},
        reject_ms=-1,
        note="x",
    )
    assert faults_of(text) == [
        "model.json: note is not a key of a latency model; known here: format, version, verify, draft, reject_ms, fit",
        "model.json: verify.gamma is not a key of a latency model; known here: m, beta0_ms, alpha_ms_per_expert, "
        "context_ms_per_token",
        "model.json: verify.context_ms_per_token is missing; add it",
        "model.json: verify.m[2] is 3 after 3; values rise strictly",
        "model.json: verify.beta0_ms[1] is text; it is a number",
        "model.json: verify.beta0_ms[2] is true; it is a number",
        "model.json: verify.alpha_ms_per_expert has 1 values and verify.m has 3; they go together one by one",
        "model.json: draft.slope is not a key of a latency model; known here: ms_per_token, base_ms",
        "model.json: draft.base_ms is missing; add it",
        "model.json: reject_ms is -1; it is at least 0",
    ]


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"verify__m": [0, 1, 2]}, "verify.m[0] is 0; it is at least 1"),
        ({"verify__m": [1, 2.5, 3]}, "verify.m[1] is 2.5; it is a whole number"),
        ({"verify__m": 3}, "verify.m is a number; it is a list of numbers"),
        ({"verify": [1]}, "verify[0] is a number; it is an object"),
        ({"verify": 1}, "verify is a number; it is an object"),
        ({"draft": "fast"}, "draft is text; it is an object"),
        ({"draft": {"k": [1, 2], "ms": [1.0, -0.5]}}, "draft.ms[1] is -0.5; it is at least 0"),
        ({"draft": {"k": [0, 2], "ms": [1.0, 0.5]}}, "draft.k[0] is 0; it is at least 1"),
        ({"draft": {"k": [], "ms": []}}, "draft.k is empty; give at least one value"),
        ({"draft": {"k": [1]}}, "draft.ms is missing; add it"),
        ({"fit": [1]}, "fit is a list; it is an object"),
        (
            {"draft": {"ms_per_token": -0.5, "base_ms": 1.0}},
            "draft.ms_per_token and base_ms give -0.5 ms at k = 3; a time is not negative: give a table (k, ms) of "
            "measured "
            "draft times",
        ),
        ({"verify__context_ms_per_token": "c"}, "verify.context_ms_per_token is text; it is a number"),
        ({"format": "latency"}, 'format is \'latency\'; a latency model says "format": "draft-oracle/latency-model"'),
        ({"version": 2}, "version is 2; this program reads version 1; fit the rounds again with it"),
        ({"version": None}, "version is missing; this program reads version 1; fit the rounds again with it"),
    ],
)
def test_each_fault_in_words(changes, fault):
    assert faults_of(by_hand(**changes)) == [f"model.json: {fault}"]


def test_null_is_not_a_list_of_m():
    assert faults_of(BY_HAND.replace("[1, 2, 4]", "null")) == ["model.json: verify.m is null; it is a list of numbers"]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[]", "model.json: holds a list; a latency model is an object with format, version, verify and draft"),
        (
            "{",
            "model.json, line 1, column 2: not JSON (Expecting property name enclosed in double quotes); mend it there",
        ),
        ("", "model.json, line 1, column 1: not JSON (Expecting value); mend it there"),
        ('{"x": NaN}', "model.json: NaN is not a JSON number; write a finite number or null"),
        ('{"x": [-Infinity]}', "model.json: -Infinity is not a JSON number; write a finite number or null"),
        ('{"x": 1e999}', "model.json: 1e999 is beyond the largest number (1.8e308); write a smaller one"),
        ('{"x": 1, "x": 2}', "model.json: the key 'x' is given twice; keep one"),
        ("[" * 100_000, "model.json: JSON nested 100000 deep; at most 32 levels are read; flatten it"),
    ],
)
def test_json_is_read_strictly(text, fault):
    assert faults_of(text) == [fault]


def test_a_long_number_is_refused_and_brackets_in_text_do_not_nest():
    assert "has 5000 digits; write a smaller number" in faults_of('{"x": ' + "1" * 5000 + "}")[0]
    text = by_hand(fit={"note": '["\\' + "[" * 50})
    assert LatencyModel.from_json(text).fit == {"note": '["\\' + "[" * 50}


def test_files_that_cannot_be_read_are_named(tmp_path):
    with pytest.raises(
        InputError, match=r"no-such\.json: cannot be read \(No such file or directory\); check the path"
    ):
        LatencyModel.load(tmp_path / "no-such.json")
    (tmp_path / "bytes.json").write_bytes(b'{"format": "\xff"}')
    with pytest.raises(InputError, match=r"bytes\.json: is not UTF-8 text \(byte 12\); a latency model is a JSON file"):
        LatencyModel.load(tmp_path / "bytes.json")


def test_values_are_checked_in_python_too():
    with pytest.raises(InputError) as fault:
        LatencyModel((1, 2), (1.0,), (0.1, math.nan), 0.0, DraftLine(1.0, 0.0))
    assert list(fault.value.faults) == [
        "latency model: beta0_ms has 1 values and m has 2; they go together one by one",
        "latency model: alpha_ms_per_expert[1] is nan; it is a finite number",
    ]
