"""The tokens labelled by hand: well-formed, complete, true to the traces and to the definitions beside them."""

import json
import re
import unicodedata
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from labelled_tokens.draw import draw, read_snippets

HERE = Path(__file__).parent / "labelled_tokens"
TRACES = Path(__file__).parents[1] / "cases" / "tiny-moe" / "traces.parquet"

MODES_OF = {
    "mode_change": {"code", "prose", "markup", "formula"},
    "script_change": {"code", "prose", "markup", "formula"},
    "markup": {"markup", "prose", "code"},  # a Markdown sign stays in prose, a fence in code
    "formula": {"formula"},
    "code_formatting": {"code"},
    "code_comment": {"code"},
    "code_structure": {"code"},
    "code_vocabulary": {"code"},
    "prose_boundary": {"prose"},
    "prose_vocabulary": {"prose"},
}
FLAGS = {"function_start", "control_flow", "comment", "word_continuation", "unsure"}
READ = {"label", "mode", "from_mode", "script", "script_before", "flags"}
SCRIPTS = {
    "LATIN": "Latin",
    "CYRILLIC": "Cyrillic",
    "GREEK": "Greek",
    "ARABIC": "Arabic",
    "CJK": "Han",
    "HIRAGANA": "Hiragana",
}
KANA_AND_HAN = {"Han", "Hiragana"}


@pytest.fixture(scope="module")
def sample():
    return [json.loads(line) for line in (HERE / "sample.jsonl").read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def texts():
    """Token texts by source and name."""
    traces = pq.read_table(TRACES, columns=["generation", "token_text"]).to_pylist()
    recorded = {("trace", trace["generation"]): trace["token_text"] for trace in traces}
    return recorded | {("snippet", name): pieces for name, (pieces, _) in read_snippets().items()}


def scripts(text):
    names = (unicodedata.name(c).split()[0] for c in text if c.isalpha())
    return [SCRIPTS[name] for name in names]


def text_before(row, texts):
    return "".join(texts[row["source"], row["name"]][: row["position"]])


def test_the_draw_gives_the_same_rows_in_the_same_order(sample):
    assert [{key: row[key] for key in row if key not in READ} for row in sample] == draw()


def test_tokens_are_those_of_the_trace_and_never_the_first(sample):
    columns = ["generation", "category", "decoding", "token_id", "token_text"]
    traces = {trace["generation"]: trace for trace in pq.read_table(TRACES, columns=columns).to_pylist()}
    for row in (row for row in sample if row["source"] == "trace"):
        trace, t = traces[row["name"]], row["position"]
        assert t > 0
        assert (trace["token_id"][t], trace["token_text"][t]) == (row["token_id"], row["token"])
        assert (trace["category"], trace["decoding"]) == (row["category"], row["decoding"])
        assert "".join(trace["token_text"][:t]).endswith(row["before"])
        assert "".join(trace["token_text"][t + 1 :]).startswith(row["after"])
        assert len(row["before"]) <= 60
        assert len(row["after"]) <= 30


def test_pieces_of_a_snippet_are_its_text():
    written = (HERE / "snippets.txt").read_text(encoding="utf-8").translate({ord("⟦"): None, ord("⟧"): None})
    snippets = read_snippets()
    assert "".join(f"%%%% {name}\n{''.join(pieces)}\n" for name, (pieces, _) in snippets.items()) == written
    assert all(marked for _, marked in snippets.values())


def test_every_kind_is_there(sample):
    real = [row for row in sample if row["source"] == "trace"]
    assert len(real) >= 400
    assert len(sample) - len(real) >= 120
    assert len({(row["source"], row["name"], row["position"]) for row in sample}) == len(sample)
    assert {row["label"] for row in sample} == set(MODES_OF)
    assert {flag for row in sample for flag in row["flags"]} == FLAGS
    cells = Counter((row["category"], row["decoding"]) for row in real)
    assert len(cells) == 10
    assert min(cells.values()) >= 35
    named = {(row["category"], row["decoding"], row["name"]) for row in real}
    assert min(Counter((category, decoding) for category, decoding, _ in named).values()) >= 5


def test_modes_and_flags_fit_the_labels(sample):
    for row in sample:
        label, flags = row["label"], set(row["flags"])
        assert flags <= FLAGS, row
        assert row["mode"] in MODES_OF[label], row
        assert (row["from_mode"] is not None) == (label == "mode_change"), row
        assert row["from_mode"] != row["mode"], row
        assert label != "code_comment" or "comment" in flags, row
        assert not flags & {"function_start", "control_flow"} or (row["mode"] == "code" and "comment" not in flags), row
        blank = row["token"].isspace()
        assert not (blank and label in {"mode_change", "script_change", "code_structure", "code_vocabulary"}), row
        assert label != "code_formatting" or blank, row
        assert not (label == "prose_vocabulary" and "\n" in row["token"]), row


def test_scripts_are_those_of_the_letters(sample, texts):
    for row in sample:
        own, before = scripts(row["token"]), scripts(text_before(row, texts))
        assert row["script"] == (own[0] if own else "Unknown" if "\ufffd" in row["token"] else "Common"), row
        assert row["script_before"] == (before[-1] if before else None), row
        together = {row["script"], row["script_before"]} <= KANA_AND_HAN
        differs = bool(own and before) and own[0] != before[-1] and not together
        assert row["label"] == "mode_change" or differs == (row["label"] == "script_change"), row


def test_continued_words_are_those_without_a_break(sample, texts):
    for row in sample:
        joined = re.search(r"[\w\ufffd]\Z", text_before(row, texts)) and re.match(r"[\w\ufffd]", row["token"])
        expected = bool(joined) and row["script"] not in KANA_AND_HAN
        assert ("word_continuation" in row["flags"]) == expected, row


def test_counts_in_the_definitions_are_those_of_the_sample(sample):
    page = (HERE / "README.md").read_text(encoding="utf-8")
    counts = Counter((row["label"], row["source"]) for row in sample)
    stated = re.findall(r"^\| `(\w+)` \| (\d+) \| (\d+) \|$", page, re.MULTILINE)
    assert stated == [(label, str(counts[label, "trace"]), str(counts[label, "snippet"])) for label in MODES_OF]
    real = sum(row["source"] == "trace" for row in sample)
    assert f"{real} tokens of 78 generations and {len(sample) - real} of {len(read_snippets())} snippets." in page
    assert f"{sum('unsure' in row['flags'] for row in sample)} rows are `unsure`" in page
