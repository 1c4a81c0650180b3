"""Language contexts of tokens: the definitions, one by one, and what holds of any text."""

import re
import time
import unicodedata
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle.contexts import FLAGS, NO_CHANGE, NO_SCRIPT, SCRIPTS, Label, Mode, contexts_of, label_definitions, labels_of
from oracle.contexts import name_of as word
from oracle.errors import InputError
from oracle.traces.reading import TraceFiles
from oracle.traces.traces import Traces

ROOT = Path(__file__).parents[1]
TRACES = ROOT / "cases" / "tiny-moe" / "traces.parquet"
SIGNS = [
    "`",
    "```\n",
    "<",
    ">",
    "<a ",
    '="',
    '"""',
    "'",
    "/*",
    "*/",
    "#",
    "$",
    "\\(",
    "\\[",
    "{",
    "(",
    "[",
    "](",
    "&",
    "def f(",
    "\t",
]
MODES_OF = {
    Label.FORMULA: {Mode.FORMULA},
    Label.CODE_FORMATTING: {Mode.CODE},
    Label.CODE_COMMENT: {Mode.CODE},
    Label.CODE_STRUCTURE: {Mode.CODE},
    Label.CODE_VOCABULARY: {Mode.CODE},
    Label.PROSE_BOUNDARY: {Mode.PROSE},
    Label.PROSE_VOCABULARY: {Mode.PROSE},
}

alphabet = st.sampled_from(
    [*SIGNS, "\n", "\n\n", " ", "    ", "ж", "a", "word", "λ", "語", "か", "\ufffd", "́", "7", ".", ",", "-"]
)
tokens = st.lists(st.one_of(alphabet, st.text(max_size=4)), max_size=40)


def labelled(texts):
    """Token texts with the names of their labels."""
    found = labels_of(texts)
    return [(text, word(Label(label))) for text, label in zip(texts, found.label, strict=True)]


def label_at(texts, t):
    return word(Label(labels_of(texts).label[t]))


def test_definitions_name_every_word_once_in_one_sentence():
    found = label_definitions()
    assert [d.name for d in found if d.kind == "label"] == [word(label) for label in Label]
    assert [d.name for d in found if d.kind == "mode"] == [word(mode) for mode in Mode]
    assert [d.name for d in found if d.kind == "flag"] == list(FLAGS)
    assert all(d.meaning and "\n" not in d.meaning and not d.meaning.endswith(".") for d in found)


def test_labels_stand_in_the_order_of_the_written_definitions():
    page = (ROOT / "tests" / "labelled_tokens" / "README.md").read_text(encoding="utf-8")
    section = page[page.index("## Labels") : page.index("## Flags")]
    assert re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE) == [word(label) for label in Label]
    flags = page[page.index("## Flags") : page.index("## How")]
    assert [name for name in re.findall(r"^- `(\w+)`:", flags, re.MULTILINE) if name != "unsure"] == list(FLAGS)


def test_a_mode_change_names_both_modes():
    texts = ["Call", " ", "`", "open", "`", " now", "."]
    found = labels_of(texts)
    assert [word(Mode(mode)) for mode in found.mode] == ["prose", "prose", "code", "code", "code", "prose", "prose"]
    assert [t for t in range(len(texts)) if found.from_mode[t] != NO_CHANGE] == [2, 5]
    assert found.from_mode[[2, 5]].tolist() == [Mode.PROSE, Mode.CODE]
    assert found.label[[2, 5]].tolist() == [Label.MODE_CHANGE] * 2


def test_a_token_across_two_modes_is_a_change_into_the_second():
    texts = ["<p>", "Read", " it", ".</", "p>"]
    found = labels_of(texts)
    assert (found.label[3], found.from_mode[3], found.mode[3]) == (Label.MODE_CHANGE, Mode.PROSE, Mode.MARKUP)


def test_the_first_token_changes_nothing():
    found = labels_of(["def", " f", "():"])
    assert found.label[0] == Label.CODE_STRUCTURE
    assert found.script_before[0] == NO_SCRIPT


def test_a_change_of_script_looks_past_what_lies_between():
    assert labelled(["В", " 2", ".", "6", " (", "Linux", ")", " и"])[5:] == [
        ("Linux", "script_change"),
        (")", "prose_vocabulary"),
        (" и", "script_change"),
    ]


def test_han_and_kana_are_one_script():
    found = labels_of(["この", "関数", "は"])
    assert not (found.label == Label.SCRIPT_CHANGE).any()
    assert [SCRIPTS[code] for code in found.script] == ["Hiragana", "Han", "Hiragana"]
    assert not found.word_continuation.any()


def test_a_script_is_the_unicode_property_not_a_name():
    # U+2126 OHM SIGN is a Greek letter, U+1D400 MATHEMATICAL BOLD CAPITAL A and U+00B5 MICRO SIGN are of no script.
    found = labels_of(["Ω", "𝐀", "µ", "ʼ", "ﬁ"])
    assert [SCRIPTS[code] for code in found.script] == ["Greek", "Common", "Common", "Common", "Latin"]


def test_a_piece_of_a_character_takes_the_label_of_its_stretch():
    assert label_at(["Буквы", " \ufffd", "\ufffd", " тут"], 2) == "prose_vocabulary"
    found = labels_of(["name", " =", ' "', "\ufffd", "\ufffd", '"'])
    assert [word(Label(label)) for label in found.label[3:5]] == ["code_vocabulary"] * 2
    assert [SCRIPTS[code] for code in found.script[3:5]] == ["Unknown"] * 2
    assert found.word_continuation[4]


@pytest.mark.parametrize(
    ("texts", "t", "expected"),
    [
        (["One", ",", " two"], 1, "prose_boundary"),
        (["In", " 2", ".", "6"], 2, "prose_vocabulary"),
        (["(see", " it", ").", " Then"], 2, "prose_boundary"),
        (["He", " —", " she"], 1, "prose_boundary"),
        (["well", "-", "known"], 1, "prose_vocabulary"),
        (["a", " list", "»\n", "more"], 2, "prose_boundary"),
        (["one", "\t", "two"], 1, "prose_boundary"),
        (["one", "\tTwo", " three"], 1, "prose_vocabulary"),
        (["one", "\n", "   ", "two"], 2, "prose_boundary"),
        (["字符串", "。", "如果"], 1, "prose_boundary"),
        (["اسم", "،", " ثم"], 1, "prose_boundary"),
        (["done", "<|endoftext|>"], 1, "prose_boundary"),
    ],
)
def test_boundaries_of_prose(texts, t, expected):
    assert label_at(texts, t) == expected


@pytest.mark.parametrize(
    ("texts", "t", "expected"),
    [
        (["## ", "Title", "\n\nText."], 0, "markup"),
        (["See", " [", "the page", "](", "https://a.org", ")", "."], 3, "markup"),
        (["A", " **", "bold", "**", " word"], 3, "markup"),
        (["Text", "\n", "- ", "item", "\n", "- ", "item"], 5, "markup"),
        (["Less", " &", "lt", ";", " more"], 2, "markup"),
        ([".TP", "\n", "The", " option."], 0, "markup"),
        (["Say", " \\", "emph", " it"], 2, "markup"),
        (["five", " * ", "six"], 1, "prose_vocabulary"),
    ],
)
def test_signs_of_markup_stay_in_prose(texts, t, expected):
    found = labels_of(texts)
    assert word(Label(found.label[t])) == expected
    assert set(found.mode.tolist()) == {Mode.PROSE}


@pytest.mark.parametrize(
    "formula", ["$x^2$", r"\(x^2\)", r"\[x^2\]", "$$x^2$$", r"\begin{align}x^2\end{align}", "x = 2"]
)
def test_formulas_with_their_delimiters(formula):
    texts = ["The value", " ", *formula, " is", " known."]
    found = labels_of(texts)
    inner = slice(2, 2 + len(formula))
    assert (found.mode[inner] == Mode.FORMULA).all()
    assert found.label[inner].tolist() == [Label.MODE_CHANGE] + [Label.FORMULA] * (len(formula) - 1)
    assert found.label[2 + len(formula)] == Label.MODE_CHANGE


@pytest.mark.parametrize(
    "text", ["It costs $5 and then $6 more.", "A name like $HOME is known.", "The letter x is known."]
)
def test_amounts_and_names_are_no_formula(text):
    assert Mode.FORMULA not in labels_of([text[:9], *text[9:]]).mode


def test_recorded_traces_are_labelled_generation_by_generation():
    files = TraceFiles([TRACES])
    for traces in files:
        found = contexts_of(traces)
        assert [len(labels) for labels in found] == np.diff(traces.offsets).tolist()
        texts = traces.table.column("token_text")[0].as_py()
        np.testing.assert_array_equal(found[0].label, labels_of(texts).label)
        assert not found[0].label.flags.writeable


def test_traces_without_texts_are_refused():
    frame = {"generation": ["a"], "match_kind": ["greedy"], "context_start": [1], "match_prob": [[0.5]]}
    traces = Traces.from_arrow(pa.table(frame), "t.parquet")
    with pytest.raises(InputError) as caught:
        contexts_of(traces)
    assert str(caught.value) == (
        "t.parquet: language contexts need the column token_text (texts of the tokens the target emitted), which the "
        "trace lacks; record it, or decode token_id with the target's tokenizer"
    )


def test_nothing_is_labelled_in_an_empty_generation():
    assert len(labels_of([])) == 0
    assert labelled(["", ""]) == [("", "prose_vocabulary")] * 2


@settings(max_examples=300)
@given(tokens)
def test_labels_modes_and_flags_go_together(texts):
    found = labels_of(texts)
    assert len(found) == len(texts)
    for t, text in enumerate(texts):
        label, mode = Label(found.label[t]), Mode(found.mode[t])
        assert mode in MODES_OF.get(label, set(Mode)) or found.from_mode[t] != NO_CHANGE
        assert (label == Label.MODE_CHANGE) == (found.from_mode[t] != NO_CHANGE)
        assert found.from_mode[t] != mode
        assert t == 0 or (found.mode[t - 1] == mode) == (label != Label.MODE_CHANGE)
        if not text.strip():
            assert label not in {Label.MODE_CHANGE, Label.SCRIPT_CHANGE, Label.CODE_STRUCTURE, Label.CODE_VOCABULARY}
        assert label != Label.CODE_FORMATTING or not text.strip()
        assert not (label == Label.PROSE_VOCABULARY and "\n" in text)


@given(
    st.lists(st.sampled_from(["a", "é", "ж", "λ", "7", " ", "_", "-", "\ufffd", "́"]).map(lambda c: c * 2), max_size=20)
)
def test_scripts_and_continued_words_from_the_definition(texts):
    names = {"LATIN": "Latin", "CYRILLIC": "Cyrillic", "GREEK": "Greek"}
    found = labels_of(texts)
    before, last = "", None
    for t, text in enumerate(texts):
        letters = [names[unicodedata.name(c).split()[0]] for c in text if c.isalpha()]
        own = letters[0] if letters else "Unknown" if "\ufffd" in text else "Common"
        assert SCRIPTS[found.script[t]] == own
        assert (None if found.script_before[t] == NO_SCRIPT else SCRIPTS[found.script_before[t]]) == last
        joined = bool(re.search(r"[\w\ufffd]\Z", before) and re.match(r"[\w\ufffd]", text))
        assert found.word_continuation[t] == joined
        before, last = before + text, letters[-1] if letters else last


@given(tokens, st.data())
def test_the_mode_of_a_place_does_not_depend_on_how_the_text_is_cut(texts, data):
    text = "".join(texts)
    cut = sorted(data.draw(st.sets(st.integers(0, len(text)))) | {0, len(text)})
    pieces = [text[a:b] for a, b in pairwise(cut)]
    by_character = labels_of(list(text)).mode
    np.testing.assert_array_equal(labels_of(pieces).mode, by_character[np.array(cut[1:], int) - 1][: len(pieces)])


@pytest.mark.parametrize("sign", [*SIGNS, "a ", "é ", "\n", " ", "\\", "x = 1 + ", "<!--", "$a", "- ", "https://a"])
def test_time_grows_with_the_text_whatever_it_repeats(sign):
    started = time.perf_counter()
    labels_of([sign] * (20_000 // len(sign)))
    assert time.perf_counter() - started < 20  # seconds where a pattern backtracks; otherwise under one
