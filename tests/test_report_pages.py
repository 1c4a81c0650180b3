"""What reports are made with: SVG inside a page, data in links, panels token by token, the rule of the summary."""

import base64
import csv
import io
import json
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from report_traces import recorded

from oracle.pages import Policies
from oracle.pages.downloads import csv_text, data_uri, json_text
from oracle.pages.headline import _what_else, setting
from oracle.pages.html import cells_of, content_security_policy, tokens_of
from oracle.pages.inline import inline_svg, width_of
from oracle.panels import Panel, Token, marks_of
from oracle.tables import Table, number, words
from oracle.tuning import deployment

EVIL = """<?xml version="1.0"?><!DOCTYPE svg>
<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"
 width="72pt" height="36pt" onload="x()">
<!-- a comment --><metadata>m</metadata><style>*{color:red}</style><script>x()</script>
<defs><clipPath id="c"><path id="p" d="M0 0"/></clipPath></defs>
<g clip-path="url(#c)" onclick="x()"><use xlink:href="#p"/><text>&lt;script&gt; a &amp; b</text></g>
<image xlink:href="https://evil.example/x.png"/><image xlink:href="data:image/png;base64,AA=="/>
<foreignObject><body/></foreignObject><a href="javascript:x()"><path d="M1 1"/></a></svg>"""


def test_an_svg_inside_a_page_neither_acts_nor_asks_nor_shares_its_names(tmp_path: Path) -> None:
    path = tmp_path / "f.svg"
    path.write_text(EVIL)
    markup = str(inline_svg(path, "fig-1", 'says "this"'))
    root = ET.fromstring(markup)
    assert root.attrib["aria-label"] == 'says "this"'
    assert root.attrib["role"] == "img"
    assert {e.attrib["id"] for e in root.iter() if "id" in e.attrib} == {"fig-1-c", "fig-1-p"}
    assert 'clip-path="url(#fig-1-c)"' in markup
    assert 'xlink:href="#fig-1-p"' in markup
    assert "&lt;script&gt; a &amp; b" in markup
    assert "data:image/png;base64,AA==" in markup
    for gone in (
        "evil.example",
        "javascript:",
        "onclick",
        "onload",
        "<script",
        "<style",
        "metadata",
        "comment",
        "foreign",
    ):
        assert gone not in markup
    assert width_of(path) == 96


def test_data_in_links_are_the_rows_at_full_precision() -> None:
    rows = [
        {"name": "=1+1", "x": 0.1 + 0.2, "n": 3, "low": None, "list": ["a", 1]},
        {"name": 'a "b", c\nd', "x": float("nan"), "n": -3, "low": 2.0, "list": []},
        {"name": "+x", "x": -1e-12, "n": 0, "low": True, "list": None},
    ]
    table = Table("t", "T", (words("name", "name"),), rows)
    read = list(csv.DictReader(io.StringIO(csv_text(table))))
    assert [row["name"] for row in read] == ["'=1+1", 'a "b", c\nd', "'+x"]
    assert [row["x"] for row in read] == ["0.30000000000000004", "", "-1e-12"]
    assert [row["n"] for row in read] == ["3", "-3", "0"]
    assert json.loads(read[0]["list"]) == ["a", 1]
    assert json.loads(json_text(table))["rows"][0] == rows[0]
    assert json.loads(json_text(table))["rows"][1]["x"] is None
    link = data_uri("ä,=\n", "text/csv")
    assert base64.b64decode(link.partition(",")[2]).decode() == "ä,=\n"


def test_a_table_on_the_page_shows_the_cells_that_people_read() -> None:
    table = Table(
        "t", "T\x1b", (words("what", "what"), number("ms\na token", "ms")), [{"what": "a\x00", "ms": 1.23456}]
    )
    cells = cells_of(table)
    assert cells["title"] == "T\\x1b"
    assert cells["heads"] == ["what", "ms a token"]
    assert cells["rows"] == [["a\\x00", "1.235"]]
    assert cells["words"] == [True, False]


def panel(k: int, changed: int, mode: int) -> Panel:
    target = tuple(Token(f"t{j}", j) for j in range(4))
    draft = (Token("t0", 0), Token("x", 9), Token("t2", 2))
    nothing = np.array([0.9, np.nan, 0.5])
    return Panel("P", "", (), target, draft, marks_of(target, draft), nothing, np.arange(4.0), k, changed, mode)


def test_steps_of_a_panel_carry_marks_signs_and_lines() -> None:
    steps = tokens_of(panel(1, 3, 2))
    assert [step["kind"] for step in steps] == ["match", "mismatch", "after", "none"]
    assert [step["sign"] for step in steps] == ["=", "×", "·", None]
    assert [step["beyond"] for step in steps] == [False, True, True, True]
    assert [step["match_prob"] for step in steps] == ["0.90", "–", "0.50", "–"]
    assert [[kind for kind, _ in step["lines"]] for step in steps] == [[], ["cut"], ["mode"], ["changed"]]


def test_lines_behind_the_last_token_are_drawn_too() -> None:
    steps = tokens_of(panel(3, 3, 4))
    assert [step["only_lines"] for step in steps] == [False] * 4 + [True]
    assert steps[3]["lines"] == [("cut", "k* = 3")]  # k0* = k* has no line of its own
    assert steps[4]["lines"] == [("mode", "modal advance 4")]


def test_what_to_set_is_the_answer_of_the_policies_command_whatever_recorded_matches_say() -> None:
    found = setting(recorded())
    assert found is not None
    assert found.policy is not None
    assert found.on_matches is not None
    assert (found.on_matches.policy, found.on_matches.reference) == (found.policy.family, "static:0")
    slower = replace(found.on_matches, ms_per_token=0.001)
    for matches, warned in ((None, False), (found.on_matches, False), (slower, True)):
        other = replace(found, on_matches=matches)
        assert other.chosen == found.policy.chosen_on_all == found.expected.setting
        assert _what_else(other).endswith(": measure it before deploying.") == warned


def test_the_difference_on_recorded_matches_is_that_of_greedy_texts_held_out() -> None:
    found, policies = setting(recorded()), recorded().policies
    assert found is not None
    assert found.policy is not None
    assert found.on_matches is not None
    assert isinstance(policies, Policies)
    assert policies.realised is not None
    greedy = [g for g, decoding in enumerate(policies.realised.decoding) if decoding == "greedy"]
    assert 0 < len(greedy) < len(policies.realised.decoding)
    totals = policies.realised.totals
    spent = totals.total_ms[greedy].sum(axis=0)
    difference = spent[totals.policies.index(found.policy.family)] - spent[totals.policies.index("static:0")]
    assert found.on_matches.ms_per_token == pytest.approx(difference / totals.tokens[greedy].sum(), rel=1e-9)


def test_a_policy_that_expectation_does_not_deploy_is_only_reported() -> None:
    found = setting(recorded())
    assert found is not None
    few = [
        replace(
            one,
            against_static=replace(one.against_static, clusters=9),  # fewer than the rule asks for
            against_off=one.against_off and replace(one.against_off, clusters=9),
        )
        for one in found.tuning.families
    ]
    tuning = replace(found.tuning, families=tuple(few), clusters=9)
    expected = deployment(tuning)
    other = replace(found, tuning=tuning, expected=expected, policy=expected.runner_up)
    assert not other.replaces
    assert other.chosen == expected.setting == "static:0"


def test_the_policy_of_the_page_allows_nothing_but_its_own_style() -> None:
    policy = content_security_policy("body {}")
    assert policy.startswith("default-src 'none'; style-src-elem 'sha256-")
    assert not re.search(r"script-src|https?:|\*|unsafe-eval|connect-src", policy)
