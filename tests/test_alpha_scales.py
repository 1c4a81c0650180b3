"""What a wrong alpha changes, against re-solving and enumeration; the tables and the figure that show it."""

import xml.etree.ElementTree as ET
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import strategies
from laid_out import costs_of, make, parts

from oracle import unit_sums
from oracle.ablation import q_values
from oracle.alpha_path.effects import effects, moving_and_returning, within_margins
from oracle.alpha_path.path import AlphaPath, alpha_path, scaled
from oracle.alpha_path.scales import SCALES, ScaleSums, ScaleTally, tally_scales
from oracle.alpha_path.static import StaticRange, still_recommended
from oracle.figures.alpha_path import decisions_by_scale
from oracle.solver import evaluate, solve, visits
from oracle.summaries.alpha_path import alpha_path_tables
from oracle.tables import render

NAMES = ("a", "a", "b", "c")  # the second of some problems is empty: no cluster may be


def drawn(seed: int = 18, **more: object) -> strategies.Problem:
    said = {"lengths": (40, 0, 25, 33), "K": 5, "k_min": 0, "missing": False, "unique": "routing", "alpha_zero": False}
    return strategies.random_problem(seed, "general", **{**said, **more})


def tallied(problem: strategies.Problem, s_max: float = 2.0) -> tuple[AlphaPath, ScaleTally]:
    arrays, costs = make(problem), costs_of(problem)
    oracle, path = solve(arrays, costs), alpha_path(arrays, costs, s_max)
    visit = visits(arrays, oracle.draft_length)
    return path, tally_scales(arrays, costs, path, oracle, visit, NAMES[: problem.generations])


def test_effects_are_those_of_solving_again() -> None:
    problem = drawn()
    path, found = tallied(problem)
    arrays, costs = make(problem), costs_of(problem)
    k = solve(arrays, costs).draft_length
    visit = visits(arrays, k)
    rows = effects(found)
    assert [row.s for row in rows] == list(SCALES)
    for row in rows:
        there = scaled(costs, row.s)
        moved = path.draft_length_at(row.s) != path.draft_length_at(1.0)
        assert moved.any(), "the problem must have changes for this test to say anything"
        assert row.changed.share == pytest.approx(moved.mean())
        assert row.changed.visit_share == pytest.approx(visit[moved].sum() / visit.sum())
        kept = evaluate(arrays, there, k[:, None]).sum() / arrays.positions
        best = solve(arrays, there).marginal_ms.sum() / arrays.positions
        assert row.kept_ms_per_token == pytest.approx(kept, rel=1e-12)
        assert row.oracle_ms_per_token == pytest.approx(best, rel=1e-12)
        assert row.regret_ms_per_token == pytest.approx(kept - best, rel=1e-6)
        assert row.regret_interval is not None
        assert 0 <= row.regret_interval.low <= row.regret_interval.high
    shares = moving_and_returning(found)
    assert shares is not None
    assert shares[0].share == pytest.approx((path.breakpoints > 0).mean())
    assert shares[1].share == pytest.approx(path.returns.mean())
    assert found.by_breakpoints.tolist() == np.bincount(path.breakpoints).tolist()


def test_regret_follows_from_visits_and_q() -> None:
    """Cost of keeping = Σ visit · (Q - V): the performance difference of two policies."""
    problem = drawn()
    _, found = tallied(problem)
    arrays, costs = make(problem), costs_of(problem)
    k = solve(arrays, costs).draft_length
    for row in effects(found):
        there = scaled(costs, row.s)
        q = q_values(arrays, there, solve(arrays, there))
        lost = q[np.arange(arrays.positions), k] - q.min(axis=1)
        expected = float(visits(arrays, k) @ lost) / arrays.positions
        assert row.regret_ms_per_token == pytest.approx(expected, rel=1e-6, abs=1e-12)


def batches(problem: strategies.Problem, names: tuple[str, ...], ends: list[int]) -> list[ScaleTally]:
    """The tallies of some generations each, solved apart."""
    arrays, costs = make(problem), costs_of(problem)
    found = []
    for a, b in pairwise([0, *ends]):
        t = slice(int(arrays.offsets[a]), int(arrays.offsets[b]))
        part = replace(
            arrays,
            offsets=arrays.offsets[a : b + 1] - arrays.offsets[a],
            context_len=arrays.context_len[t],
            survival=arrays.survival[t],
            unique_experts=arrays.unique_experts[t],
            to_end=arrays.to_end[t],
        )
        oracle = solve(part, costs)
        visit = visits(part, oracle.draft_length)
        found.append(tally_scales(part, costs, alpha_path(part, costs), oracle, visit, names[a:b]))
    return found


def folded(tallies: list[ScaleTally]) -> ScaleTally:
    sums = ScaleSums()
    for each in tallies:
        sums.add(each)
    found = sums.tally()
    assert found is not None
    return found


def test_sums_do_not_depend_on_batches_to_the_last_bit() -> None:
    problem = drawn(lengths=(12, 30, 25, 33, 0, 7))
    names = ("a", "a", "b", "c", "b", "a")
    whole = folded(batches(problem, names, [6]))
    for ends in ([1, 4, 6], [1, 2, 3, 4, 5, 6]):
        other = folded(batches(problem, names, ends))
        for name, value in vars(whole).items():
            np.testing.assert_array_equal(getattr(other, name), value, name)
    with pytest.raises(ValueError, match="batches were looked at under different scales or lengths"):
        folded([whole, replace(whole, s_max=3.0)])


def test_few_clusters_give_what_generations_kept_one_by_one_give() -> None:
    """Clusters are resampled in the order of their first generation either way, so intervals are equal too."""
    problem = drawn(lengths=(12, 30, 25, 33, 0, 7))
    [kept] = batches(problem, ("a", "a", "b", "c", "b", "a"), [6])
    sums = folded([kept])
    assert (sums.cluster, sums.clusters, len(sums.weights)) == (("a", "b", "c"), 3, 3)
    assert moving_and_returning(sums) == moving_and_returning(kept)
    assert within_margins(sums) == within_margins(kept)
    assert still_recommended(sums) == still_recommended(kept)
    for mine, theirs in zip(effects(sums), effects(kept), strict=True):
        for name in ("s", "changed", "regret_ms_per_token", "regret_interval"):
            assert getattr(mine, name) == getattr(theirs, name)
        # sums of 6 numbers of one sign in another order: at most 5 roundings each
        assert mine.kept_ms_per_token == pytest.approx(theirs.kept_ms_per_token, rel=11 * 2**-53)
        assert mine.oracle_ms_per_token == pytest.approx(theirs.oracle_ms_per_token, rel=11 * 2**-53)
    exact = [sum(map(Fraction, kept.kept_ms[:, i].tolist())) / 107 for i in range(len(SCALES))]
    assert [each.kept_ms_per_token for each in effects(sums)] == pytest.approx([float(e) for e in exact], rel=1e-15)


def test_many_clusters_are_put_into_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unit_sums, "MOST_UNITS", 5)
    problem = drawn(lengths=(3,) * 40)
    names = tuple(f"c{g // 2}" for g in range(40))
    kept, found = batches(problem, names, [40])[0], folded(batches(problem, names, [7, 9, 40]))
    assert found.clusters == 20
    assert len(found.cluster) == len(found.static_ms) <= 5
    assert set(found.weights[:, 0] % 6) == {0.0}, "no cluster is torn apart"
    for name in ("weights", "changed", "static_ms", "regret_ms"):
        np.testing.assert_allclose(getattr(found, name).sum(axis=0), getattr(kept, name).sum(axis=0), rtol=1e-13)
    assert "999 bootstrap resamples of 20 clusters" in render(alpha_path_tables(found))


@pytest.mark.parametrize("seed", range(12))
def test_best_static_lengths_are_those_of_a_dense_sweep(seed: int) -> None:
    problem = strategies.random_problem(seed, "general", lengths=(30, 20), K=6, alpha_zero=False)
    _, found = tallied(problem)
    arrays, costs = make(problem), costs_of(problem)
    everywhere = np.tile(np.array(costs.lengths, dtype=np.int16), (arrays.positions, 1))
    ranges = still_recommended(found)
    assert (ranges[0].s_from, ranges[-1].s_to) == (0.0, 2.0)
    assert [r.s_from for r in ranges[1:]] == pytest.approx([r.s_to for r in ranges[:-1]], rel=1e-12)
    for s in np.linspace(0.003, 1.997, 150):
        totals = evaluate(arrays, scaled(costs, float(s)), everywhere).sum(axis=0)
        (here,) = (r for r in ranges if r.s_from <= s < r.s_to)
        assert totals[costs.lengths.index(here.draft_length)] <= totals.min() * (1 + 1e-9)
    for r in ranges:
        for s, ms in ((r.s_from, r.ms_per_token_from), (r.s_to, r.ms_per_token_to)):
            totals = evaluate(arrays, scaled(costs, s), everywhere).sum(axis=0) / arrays.positions
            assert ms == pytest.approx(totals[costs.lengths.index(r.draft_length)], rel=1e-12)


def lines(*rows: tuple[tuple[float, float], ...]) -> ScaleTally:
    """Static lengths 0, 1, … with these lines, one tuple of (fixed, slope) a generation of one token."""
    _, found = tallied(drawn(lengths=(1,) * len(rows)))
    return replace(
        found,
        static_ms=np.array(rows),
        lengths=tuple(range(len(rows[0]))),
        cluster=tuple(f"c{i}" for i in range(len(rows))),
    )


def test_ends_of_static_ranges_written_by_hand() -> None:
    one = lines(((0.0, 4.0), (1.0, 2.0), (1.0, 2.0), (2.5, 0.5), (9.0, 0.0), (1.0, 3.0)))
    found = still_recommended(one)
    assert found == [
        StaticRange(0, 0.0, 0.5, None, None, 0.0, 2.0),
        StaticRange(1, 0.5, 1.0, None, None, 2.0, 3.0),  # of two equal lines the shorter draft
        StaticRange(3, 1.0, 2.0, None, None, 3.0, 3.5),
    ]


def test_a_lead_that_resamples_take_away_is_called_not_significant() -> None:
    doubtful = lines(*[((0.0, 2.0), (1.2, 1.0)), ((0.0, 2.0), (0.6, 1.0))] * 10)
    text = render(alpha_path_tables(doubtful)[3:])
    assert "static:1 stays the best static length while alpha is 0.9 to 2 times the fitted one" in text
    assert "at s = 1 its lead is not significant: an end's interval holds 1" in text
    sure = lines(*[((0.0, 2.0), (0.2, 1.0))] * 10)
    text = render(alpha_path_tables(sure)[3:])
    assert "static:1 stays the best static length while alpha is 0.2 to 2 times the fitted one\n" in text
    assert "not significant" not in text


def test_tables_say_what_was_found() -> None:
    _, found = tallied(drawn())
    path, margins, scales, static = alpha_path_tables(found)
    names = [table.name for table in (path, margins, scales, static)]
    assert names == ["alpha_path", "alpha_margins", "alpha_scales", "static_scales"]
    widest = [row["share"] for row in margins.rows]
    assert widest == sorted(widest), "a wider margin holds a narrower one"
    assert sum(row["decisions"] for row in path.rows) == 98
    assert sum(row["share"] for row in path.rows) == pytest.approx(1.0)
    assert [row["change"] for row in scales.rows] == ["-50 %", "-20 %", "-10 %", "+10 %", "+20 %", "+50 %"]
    text = render([path, scales, static])
    for words in (
        "How often a decision changes while a scale s on all alpha goes from 0 to 2",
        "% of positions (",
        "come back to a length that they had left",
        "95 % intervals from 999 bootstrap resamples of 3 clusters",
        "expected costs, in-sample",
        "exact on these traces: each static length costs a line in s",
    ):
        assert words in text
    assert "nan" not in text


def test_a_dense_target_is_said_to_have_nothing_to_scale() -> None:
    path, found = tallied(drawn(unique="dense"))
    assert not path.breakpoints.any()
    assert "the expert cost is 0 (alpha or U is 0 everywhere): the scale changes nothing" in render(
        alpha_path_tables(found)
    )
    assert len(still_recommended(found)) == 1


def test_nothing_has_empty_tables_and_one_cluster_no_intervals(tmp_path: Path) -> None:
    _, nothing = tallied(drawn(lengths=(0, 0)))
    assert (effects(nothing), still_recommended(nothing), moving_and_returning(nothing)) == ([], [], None)
    assert [len(table.rows) for table in alpha_path_tables(nothing)] == [0, 0, 0, 0]
    decisions_by_scale(nothing, tmp_path / "nothing.svg")
    _, one = tallied(drawn(lengths=(40,)))
    assert all(row.regret_interval is None and row.changed.interval is None for row in effects(one))
    assert "no intervals: there is one cluster only" in render(alpha_path_tables(one))


@pytest.mark.parametrize("K", [1, 5, 32])
def test_the_figure_is_well_formed_labelled_and_the_same_each_time(K: int, tmp_path: Path) -> None:
    path, found = tallied(drawn(K=K))
    once = decisions_by_scale(found, tmp_path / "once.svg")
    text = once.read_text("utf-8")
    assert text == decisions_by_scale(found, tmp_path / "again.svg").read_text("utf-8")
    assert "nan" not in text.lower()
    words = {"".join(e.itertext()) for e in ET.fromstring(text).iter("{http://www.w3.org/2000/svg}text")}
    assert {"alpha as fitted", "scale s on all alpha (0: without the expert cost)", "% of positions"} <= words
    assert {f"k* = {k}" for k in np.unique(found.by_length.nonzero()[1])} <= words
    for g, row in enumerate(parts(drawn(K=K), path.draft_length_at(1.0))):
        assert len(row) == (40, 0, 25, 33)[g]
    np.testing.assert_array_equal(found.by_length[200], np.bincount(path.draft_length_at(1.0), minlength=K + 1))
