"""What is shown of contrasts: tables, findings beside the source's, figures; and the recorded traces of tiny-moe."""

import json
import math
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from test_contrasts import MODEL, K, recorded
from traces_factory import lists, trace_table

from oracle.contexts import Mode, contexts_of
from oracle.contrasts import ALL, Contrasts, Difference, Group, contrasts
from oracle.contrasts.estimates import Estimate
from oracle.contrasts.findings import CLAIMS, DOES_NOT, SHOWS, UNDECIDED, Finding, counted, findings
from oracle.contrasts.steps import AFTER, AT, MISMATCHES
from oracle.costs import LengthRange, choose_range, length_costs
from oracle.figures.contrasts import experts_figure, lengths_figure
from oracle.latency.model import DraftLine, LatencyModel
from oracle.problem import make_problem
from oracle.solver import solve
from oracle.summaries.contrasts import contrast_tables
from oracle.tables import as_json_text, render
from oracle.traces import TraceFiles, Traces

TINY = Path(__file__).parents[1] / "cases" / "tiny-moe" / "traces.parquet"

M = tuple(range(1, 12))
TINY_MODEL = LatencyModel(M, tuple(4 + 0.1 * i for i in M), (0.1,) * 11, 0.001, DraftLine(0.1, 0.1))


@cache
def shown() -> Contrasts:
    return contrasts([recorded(0)], MODEL, choose_range(MODEL, K))


@cache
def tiny() -> Contrasts:
    """With costs that make drafts of every length pay somewhere."""
    return contrasts(TraceFiles(TINY), TINY_MODEL, LengthRange(0, 10))


def test_the_tables_say_what_they_are() -> None:
    tables = contrast_tables(shown())
    assert [table.name for table in tables] == [
        "findings",
        "lengths_by_context",
        "length_differences",
        "length_differences_within",
        "new_experts_by_step",
        "new_experts_by_context",
        "new_experts_at_mismatch",
    ]
    text = re.sub(r"\s+", " ", render(tables))
    for said in (
        "Findings of the source (arXiv 2609.22156) beside these traces",
        "0.718 [0.614; 0.818] against 0.193 [0.119; 0.276]",
        "its odds ratio on the share here; experts scaled from its top-8 to top-2",
        "draft lengths here: 0 … 4, there: 1 … 10",
        "Cost-optimal draft length by language context, 149 decisions, each position once",
        "a decision at t belongs to the token at t, the first one that its round emits",
        "Draft length by language context: differences within generations",
        "step 0 is left out: 2 by construction",
        "routing: along the text; recorded: of the tokens really verified",
        "the row after is the first that reads the wrong token",
        "95 % intervals from 2,999 bootstrap resamples of 5 clusters",
        "n.s.: not significant at 5 % after Holm's correction over all groups of one kind",
        "fewer than 10 clusters, intervals too narrow: all, label",
    ):
        assert said in text
    assert " few " in text
    assert set(re.findall("shows|does not show|not decidable here", render(tables[:1]).split("shows:")[0])) == {
        "not decidable here"  # five clusters decide nothing
    }


def test_json_holds_everything_that_a_cell_is_made_of() -> None:
    found = shown()
    tables = json.loads(as_json_text(contrast_tables(found)))["tables"]
    rows = {(r["kind"], r["group"], r["against"]): r for r in tables["length_differences_within"]["rows"]}
    for one in found.differences:
        key = (*one.group, one.against)
        assert (key in rows) == (one.within.weight > 0)
        if key in rows:
            row, held = rows[key], one.within.difference
            assert row[one.measure] == pytest.approx(held.value)
            assert row[f"{one.measure}_mean"] - row[f"{one.measure}_against"] == pytest.approx(held.value, abs=1e-12)
            assert row[f"{one.measure}_low"] == (None if held.interval is None else held.interval.low)
            assert row[f"{one.measure}_p_holm"] == one.within.p_holm
            assert row[f"{one.measure}_word"] == one.within.word
            assert f"visit_{one.measure}_p" in row
    shares = {(r["kind"], r["group"]): r for r in tables["lengths_by_context"]["rows"]}
    for mean, visit in zip(found.means, found.visit_means, strict=True):
        assert shares[tuple(mean.group)][mean.measure] == pytest.approx(mean.mean.value)
        assert shares[tuple(visit.group)][f"visit_{visit.measure}"] == pytest.approx(visit.mean.value)
    mismatches = tables["new_experts_at_mismatch"]["rows"]
    assert len(mismatches) == len(MISMATCHES) * 3  # recorded and routing by drafts, routing by match probability


def test_nothing_is_shown_of_no_positions() -> None:
    empty = lists((0, 0), pa.array([], pa.string()))
    nothing = contrasts([Traces.from_arrow(trace_table((0, 0), K=K, token_text=empty))], MODEL, choose_range(MODEL, K))
    assert contrast_tables(nothing) == []


def test_a_name_from_a_file_is_no_markup() -> None:
    """Names of groups come from our own vocabulary, so nothing from a text reaches a table."""
    table = recorded(0).table
    hostile = [["<script>alert(1)</script>\x1b[31m"] * len(row) for row in table["token_text"].to_pylist()]
    at = table.column_names.index("token_text")
    table = table.set_column(at, "token_text", pa.array(hostile, pa.list_(pa.string())))
    text = render(contrast_tables(contrasts([Traces.from_arrow(table)], MODEL, choose_range(MODEL, K))))
    assert "alert" not in text
    assert "\x1b" not in text


def test_findings_take_the_scaled_effect_and_the_right_comparison() -> None:
    found = tiny()
    rows = findings(found.differences, found.experts, found.drafted, 4)
    by_name = {one.claim.name: one for one in rows if one.measure != "recorded"}
    assert list(by_name) == [claim.name for claim in CLAIMS]
    recorded_too = {one.claim.name for one in rows if one.measure == "recorded"}
    assert recorded_too == {claim.name for claim in CLAIMS if claim.about != "lengths"}
    script = by_name["Latin ↔ Cyrillic: more new experts"]
    assert script.effect == pytest.approx(0.46 * 4 / 8)
    assert script.measure == "routing"
    (same,) = [c for c in found.experts if (c.group.name, c.measure) == ("Cyrillic ↔ Latin", "routing")]
    assert (script.pooled, script.within) == (same.pooled, same.within)
    code = by_name["code formatting: longer drafts than prose vocabulary (k* >= 4)"]
    a, b = code.pooled.against.value + code.effect, code.pooled.against.value
    assert a / (1 - a) / (b / (1 - b)) == pytest.approx(0.718 / 0.282 / (0.193 / 0.807))  # the source's odds ratio
    assert by_name["control flow: longer drafts than elsewhere (k* >= 4)"].effect is None
    mismatch = by_name["first mismatch: no spike against the step before"]
    assert mismatch.measure == "routing"
    assert mismatch.pooled.clusters == 39


def test_recorded_and_routed_experts_part_where_the_wrong_token_is_read() -> None:
    found = tiny()

    def of(group: Group, measure: str) -> Difference:
        return next(one.pooled for one in found.drafted if (one.group, one.measure) == (group, measure))

    def close(a: Estimate, b: Estimate) -> bool:
        return math.isclose(a.value, b.value, abs_tol=1e-6)

    assert close(of(AT, "recorded").mean, of(AT, "routing").mean)
    assert close(of(AT, "recorded").against, of(AT, "routing").against)
    assert not close(of(AFTER, "recorded").mean, of(AFTER, "routing").mean)
    assert close(of(AFTER, "recorded").against, of(AFTER, "routing").against)  # those drafts still match


def test_on_recorded_traces_every_step_lies_below_the_one_before() -> None:
    """So a comparison that ignores the step compares early with late ones."""
    by_step = [one.mean.value for one in tiny().by_step if one.measure == "routing"]
    assert (np.diff(by_step) < 0).all()
    everything = next(one for one in tiny().means if one.group == ALL)
    assert everything.weight == tiny().positions == 19_746


def test_figures_are_the_same_twice_and_name_every_group(tmp_path: Path) -> None:
    for figure, groups in (
        (lengths_figure, {one.group for one in shown().means}),
        (experts_figure, {one.group for one in shown().experts} | set(MISMATCHES)),
    ):
        one, other = (figure(shown(), tmp_path / name).read_text() for name in ("a.svg", "b.svg"))
        assert one == other
        for group in groups:
            assert all(part in one for part in group.name.split(" − "))
    bare = contrasts([recorded(0)], MODEL, LengthRange(1, 2), drafts=False)  # no k* >= 4: the mean instead
    assert "mean k*" in lengths_figure(bare, tmp_path / "c.svg").read_text()
    assert "match probability" in experts_figure(bare, tmp_path / "d.svg").read_text()


def finding(name: str, pooled: str, within: str = SHOWS, part_of: str = "") -> Finding:
    return Finding(replace(CLAIMS[0], name=name, part_of=part_of), None, "", None, None, pooled, within)


def test_a_finding_with_several_readings_counts_once() -> None:
    rows = [
        finding("a", SHOWS),
        finding("b", SHOWS, UNDECIDED),
        finding("c", SHOWS),
        finding("another reading of c", DOES_NOT, part_of="c"),
        finding("d", DOES_NOT),
        finding("d", DOES_NOT, DOES_NOT),
        finding("e", UNDECIDED),
        finding("f", SHOWS),
        finding("f", SHOWS, UNDECIDED),
    ]
    assert counted(rows) == {
        "a": "show, pooled and within generations",
        "b": "show pooled only",
        "c": "depend on the reading",
        "d": "do not show",
        "e": "not decidable here",
        "f": "show pooled only",
    }
    assert {claim.name for claim in CLAIMS if claim.part_of} == {
        "control flow: longer drafts than other code (k* >= 4)",
        "row after the first mismatch, which reads the wrong token: no spike",
    }
    assert {claim.part_of for claim in CLAIMS if claim.part_of} <= {claim.name for claim in CLAIMS}


def test_verdicts_stand_beside_those_without_k_0() -> None:
    """Solved again from 1 on, as a study that may not choose 0 solves at once."""
    found, from_1 = tiny(), contrasts(TraceFiles(TINY), TINY_MODEL, LengthRange(1, 10))
    there = {(one.claim.name, one.measure): one for one in from_1.findings}
    lengths = [one for one in found.findings if one.claim.about == "lengths"]
    assert len(lengths) == 6
    for one in found.findings:
        same = there[one.claim.name, one.measure]
        assert (same.verdict_from_1, same.verdict_within_from_1) == (None, None)
        expected = (same.verdict, same.verdict_within) if one in lengths else (None, None)
        assert (one.verdict_from_1, one.verdict_within_from_1) == expected
    assert "verdicts, k ≥ 1" in render(contrast_tables(found)[:1])
    assert "k ≥ 1" not in render(contrast_tables(from_1)[:1])


def test_control_flow_is_compared_with_other_code_only() -> None:
    """Shares by hand: one count over all texts."""
    (one,) = [f for f in tiny().findings if f.claim.against == "other code"]
    longs: dict[bool, list[bool]] = {True: [], False: []}
    for traces in TraceFiles(TINY):
        problem = make_problem(traces, 10, None)
        k = solve(problem, length_costs(TINY_MODEL, 0, 10)).draft_length
        labels = contexts_of(traces)
        flag = np.concatenate([each.control_flow for each in labels])
        code = np.concatenate([each.mode for each in labels]) == Mode.CODE
        longs[True] += (k[flag] >= 4).tolist()
        longs[False] += (k[code & ~flag] >= 4).tolist()
    assert one.pooled.mean.value == pytest.approx(np.mean(longs[True]))
    assert one.pooled.against.value == pytest.approx(np.mean(longs[False]))
    assert one.pooled.weight == len(longs[True])


def test_findings_say_in_words_what_was_compared() -> None:
    text = render(contrast_tables(tiny())[:1])
    for said in ("share of k* ≥ 4", "share of k* ≤ 1", "new experts, recorded", "change of new experts, routing"):
        assert said in text
    assert "at_least_4" not in text
