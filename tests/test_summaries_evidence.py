"""Tables of the evidence: what they show is what was found."""

import json
from pathlib import Path

import pandas as pd
import pytest
from latency_simulation import published_rounds, simulated

from oracle.latency.diagnostics.regimes import find_regimes
from oracle.latency.diagnostics.residuals import residual_diagnostics
from oracle.latency.diagnostics.robustness import robustness
from oracle.latency.diagnostics.transfer import transfer
from oracle.latency.diagnostics.weak_spots import compare_columns, weak_spots
from oracle.latency.evidence import gather_evidence
from oracle.rounds import Rounds
from oracle.summaries.evidence import column_tables, robustness_tables, weak_spot_table
from oracle.summaries.regimes import m_text, regime_tables, transfer_tables
from oracle.summaries.residuals import residual_tables
from oracle.tables import Table, as_json_text, escaped, number, render, show, words

FOLDER = Path(__file__).parents[1] / "cases" / "tiny-moe"
REFERENCE = "unique_experts_reference"
LEVELS = ("line", "free")


class Found:
    """Every result for one file, and all tables by name."""

    def __init__(self, rounds, further=()):
        evidence = gather_evidence(rounds, further=further)
        self.regimes = {levels: find_regimes(evidence, levels=levels, draws=99) for levels in LEVELS}
        runs = self.regimes["line"].partition or self.regimes["free"].partition
        self.transfer = transfer(evidence, runs) if runs else None
        self.one, self.joint = robustness(evidence, resamples=50)
        self.residuals = residual_diagnostics(evidence)
        self.spots = weak_spots(evidence, robust=self.joint, residuals=self.residuals)
        self.columns = [compare_columns(evidence, "unique_experts", name) for name in further]
        tables = [weak_spot_table(self.spots)]
        for levels in LEVELS:
            tables += regime_tables(self.regimes[levels])
        tables += [] if self.transfer is None else transfer_tables(self.transfer)
        tables += robustness_tables(self.one, self.joint) + residual_tables(self.residuals)
        for compared in self.columns:
            tables += column_tables(compared)
        self.tables = {table.name: table for table in tables}
        assert len(self.tables) == len(tables)  # no two tables share a key


@pytest.fixture(scope="module", params=["rounds", "rounds-grouped_mm", "rounds-batched_mm"])
def found(request):
    rounds = Rounds.from_pandas(pd.read_parquet(FOLDER / f"{request.param}.parquet"))
    return Found(rounds, (REFERENCE,))


@pytest.fixture(scope="module")
def published():
    return Found(published_rounds(6000, 30))


def cells(table, row, head):
    """What a reader sees in the columns with this head."""
    return [column.show(row) for column in table.columns if column.head == head]


def test_all_tables_render_as_text_markdown_and_json(found):
    tables = list(found.tables.values())
    text, markdown = render(tables), render(tables, "markdown")
    for table in tables:
        assert table.title in text
        assert f"## {table.title}" in markdown
    for shown in (text, markdown):
        assert not any(word in shown.split() for word in ("nan", "None", "inf", "-0.00"))
    whole = json.loads(as_json_text(tables))
    assert set(whole["tables"]) == set(found.tables)
    for name, table in found.tables.items():
        assert len(whole["tables"][name]["rows"]) == len(table.rows)


def test_regimes_by_number(found):
    for levels, result in found.regimes.items():
        table = found.tables[f"regimes_by_number_{levels}"]
        assert [row["regimes"] for row in table.rows] == [row.regimes for row in result.by_number]
        for shown, row in zip(table.rows, result.by_number, strict=True):
            assert shown["partition"] == row.runs
            assert shown["held_out_rmse_ms"] == row.held_out_rmse_ms.mean
            assert shown["held_out_rmse_ms_low"] == row.held_out_rmse_ms.low
            assert (shown["excess_ms"], shown["excess_ms_error"]) == (row.excess_ms, row.excess_error_ms)
            assert shown["share_chosen"] == row.share_chosen
        (chosen,) = [row["regimes"] for row in table.rows if "by RMSE" in (row["choice"] or "")]
        assert chosen == result.number
        assert set(result.said) < set(table.notes)
        several = result.number > 1
        assert (f"boundaries_{levels}" in found.tables) == several
        assert (f"regimes_{levels}" in found.tables) == result.found


def test_coefficients_and_boundaries_of_regimes(published):
    for levels, result in published.regimes.items():
        assert result.partition == ((2, 3, 4), (5, 6, 7, 8, 9, 10, 11))
        table = published.tables[f"regimes_{levels}"]
        for shown, regime in zip(table.rows, result.regimes, strict=True):
            alpha = regime.alpha_ms_per_expert
            assert shown["alpha_ms_per_expert"] == alpha.value
            assert shown["alpha_ms_per_expert_low"] == alpha.low
            assert shown["beta0_ms"] == (regime.beta0_ms.value if levels == "line" else None)
        assert [column.head for column in table.columns][2:] == (
            ["beta0 ms at m = 0", "slope ms per m"] if levels == "line" else []
        )
        table = published.tables[f"boundaries_{levels}"]
        (row,) = [row for row in table.rows if row["chosen"]]
        (boundary,) = [boundary for boundary in result.boundaries if boundary.chosen]
        assert (row["before"], row["after"]) == (4, 5)
        assert row["share_of_resamples"] == boundary.share_of_resamples == 1.0
        assert row["alpha_change_ms_per_expert_low"] == boundary.alpha_change_ms_per_expert.low
        assert cells(table, row, "alpha jumps") == cells(table, row, "place settled") == ["yes"]
        other = table.rows[0]
        assert cells(table, other, "alpha jumps") == cells(table, other, "change of alpha ms/expert") == ["–"]


def test_transfer_and_anchors(published):
    table, result = published.tables["transfer"], published.transfer
    inside = [row for row in table.rows if row["m"] == 3]
    (row,) = [row for row in result.left_out if row.m == 3]
    assert [(r["from_m"], r["how"], r["mape_percent"]) for r in inside] == [
        ((2, 4), "between the others of its regime", row.error.percent)
    ]
    assert len(table.rows) == len(result.left_out) + 2 * len(result.across)
    over = [row for row in table.rows if row["how"] == "across a boundary, beta0 of the nearest m"]
    assert [row["mape_percent"] for row in over] == [row.nearest.percent for row in result.across]
    assert [row["own_mape_percent_high"] for row in over] == [row.own.high for row in result.across]
    assert set(result.said) < set(table.notes)
    anchors = published.tables["anchors"]
    assert [row["worst_mape_percent"] for row in anchors.rows] == [row.worst.percent for row in result.anchors]
    assert cells(anchors, anchors.rows[0], "timed m") == ["2, 4"]
    assert cells(anchors, anchors.rows[0], "enough") == ["yes" if result.anchors[0].enough else "no"]


def test_an_m_that_cannot_be_predicted_has_a_dash():
    zero = simulated(rounds_per_k=60, questions=8, ks=(1, 2, 3)).assign(cluster="q")
    zero.loc[zero["draft_length"] == 1, ["draft_length", "unique_experts"]] = (0, 8.0)
    result = transfer(gather_evidence(Rounds.from_pandas(zero)), ((1, 3), (4,)))
    table = transfer_tables(result)[0]
    row = next(row for row in table.rows if row["m"] == 3)
    assert row["mape_percent"] is None
    assert cells(table, row, "MAPE %") == ["–"]


def test_robustness_at_one_m(found):
    table, one = found.tables["robustness_one_m"], found.one
    checks = (one.full, *one.checks, *one.without_cluster)
    assert len(table.rows) == len(checks)
    for row, check in zip(table.rows, checks, strict=True):
        assert row["check"] == f"{check.name} {check.of}".strip()
        assert row["rounds"] == check.rounds
        assert row["alpha_ms_per_expert"] == check.alpha[0].value
        assert row["alpha_shift_percent"] == check.alpha[0].percent
        assert row["context_ms_per_token"] == check.context.value
        assert row["context_shift_errors"] == check.context.errors
    assert f"m = {one.m} (k = {one.m - 1})" in table.title


def test_robustness_of_the_joint_fit_names_the_m_that_moves_most(found):
    table, joint = found.tables["robustness_joint"], found.joint
    for row, check in zip(table.rows, (joint.full, *joint.checks), strict=True):
        assert list(row["alpha_by_m"].values()) == [shift.value for shift in check.alpha]
        if check is joint.full:
            assert row["farthest_m"] is row["alpha_ms_per_expert"] is None
            assert cells(table, row, "alpha moves\nmost at m") == ["–"]
        else:
            errors = {m: abs(shift.errors) for m, shift in zip(joint.ms, check.alpha, strict=True)}
            assert row["farthest_m"] == max(errors, key=errors.get)
            assert abs(row["alpha_shift_errors"]) == max(errors.values())
    pulls = found.tables["pulls"]
    assert [row["share_of_variance"] for row in pulls.rows] == [pull.share_of_variance for pull in joint.pulls]
    assert cells(pulls, pulls.rows[-1], "m") == ["–"]


def test_residual_trends_and_bins(found):
    trends, residuals = found.tables["residual_trends"], found.residuals
    assert [row["rise_percent"] for row in trends.rows] == [each.trend.rise_percent for each in residuals.binned]
    assert [row["slope_ms_per_unit_high"] for row in trends.rows] == [b.trend.slope.high for b in residuals.binned]
    in_sample = next(r for r in trends.rows if (r["variable"], r["residuals"]) == ("context_len", "in sample"))
    assert cells(trends, in_sample, "slope µs per unit")[0].startswith("0 [-")
    assert set(residuals.notes) < set(trends.notes)
    bins = found.tables["residual_bins"]
    for each in (b for b in residuals.binned if b.held_out):
        assert [row[f"{each.variable}_mean_ms"] for row in bins.rows] == [one.mean_ms for one in each.bins]
        assert [row[f"{each.variable}_from"] for row in bins.rows] == [one.low for one in each.bins]


def test_bins_of_repeated_values_leave_dashes():
    frame = simulated(rounds_per_k=100, questions=10, ks=(1, 2))
    frame["position"] = frame.index % 3
    table = Found(Rounds.from_pandas(frame)).tables["residual_bins"]
    assert table.rows[-1]["position_mean_ms"] is None
    assert table.rows[-1]["context_len_mean_ms"] is not None
    assert cells(table, table.rows[-1], "position\nfrom") == ["–"]


def facts(table):
    return {row["key"]: row["value"] for row in table.rows}


def test_tails_spread_and_drift(found):
    tails, residuals = found.tables["residual_tails"], found.residuals
    for row, each in zip(tails.rows, residuals.tails, strict=False):
        assert (row["sd_ms"], row["over_3_sd_share"]) == (each.sd_ms, each.over_3_sd_share)
        assert row["quantiles_sd"]["0.975"] == next(q for p, q, _ in each.quantiles if p == 0.975)
    assert [row["residuals"] for row in tails.rows] == ["in sample", "held out", "normal distribution"]
    assert tails.rows[-1]["over_3_sd_share"] == pytest.approx(0.0027, abs=1e-5)
    spread = residuals.heteroscedasticity
    shown = facts(found.tables["residual_spread"])
    assert (shown["lm"], shown["p"], shown["ratio"]) == (spread.lm, spread.p, spread.ratio)
    drift, shown = residuals.drift, facts(found.tables["drift"])
    assert shown["share_of_variance_percent"] == 100 * drift.share_of_variance
    assert (shown["blocks"], shown["lowest_percent"]) == (drift.blocks, drift.lowest_percent)


def test_draft_residuals_with_the_share_of_zero_timings(published):
    draft = published.residuals.draft
    table = published.tables["draft_residuals"]
    shown = facts(table)
    assert shown["zero_percent"] == 100 * draft.zero_share
    assert shown["line_medape_percent"] == draft.line_medape_percent
    assert shown["shape"] == draft.shape
    slope = next(row for row in table.rows if row["key"] == "line_ms_per_token")
    assert (slope["value"], slope["value_low"]) == (draft.line.each[0].value, draft.line.each[0].low)
    one = simulated(rounds_per_k=60, questions=8, ks=(2,))
    table = Found(Rounds.from_pandas(one)).tables["draft_residuals"]
    line = next(row for row in table.rows if row["key"] == "line_r2")
    assert line["value"] is None
    assert table.columns[1].show(line) == "–"


def test_weak_spots_come_with_their_whole_sentence(found):
    table = found.tables["weak_spots"]
    assert [row["sentence"] for row in table.rows] == [spot.sentence for spot in found.spots]
    text = render([table])
    assert all(spot.sentence in text for spot in found.spots)
    empty = weak_spot_table(())
    assert "no rule found anything" in render([empty])


def test_two_columns_compared(found):
    (compared,) = found.columns
    table = found.tables[f"columns_{REFERENCE}"]
    a, b = table.rows
    assert (a["alpha_ms_per_expert"], b["alpha_ms_per_expert"]) == (compared.alpha_a.value, compared.alpha_b.value)
    assert b["alpha_beside_ms_per_expert_low"] == compared.alpha_b_given_a.low
    assert (b["ratio"], b["ratio_if_it_errs"]) == (compared.ratio, compared.expected_if_b_errs)
    assert a["ratio"] == 1 / compared.ratio
    verdict = f"{REFERENCE} behaves like unique_experts with errors"
    assert table.notes[0] == (verdict if compared.noisier else "neither column behaves like the other one with errors")
    by_m = found.tables[f"columns_{REFERENCE}_by_m"]
    assert [row["alpha_b"] for row in by_m.rows] == [row.alpha_b for row in compared.by_m]


def test_one_cluster_has_no_intervals():
    frame = simulated(rounds_per_k=60, questions=6, ks=(1, 2, 3)).assign(cluster="q")
    found = Found(Rounds.from_pandas(frame))
    assert "pulls" not in found.tables
    table = found.tables["regimes_by_number_line"]
    assert cells(table, table.rows[0], "held-out RMSE ms") == cells(table, table.rows[0], "choice") == ["–"]
    assert "nan" not in render(list(found.tables.values()))


def test_draft_diagnostics_say_if_the_fit_rests_on_other_rounds(published):
    residuals = published.residuals
    same, fewer = (residual_tables(residuals, residuals.draft.rounds + more)[-1].notes for more in (0, 5))
    assert len(same) == 1
    assert f"on {residuals.draft.rounds:,} rounds whose target_ms is above 0" in fewer[1]


@pytest.mark.parametrize(
    ("value", "spec", "shown"),
    [
        (-1e-5, ".3f", "0.000"),
        (-1e-5, "+.2f", "+0.00"),
        (-0.4, ".0f", "0"),
        (-0.0, ".3g", "0"),
        (-1e-9, ".1g", "-1e-09"),
    ],
)
def test_nothing_has_no_minus(value, spec, shown):
    assert show(value, spec) == shown


@pytest.mark.parametrize(
    ("text", "page"),
    [
        ("<script>&", "&lt;script&gt;&amp;"),
        ("[x](y) [0.1; 0.2]", r"[x\](y) [0.1; 0.2]"),
        ("a|b`c`", r"a\|b\`c\`"),
        ("*a* _b_ k*, unique_experts", r"\*a* \_b\_ k*, unique_experts"),
        ("http://a.b www.c", r"http\://a.b www\.c"),
        ("\\*x ends\\", r"\\\*x ends" + 2 * "\\"),
    ],
)
def test_markdown_shows_text_as_it_is(text, page):
    assert escaped(text) == page
    row = {"name": text, "value": 1.5}
    table = Table("t", text, (words(text, "name"), number("n", "value")), [row], [text])
    title, _, head, rule, cells, _, note = render([table], "markdown").rstrip().split("\n")
    assert (title, note) == (f"## {page}", f"- {page}")
    assert head.startswith(f"| {page} ")
    assert cells.startswith(f"| {page} ")
    assert rule.endswith("-: |")


def test_some_m_are_written_as_ranges():
    assert m_text((2, 3, 4, 6, 8, 9)) == "2–4, 6, 8–9"
    assert m_text((5,)) == "5"
    assert m_text(()) == ""
