"""Realised scores: against a simulation token by token, bounds, refusals, calibration."""

import dataclasses
import functools
from pathlib import Path

import naive
import numpy as np
import pyarrow as pa
import pytest
import strategies
from laid_out import costs_of, make
from traces_factory import lists, rows, trace_table

from oracle import scores
from oracle.costs import length_costs
from oracle.errors import InputError
from oracle.latency.fit import fit_latency
from oracle.policies import PolicySet, reference_policies
from oracle.problem import make_problem
from oracle.realised.calibration import CalibrationTally, calibrate
from oracle.realised.problem import by_label, matches_of, realise, realised_problem, with_clairvoyant
from oracle.realised.scores import differences, realised_scores
from oracle.realised.sums import RealisedSums
from oracle.rounds import RoundFiles
from oracle.solver import solve
from oracle.summaries.realised import realised_tables
from oracle.tables import as_json_text, render
from oracle.traces import TraceFiles, Traces, load_traces

TINY = Path(__file__).parents[1] / "cases" / "tiny-moe"
DENSE = ("layers", "top_k", "num_experts", "experts", "new_experts", "unique_experts")

pytestmark = pytest.mark.filterwarnings("ignore::oracle.errors.InputWarning")


def recorded(problem: strategies.Problem, seed: int) -> Traces:
    """Texts and chains whose equalities are the 0/1 match probabilities of the problem."""
    rng = np.random.default_rng(seed)
    tokens, chains = [], []
    for g, n in enumerate(problem.lengths):
        text = rng.integers(0, 3, n)
        tokens.append(text)
        chain = rng.integers(0, 3, (n, problem.K))
        for t in range(n):
            for j in range(min(problem.K, n - t)):
                same = problem.match_probs[g][t, j] == 1
                chain[t, j] = text[t + j] if same else (text[t + j] + 1) % 3
                if not same:
                    break  # what follows a mismatch is anything: it may be equal again
        chains.append(chain)
    table = trace_table(
        problem.lengths,
        drop=DENSE,
        token_id=lists(problem.lengths, pa.array(np.concatenate(tokens), pa.int32())),
        draft_token_id=rows(problem.lengths, np.concatenate(chains).astype(np.int32)),
    )
    return Traces.from_arrow(table, "made.parquet")


def assert_is_simulated(ours: np.ndarray, generation: naive.Generation, costs: naive.Costs, k: list[int]) -> None:
    twin, _ = naive.simulate(generation, costs, k)
    found = dict(zip(scores.MEASURES, ours, strict=True))
    assert (found["rounds"], found["drafted"], found["accepted"]) == (twin.rounds, twin.drafted, twin.accepted)
    for name, value in (
        ("verify_ms", twin.base_ms),
        ("expert_ms", twin.expert_ms),
        ("context_ms", twin.context_ms),
        ("draft_ms", twin.draft_ms),
        ("reject_ms", twin.reject_ms),
    ):
        assert found[name] == pytest.approx(value, rel=1e-11, abs=1e-11), name
    if generation.match_probs:
        past = [t for t, length, _ in naive.simulate(generation, costs, k)[1] if t + length >= len(k)]
        assert found["past_end"] == len(past)


def test_totals_equal_a_simulation_token_by_token_on_random_matches() -> None:
    for seed in range(60):
        problem = strategies.random_problem(seed, "binary")
        traces, arrays, costs = recorded(problem, seed), make(problem), costs_of(problem)
        without = {"experts=0": solve(arrays, costs.without_experts())}
        reference = reference_policies(arrays, costs, solve(arrays, costs), without)
        rng = np.random.default_rng(seed)
        lengths = np.column_stack([reference.draft_length, rng.choice(problem.allowed, arrays.positions)])
        policies = PolicySet((*reference.names, "mine"), lengths.astype(np.int16))
        expected = dataclasses.replace(arrays, survival=np.full_like(arrays.survival, np.nan))  # must not be looked at
        actual = realised_problem(traces, problem.K, like=expected)
        policies = with_clairvoyant(actual, costs, policies)
        totals = scores.total(actual, costs, policies, traces.generation, traces.cluster_of)
        starts = np.concatenate([[0], np.cumsum(problem.lengths)])
        for g in range(problem.generations):
            for p in range(len(policies.names)):
                k = policies.draft_length[starts[g] : starts[g + 1], p].tolist()
                assert_is_simulated(totals.sums[g, p], problem.generation(g), problem.costs, k)
        assert (totals.total_ms[:, [-1]] <= totals.total_ms * (1 + 1e-12)).all()
        assert solve(actual, costs).value_ms(actual.offsets) == pytest.approx(totals.total_ms[:, -1], rel=1e-12)


@functools.cache
def tiny():
    traces = load_traces(TINY / "traces.parquet")
    model = fit_latency(RoundFiles(TINY / "rounds.parquet")).model
    costs = length_costs(model, 0, 10)
    problem = make_problem(traces, 10)
    without = {"experts=0": solve(problem, costs.without_experts())}
    policies = reference_policies(problem, costs, solve(problem, costs), without)
    return traces, problem, costs, policies


@functools.cache
def tiny_realised():
    return realise(*tiny())


def plain_matches(tokens: list[int], chains: list[list[int]], K: int) -> list[list[float]]:
    table = []
    for t in range(len(tokens)):
        row = [0.0] * K
        for j in range(min(K, len(tokens) - t)):
            if chains[t][j] != tokens[t + j]:
                break
            row[j] = 1.0
        table.append(row)
    return table


def test_totals_equal_a_simulation_token_by_token_on_recorded_chains() -> None:
    traces, problem, costs, policies = tiny()
    found = tiny_realised().totals
    K = 10
    plain = naive.Costs(
        *(a.tolist() for a in (costs.verify_ms, costs.draft_ms, costs.reject_ms, costs.alpha_ms, costs.context_ms)),
        list(costs.lengths),
    )
    assert found.policies == (*policies.names, "clairvoyant")
    for g in range(traces.generations):
        begin, end = traces.offsets[g : g + 2]
        row = {name: traces.table.column(name)[g].as_py() for name in ("token_id", "draft_token_id")}
        matches = plain_matches(row["token_id"], row["draft_token_id"], K)
        unique = problem.unique_experts[begin:end].tolist()
        generation = naive.Generation(matches, unique, int(traces.context_start[g]))
        for name in ("static:1", "static:4", "oracle"):
            p = policies.names.index(name)
            assert_is_simulated(found.sums[g, p], generation, plain, policies.draft_length[begin:end, p].tolist())
        assert naive.solve(generation, plain).value[0] == pytest.approx(found.total_ms[g, -1], rel=1e-11)


def test_clairvoyant_never_costs_more_than_any_policy() -> None:
    total_ms = tiny_realised().totals.total_ms
    assert (total_ms[:, [-1]] <= total_ms * (1 + 1e-12)).all()


def test_batches_add_up() -> None:
    _, _, costs, _ = tiny()
    parts = []
    for batch in TraceFiles(TINY / "traces.parquet", batch_bytes=200_000):
        problem = make_problem(batch, 10)
        oracle, blind = solve(problem, costs), solve(problem, costs.without_experts())
        parts.append(realise(batch, problem, costs, reference_policies(problem, costs, oracle, {"experts=0": blind})))
    assert len(parts) > 2
    whole, joined, once = tiny_realised(), RealisedSums(), RealisedSums()
    assert joined.realised() is None
    for part in parts:
        joined.add(part)
    once.add(whole)
    found, same = joined.realised(), once.realised()
    assert found is not None
    assert same is not None
    assert found.totals.sums.tobytes() == same.totals.sums.tobytes()
    assert found.calibration.first.tobytes() == same.calibration.first.tobytes()
    keys = list(zip(whole.category, whole.decoding, whole.totals.cluster, strict=True))
    assert list(zip(found.category, found.decoding, found.totals.cluster, strict=True)) == list(dict.fromkeys(keys))
    for row, key in enumerate(dict.fromkeys(keys)):
        at = [g for g, other in enumerate(keys) if other == key]
        np.testing.assert_allclose(found.totals.sums[row], whole.totals.sums[at].sum(axis=0), rtol=1e-13)
        np.testing.assert_allclose(found.expected.sums[row], whole.expected.sums[at].sum(axis=0), rtol=1e-13)
    assert (found.generations, found.clusters) == (whole.generations, whole.clusters)
    for one, other in zip(calibrate(found.calibration), calibrate(whole.calibration), strict=True):
        assert one.realised == pytest.approx(other.realised, rel=1e-12)
        assert (one.group, one.anchors, one.interval is None) == (other.group, other.anchors, other.interval is None)


def made(chains: list[list[list[int]]], tokens: list[list[int]], **more: pa.Array) -> Traces:
    lengths = [len(text) for text in tokens]
    ids = [i for text in tokens for i in text]
    flat = pa.array([chain for generation in chains for chain in generation], pa.list_(pa.int32()))
    columns = {"token_id": lists(lengths, pa.array(ids, pa.int32())), "draft_token_id": lists(lengths, flat), **more}
    return Traces.from_arrow(trace_table(lengths, drop=DENSE, **columns), "made.parquet")


def test_matches_by_hand() -> None:
    traces = made([[[1, 2, 9], [2, 9, 3], [7, 1, 1]], [], [[5]]], [[1, 2, 3], [], [5]])
    assert matches_of(traces, 3).tolist() == [[1, 1, 0], [1, 0, 0], [0, 0, 0], [1, 0, 0]]
    assert matches_of(traces, 2).tolist() == [[1, 1], [1, 0], [0, 0], [1, 0]]
    assert matches_of(traces).shape == (4, 3)
    sliced = Traces.from_arrow(traces.table.slice(2, 1), "made.parquet")
    assert matches_of(sliced, 2).tolist() == [[1, 0]]
    chunked = Traces.from_arrow(
        pa.concat_tables([traces.table, traces.table.set_column(0, "generation", pa.array(["x", "y", "z"]))]),
        "made.parquet",
    )
    assert matches_of(chunked, 3).tolist() == matches_of(traces, 3).tolist() * 2


def test_equal_tokens_after_a_mismatch_are_no_match() -> None:
    assert matches_of(made([[[9, 2], [2, 0]]], [[1, 2]]), 2).tolist() == [[0, 0], [1, 0]]


def test_missing_columns_are_named() -> None:
    table = trace_table(drop=("token_id", "draft_token_id"))
    with pytest.raises(InputError) as caught:
        matches_of(Traces.from_arrow(table, "a.parquet"), 2)
    assert str(caught.value) == (
        "1. a.parquet: realised scores need a column token_id (what the target emitted), which the trace lacks; "
        "record it, or ask for expected scores only\n"
        "2. a.parquet: realised scores need a column draft_token_id (ids proposed from each anchor), which the trace "
        "lacks; record it, or ask for expected scores only"
    )


@pytest.mark.parametrize("padding", [[], [-1]])
def test_short_chains_are_refused(padding: list[int]) -> None:
    traces = made([[[1, 2, *padding], [2, *padding, *padding], [7, 1]]], [[1, 2, 3]])
    with pytest.raises(InputError) as caught:
        matches_of(traces, 2)
    assert str(caught.value) == (
        "made.parquet, generation 'g0', position 1: draft_token_id holds 1 tokens where 2 are needed; a token that "
        "was not drafted is no mismatch: lower --k-max to 1, or record full chains"
    )
    assert matches_of(traces).tolist() == [[1], [1], [0]]


def test_anchors_without_a_chain_are_refused() -> None:
    with pytest.raises(InputError) as caught:
        matches_of(made([[[1, 2], [], [7]]], [[1, 2, 3]]))
    assert str(caught.value) == (
        "made.parquet, generation 'g0', position 1: draft_token_id holds 0 tokens where 1 are needed; a token that "
        "was not drafted is no mismatch: record a chain from every anchor"
    )
    nothing = made([[[], [], [], [], [], [], []]], [[1] * 7])
    with pytest.raises(InputError, match=r"draft_token_id is too short at 2 more positions"):
        matches_of(nothing, 1)


def test_null_ids_are_refused() -> None:
    with pytest.raises(InputError, match=r"made.parquet: draft_token_id holds a null id; write the ids"):
        matches_of(made([[[1, None], [2]]], [[1, 2]]), 1)


def test_scores_and_differences() -> None:
    totals = tiny_realised().totals
    scored = {s.policy: s for s in realised_scores(totals)}
    apart = {d.policy: d for d in differences(totals, "static:0")}
    assert "static:0" not in apart
    for name, d in apart.items():
        assert d.ms_per_token == pytest.approx(scored[name].ms_per_token - scored["static:0"].ms_per_token)
        assert d.interval is not None
        assert d.interval.low <= d.ms_per_token <= d.interval.high
    one = scored["static:1"]
    assert one.tokens_per_second == pytest.approx(1e3 / one.ms_per_token)
    assert one.mean_draft_length == 1
    assert one.acceptance == pytest.approx(one.mean_acceptance_length - 1)
    assert scored["clairvoyant"].wasted_per_token == 0
    split = by_label(totals, tiny_realised().decoding)
    assert sum(part.total_ms.sum() for part in split.values()) == pytest.approx(totals.total_ms.sum())


def test_calibration_equals_plain_counts() -> None:
    traces, *_ = tiny()
    decoding = np.repeat(traces.table.column("decoding").to_pylist(), np.diff(traces.offsets))
    tokens = np.concatenate([np.array(ids) for ids in traces.table.column("token_id").to_pylist()])
    first = np.concatenate([np.array(ids)[:, 0] for ids in traces.table.column("draft_token_id").to_pylist()])
    for row in calibrate(tiny_realised().calibration):
        if row.depth == 1:
            within = (traces.match_prob >= row.low) & (traces.match_prob < row.high + (row.high == 1.0))
            at = within & (decoding == row.group)
            assert row.anchors == at.sum()
            assert row.realised == pytest.approx((tokens == first)[at].mean())
            assert row.expected == pytest.approx(traces.match_prob[at].astype(float).mean())


def test_calibration_finds_what_is_true() -> None:
    rng = np.random.default_rng(0)
    p = rng.random((200, 60))
    came = rng.random(p.shape) < p
    first = np.zeros((200, 10, 3))
    for g in range(200):
        for prob, hit in zip(p[g], came[g], strict=True):
            first[g, int(prob * 10)] += (1, prob, hit)
    names = tuple(f"g{g}" for g in range(200))
    tally = CalibrationTally(("all",) * 200, names, first, np.zeros((200, 0, 3)))
    honest = calibrate(tally)
    assert len(honest) == 11
    assert sum(row.apart for row in honest) <= 2  # 95 % intervals of eleven rows
    first[:, :, 2] *= 0.8
    assert all(row.apart for row in calibrate(tally)[4:])


def test_tables_say_what_equality_means() -> None:
    tables = realised_tables(tiny_realised())
    text = render(tables)
    assert "nan" not in text
    assert "sample: 29.0 % of first draft tokens equal the text's token, match probabilities promise 63.3 %" in text
    assert "greedy: 5" not in text.split("Realised ms/token")[0]  # there the two agree
    assert "valid where the engine accepts a token if and only if it equals the text's, as in greedy decoding" in text
    assert [t.name for t in tables] == [
        "realised_scores",
        "realised_by_category_1",
        "realised_by_category_2",
        "calibration",
        "calibration_by_depth",
    ]
    assert '"clairvoyant"' in as_json_text(tables)


def test_nothing_emitted_shows_nothing() -> None:
    traces = made([[]], [[]])
    _, _, costs, _ = tiny()
    problem = make_problem(traces, 10)
    policies = PolicySet(("static:1",), np.ones((0, 1), np.int16))
    found = realise(traces, problem, costs, policies)
    assert realised_scores(found.totals) == []
    assert differences(found.totals, "static:1") == []
    assert realised_tables(found) == []


def test_draft_steps_left_out_are_paid_for() -> None:
    for seed in range(20):
        problem = strategies.random_problem(seed, "binary", k_min=0, missing=False)
        traces, arrays, costs = recorded(problem, seed), make(problem), costs_of(problem)
        rng = np.random.default_rng(seed)
        k = rng.integers(0, problem.K + 1, (arrays.positions, 1))
        drafted = np.minimum(k + rng.integers(0, 3, k.shape), problem.K)
        policies = PolicySet(("mine",), k.astype(np.int16), drafted.astype(np.int16))
        found = realise(traces, arrays, costs, policies).totals
        starts = np.concatenate([[0], np.cumsum(problem.lengths)])
        for g in range(problem.generations):
            mine = slice(starts[g], starts[g + 1])
            twin, rounds = naive.simulate(problem.generation(g), problem.costs, k[mine, 0].tolist())
            steps = [int(drafted[mine, 0][t]) for t, _, _ in rounds]
            assert found.of("drafted")[g, 0] == sum(steps)
            assert found.of("accepted")[g, 0] == twin.accepted
            paid = sum(
                problem.draft[made] if problem.draft[made] > problem.draft[length] else problem.draft[length]
                for (_, length, _), made in zip(rounds, steps, strict=True)
            )
            assert found.of("draft_ms")[g, 0] == pytest.approx(paid)
