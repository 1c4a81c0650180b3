"""The necessary condition: extensions against the definition, the best slope against every slope, costs, pictures."""

import functools
import itertools
import xml.etree.ElementTree as ET
from pathlib import Path

import naive
import numpy as np
import pytest
import strategies
from laid_out import costs_of, make

from oracle.condition import extensions as condition
from oracle.condition.costs import Condition, SlopeTally, examine, slope_costs, slope_tally
from oracle.condition.extensions import (
    ACCEPTED,
    BINS,
    EDGES,
    POSITIONS,
    REFUSED,
    VISITS,
    Solved,
    condition_tally,
    extensions,
    join,
    priced_lengths,
    slope_lengths,
)
from oracle.condition.separation import quantiles, separate
from oracle.costs import length_costs
from oracle.errors import InputError
from oracle.figures.policies import extension_density, ratio_distributions
from oracle.latency.fit import fit_latency
from oracle.policies import PolicySet, inputs_of, lengths_of
from oracle.problem import make_problem
from oracle.rounds import RoundFiles
from oracle.scores import total
from oracle.solver import solve, visits
from oracle.summaries.condition import condition_tables
from oracle.tables import as_json_text, render
from oracle.traces import TraceFiles, load_traces
from oracle.traces.schema import AVERAGES

TINY = Path(__file__).parents[1] / "cases" / "tiny-moe"
ROUNDS = ("rounds", "rounds-grouped_mm")

pytestmark = pytest.mark.filterwarnings("ignore::oracle.errors.InputWarning")


def defined(generation: naive.Generation, costs: naive.Costs) -> list[tuple[int, bool, float, float, float]]:
    """(t, made, dC, dE[A], worth) of every extension up to the first refused one, from the definition."""
    solution = naive.solve(generation, costs)
    n = len(generation.match_probs)
    found = []
    for t in range(n):
        chosen = solution.draft_length[t]
        for k, longer in itertools.pairwise(costs.lengths):
            if k > chosen:
                break
            dC = naive.round_cost(generation, costs, t, longer) - naive.round_cost(generation, costs, t, k)
            p = generation.match_probs[t]
            dE = naive.expected_advance(p, longer, n - t) - naive.expected_advance(p, k, n - t)
            worth = naive.continuation(generation, solution.value, t, k)
            worth -= naive.continuation(generation, solution.value, t, longer)
            found.append((t, k < chosen, dC, dE, worth))
    return found


def solved(problem: strategies.Problem):
    arrays, costs = make(problem), costs_of(problem)
    oracle = solve(arrays, costs)
    return arrays, costs, oracle, visits(arrays, oracle.draft_length)


def clusters_of(problem: strategies.Problem) -> tuple[str, ...]:
    return tuple(f"c{g // 2}" for g in range(problem.generations))


@pytest.mark.parametrize("kind", ["dyadic", "binary", "general"])
def test_extensions_equal_the_definition(kind: strategies.Kind) -> None:
    for seed in range(60):
        problem = strategies.random_problem(seed, kind)
        arrays, costs, oracle, _ = solved(problem)
        found = extensions(arrays, costs, oracle)
        starts = np.concatenate([[0], np.cumsum(problem.lengths)])
        expected = [
            (t + starts[g], made, *rest)
            for g in range(problem.generations)
            for t, made, *rest in defined(problem.generation(g), problem.costs)
        ]
        assert len(found.position) == len(expected)
        if not expected:
            continue
        t, made, dC, dE, worth = map(np.array, zip(*expected, strict=True))
        assert np.array_equal(found.position, t)
        assert np.array_equal(found.accepted, made)
        scale = np.abs(oracle.marginal_ms).sum() + 1
        assert found.cost_ms == pytest.approx(dC, abs=1e-12 * scale)
        assert found.promise == pytest.approx(dE, abs=1e-12)
        assert found.credit_ms == pytest.approx(worth, abs=1e-11 * scale)
        # the exact condition: the oracle refuses no single step that pays
        assert (found.cost_ms >= found.credit_ms - 1e-9 * scale)[~found.accepted].all()


def test_ratio_where_nothing_is_promised() -> None:
    for seed in range(40):
        problem = strategies.random_problem(seed, "binary")
        arrays, costs, oracle, _ = solved(problem)
        found = extensions(arrays, costs, oracle)
        for slope in (0.0, 1.0, 3.0):
            assert np.array_equal(found.ratio_ms <= slope, found.cost_ms <= slope * found.promise)
        assert not np.isnan(found.ratio_ms).any()
        assert np.array_equal(np.isnan(found.price_ms), found.promise == 0)


@pytest.mark.parametrize("kind", ["dyadic", "general"])
def test_slopes_draft_on_while_a_step_is_cheap_enough(kind: strategies.Kind) -> None:
    for seed in range(40):
        problem = strategies.random_problem(seed, kind)
        arrays, costs, *_ = solved(problem)
        slopes = (0.0, 0.75, 2.0, 1e9)
        found = slope_lengths(arrays, costs, slopes)
        starts = np.concatenate([[0], np.cumsum(problem.lengths)])
        for g, (p, slope) in itertools.product(range(problem.generations), enumerate(slopes)):
            generation, n = problem.generation(g), problem.lengths[g]
            for t in range(n):
                chosen = problem.allowed[0]
                for longer in problem.allowed[1:]:
                    cost = naive.round_cost(generation, problem.costs, t, longer)
                    cost -= naive.round_cost(generation, problem.costs, t, chosen)
                    survival = naive.survival(generation.match_probs[t])
                    gain = sum(s for j, s in enumerate(survival) if chosen < j <= longer and t + j < n)
                    if cost > slope * gain + 1e-12 * abs(cost):
                        break
                    chosen = longer
                assert found[starts[g] + t, p] == chosen


def test_slopes_are_those_of_the_policy_of_that_name() -> None:
    traces, costs, problem, *_ = tiny("rounds")
    slopes = (0.5, 2.0, 3.25, 6.0)
    named = lengths_of([f"slope!:{slope}" for slope in slopes], inputs_of(traces, costs))
    assert np.array_equal(named.draft_length, slope_lengths(problem, costs, slopes))


def test_tally_equals_plain_counts() -> None:
    for seed in range(30):
        problem = strategies.random_problem(seed, "general")
        arrays, costs, oracle, visit = solved(problem)
        cluster = clusters_of(problem)
        tally = condition_tally(Solved(arrays, costs, oracle, visit, cluster))
        found = extensions(arrays, costs, oracle)
        generation = np.searchsorted(arrays.offsets, found.position, side="right") - 1
        for c, name in enumerate(tally.units):
            of = np.array([cluster[g] == name for g in generation], bool)
            for what, edge in itertools.product((REFUSED, ACCEPTED), (700, 800, 900)):
                at = of & (found.accepted == bool(what)) & (found.ratio_ms <= EDGES[edge])
                below = tally.counts[c, :, what, : edge + 1].sum(axis=1)
                assert below[POSITIONS] == at.sum()
                assert below[VISITS] == pytest.approx(visit[found.position[at]].sum(), abs=1e-12)
        assert tally.picture[POSITIONS].sum() == len(found.position)
        assert tally.prices[POSITIONS].sum() == (found.promise > 0).sum()
        assert tally.decisions[POSITIONS, 0] == arrays.positions
        elsewhere = priced_lengths(arrays, costs, oracle)[:, 0] != oracle.draft_length
        assert tally.decisions[POSITIONS, 1] == elsewhere.sum()


@functools.cache
def tiny(rounds: str):
    traces = load_traces(TINY / "traces.parquet")
    costs = length_costs(fit_latency(RoundFiles(TINY / f"{rounds}.parquet")).model, 0, 10)
    problem = make_problem(traces, 10)
    oracle = solve(problem, costs)
    visit = visits(problem, oracle.draft_length)
    return traces, costs, problem, oracle, visit, examine([traces], costs)


@pytest.mark.parametrize("rounds", ROUNDS)
@pytest.mark.parametrize("weight", [VISITS, POSITIONS])
def test_no_slope_separates_better(rounds: str, weight: int) -> None:
    _, costs, problem, oracle, visit, found = tiny(rounds)
    each = extensions(problem, costs, oracle)
    w = visit[each.position] if weight == VISITS else np.ones(len(each.position))
    order = np.argsort(each.ratio_ms)
    signed = np.where(each.accepted, -w, w)[order]
    errors = (w[each.accepted].sum() + np.cumsum(signed)) / w.sum()  # of the slope at each extension's own ratio
    best = found.by_rounds if weight == VISITS else found.by_positions
    assert best is not None
    assert best.error >= errors.min() - 1e-12
    assert best.error <= errors.min() + 2e-3  # what bins of 1.2 % lose
    wrong = each.accepted != (each.ratio_ms <= best.slope_ms)
    assert best.error == pytest.approx(w[wrong].sum() / w.sum())
    assert best.refused_made + best.accepted_left == pytest.approx(best.error)
    assert best.error_interval is not None
    assert best.error_interval.low < best.error < best.error_interval.high
    assert best.slope_interval is not None
    assert best.slope_interval.low <= best.slope_ms <= best.slope_interval.high
    assert best.error < best.error_unseen


def test_auc_equals_scikit_learn() -> None:
    from sklearn.metrics import roc_auc_score  # noqa: PLC0415

    _, costs, problem, oracle, visit, found = tiny("rounds")
    each = extensions(problem, costs, oracle)
    ratio = np.clip(each.ratio_ms, -1e9, 1e9)
    assert found.by_positions is not None
    assert found.by_rounds is not None
    theirs = roc_auc_score(each.accepted, -ratio)
    weighted = roc_auc_score(each.accepted, -ratio, sample_weight=visit[each.position])
    assert found.by_positions.auc == pytest.approx(theirs, abs=1e-4)
    assert found.by_rounds.auc == pytest.approx(weighted, abs=1e-4)


def test_quantiles_are_those_of_the_values_to_half_a_bin() -> None:
    values = np.random.default_rng(1).lognormal(1.0, 0.7, 20_000)
    counts = np.bincount(np.searchsorted(EDGES, values), minlength=BINS).astype(float)
    assert quantiles(counts) == pytest.approx(np.quantile(values, (0.05, 0.25, 0.5, 0.75, 0.95)), rel=0.007)
    ends = np.zeros(BINS)
    ends[0] = ends[-1] = 1.0
    assert quantiles(ends, (0.2, 0.8)) == [0.0, np.inf]
    assert np.isnan(quantiles(np.zeros(BINS))).all()


@pytest.mark.parametrize("rounds", ROUNDS)
def test_costs_of_slopes_equal_their_scores_and_none_beats_the_oracle(rounds: str) -> None:
    traces, costs, problem, oracle, visit, found = tiny(rounds)
    assert found.slopes is not None
    scored = slope_costs(found.slopes)
    slopes = [c.slope_ms for c in scored if c.slope_ms is not None]
    assert len(scored) == len(slopes) + 1
    lengths = np.hstack([slope_lengths(problem, costs, slopes), priced_lengths(problem, costs, oracle)])
    policies = PolicySet(tuple(map(str, range(len(scored)))), lengths)
    totals = total(problem, costs, policies, traces.generation, traces.cluster_of)
    assert (found.slopes.slope_ms >= found.slopes.oracle_ms[:, None] * (1 - 1e-12)).all()
    for p, c in enumerate(scored):
        assert c.ms_per_token == pytest.approx(totals.total_ms[:, p].sum() / problem.positions, rel=1e-10)
        other = lengths[:, p] != oracle.draft_length
        assert c.missed_positions == pytest.approx(other.mean())
        assert c.missed == pytest.approx(visit @ other / visit.sum())
        assert c.longer + c.shorter == pytest.approx(c.missed)
        assert c.ms_per_token == pytest.approx(found.oracle_ms_per_token + c.regret_ms_per_token)


def test_with_one_step_the_exact_condition_is_the_decision() -> None:
    problem = strategies.random_problem(3, "general", lengths=(400,), K=1, k_min=0, missing=False, unique="dense")
    arrays, costs, oracle, visit = solved(problem)
    tally = condition_tally(Solved(arrays, costs, oracle, visit, ("c",)))
    each = extensions(arrays, costs, oracle)
    exact = each.accepted == (each.cost_ms < each.credit_ms)
    assert exact.all()
    assert 0 < each.accepted.sum() < len(each.accepted)
    assert tally.through.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("batch_bytes", [100_000, 1_000_000])
def test_batches_add_up(batch_bytes: int) -> None:
    *_, costs, _, _, _, whole = tiny("rounds")
    found = examine(TraceFiles(TINY / "traces.parquet", batch_bytes=batch_bytes), costs)
    assert found.tally.units == whole.tally.units
    assert np.array_equal(found.tally.counts[:, POSITIONS], whole.tally.counts[:, POSITIONS])
    assert np.allclose(found.tally.counts, whole.tally.counts, rtol=1e-12)
    assert np.allclose(found.tally.picture, whole.tally.picture, rtol=1e-9)
    assert found.by_rounds is not None
    assert whole.by_rounds is not None
    assert found.by_rounds.error == pytest.approx(whole.by_rounds.error, rel=1e-12)


def test_many_clusters_are_grouped_and_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(condition, "MOST_UNITS", 3)
    parts = []
    for seed in range(6):
        problem = strategies.random_problem(seed, "general", lengths=(9, 4))
        arrays, costs, oracle, visit = solved(problem)
        parts.append(condition_tally(Solved(arrays, costs, oracle, visit, (f"a{seed}", f"b{seed}"))))
    together = join(parts)
    assert together.folded
    assert 1 < len(together.units) <= 3
    assert together.counts.sum() == pytest.approx(sum(p.counts.sum() for p in parts))
    stepwise = functools.reduce(lambda a, b: join([a, b]), parts)
    assert sorted(stepwise.units) == sorted(together.units)
    order = [stepwise.units.index(unit) for unit in together.units]
    assert np.allclose(stepwise.counts[order], together.counts, rtol=1e-12)
    problem = strategies.random_problem(1, "general", lengths=(3,) * 8)
    arrays, costs, oracle, visit = solved(problem)
    at_once = condition_tally(Solved(arrays, costs, oracle, visit, tuple(f"c{g}" for g in range(8))))
    assert at_once.folded
    assert len(at_once.units) <= 3


def test_averages_stay_one_unit_however_many_clusters_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put into a group with others they would be resampled, though their own error is in none of their numbers."""
    monkeypatch.setattr(condition, "MOST_UNITS", 3)
    problem = strategies.random_problem(1, "general", lengths=(3,) * 8)
    arrays, costs, oracle, visit = solved(problem)
    clusters = (*(f"c{g}" for g in range(7)), AVERAGES)
    assert AVERAGES in condition_tally(Solved(arrays, costs, oracle, visit, clusters)).units


def nothing_to_separate() -> Condition:
    problem = strategies.random_problem(0, "general", lengths=(5, 6), K=3, k_min=0, missing=False)
    arrays, costs = make(problem), costs_of(problem)
    costs.draft_ms[1:] += 1e6  # never worth a draft
    oracle = solve(arrays, costs)
    visit = visits(arrays, oracle.draft_length)
    return Condition(condition_tally(Solved(arrays, costs, oracle, visit, ("a", "b"))), None, None, None, 1.0)


def test_nothing_accepted_has_no_slope() -> None:
    found = nothing_to_separate()
    assert separate(found.tally) is None
    assert [t.name for t in condition_tables(found)] == ["extensions"]
    with pytest.raises(InputError, match="the traces hold no generations"):
        examine([], length_costs(fit_latency(RoundFiles(TINY / "rounds.parquet")).model, 0, 3))


def test_gain_is_not_available_without_k_0_or_tokens() -> None:
    problem = strategies.random_problem(4, "general", lengths=(20, 30), K=4, k_min=1, missing=False)
    arrays, costs, oracle, visit = solved(problem)
    tally = slope_tally(Solved(arrays, costs, oracle, visit, ("a", "b")), (1.0, 2.0))
    assert all(c.gain_captured is None for c in slope_costs(tally))
    empty = strategies.random_problem(4, "general", lengths=(0,), K=4)
    none: SlopeTally = slope_tally(Solved(*solved(empty), ("a",)), (1.0,))
    assert slope_costs(none) == []


@pytest.mark.parametrize("rounds", ROUNDS)
def test_tables(rounds: str) -> None:
    tables = condition_tables(tiny(rounds)[-1])
    text = render(tables)
    assert [t.name for t in tables] == ["extensions", "slope_separation", "slope_costs"]
    assert "nan" not in text
    assert "do not pay by themselves" in text
    assert "λ is the price at the margin, not the mean" in text
    assert "own price d" in text
    assert "NaN" not in as_json_text(tables)


def well_formed(path: Path) -> str:
    text = path.read_text()
    ET.fromstring(text)
    assert "nan" not in text.replace("nanum", "").lower().split("<image")[0]
    return text


@pytest.mark.parametrize("draw", [ratio_distributions, extension_density])
def test_pictures_of_the_condition(draw, tmp_path: Path) -> None:
    found = tiny("rounds")[-1]
    first, second = draw(found, tmp_path / "a.svg"), draw(found, tmp_path / "b.svg")
    assert first.read_bytes() == second.read_bytes()
    text = well_formed(first)
    assert "made (k &lt; k*)" in text
    assert "λ" in text
    assert "mathdefault" not in text
    well_formed(draw(nothing_to_separate(), tmp_path / "c.svg"))
