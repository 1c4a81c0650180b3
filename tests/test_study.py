"""Studies from files: the hand cases through the product, and the identities that tie its outputs together."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import naive
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from oracle.changes import parse_change
from oracle.costs import choose_range, length_costs
from oracle.errors import InputError
from oracle.latency.model import LatencyModel
from oracle.problem import make_problem
from oracle.scores import MEASURES
from oracle.study import Question, Study, study
from oracle.summaries.study import study_tables
from oracle.tables import as_json_text
from oracle.traces import TraceFiles, load_traces

CASES = Path(__file__).parent.parent / "cases"
HAND = sorted(path.name for path in CASES.glob("hand-*"))
AS_IS = "experts=0"
TINY = CASES / "tiny-moe"


def solutions() -> list[Any]:
    """One test a solved generation of the hand cases."""
    params = []
    for name in HAND:
        expected = json.loads((CASES / name / "expected.json").read_text())
        for solution in expected["solutions"]:
            label = f"{name}-{solution['generation']}-{solution['unique_experts_from']}"
            params.append(pytest.param(name, expected["draft_lengths"], solution, id=label))
    return params


def answer(name: str, source: str, folder: Path) -> tuple[Study, dict[str, dict[str, Any]], dict[str, dict[str, Any]]]:
    model = LatencyModel.load(CASES / name / "model.json")
    question = Question(
        unique_experts=source,
        score=True,
        ablate=True,
        decisions=folder / "decisions.parquet",
        shifts=folder / "shifts.parquet",
    )
    found = study(TraceFiles(CASES / name / "trace.parquet"), model, question)
    decisions = {row["generation"]: row for row in pq.read_table(folder / "decisions.parquet").to_pylist()}
    moved = [row for row in pq.read_table(folder / "shifts.parquet").to_pylist() if row["change"] == AS_IS]
    return found, decisions, {row["generation"]: row for row in moved}


@pytest.mark.parametrize(("name", "lengths", "solution"), solutions())
def test_answers_derived_on_paper(name: str, lengths: list[int], solution: dict[str, Any], tmp_path: Path) -> None:
    found, decisions, shifts = answer(name, solution["unique_experts_from"], tmp_path)
    assert list(found.costs.lengths) == lengths
    row, shift = decisions[solution["generation"]], shifts[solution["generation"]]
    assert row["draft_length"] == solution["draft_length"]
    assert row["marginal_ms"] == solution["marginal_ms"]
    assert row["q_gap_ms"] == solution["q_gap_ms"]
    assert row["modal_advance"] == solution["modal_advance"]
    assert row["expected_advance"] == solution["expected_advance"]
    assert row["visit_prob"] == solution["visit_prob"]
    without = solution["alpha_zero"]
    assert shift["changed_draft_length"] == without["draft_length"]
    assert shift["next_q_changed_ms"] == without["next_q_ms"]


@pytest.mark.parametrize("name", HAND)
def test_totals_derived_on_paper(name: str) -> None:
    expected = json.loads((CASES / name / "expected.json").read_text())
    model = LatencyModel.load(CASES / name / "model.json")
    traces = load_traces(CASES / name / "trace.parquet")
    from oracle import scores  # noqa: PLC0415
    from oracle.policies import reference_policies  # noqa: PLC0415
    from oracle.solver import solve  # noqa: PLC0415

    for solution in expected["solutions"]:
        span = choose_range(model, traces.max_draft_length)
        costs = length_costs(model, span.k_min, span.k_max)
        problem = make_problem(traces, span.k_max, solution["unique_experts_from"])
        blind = solve(problem, costs.without_experts())
        policies = reference_policies(problem, costs, solve(problem, costs), {AS_IS: blind})
        totals = scores.total(problem, costs, policies, traces.generation, traces.generation)
        g = traces.generation.index(solution["generation"])
        at = {policy: totals.total_ms[g, p] for p, policy in enumerate(totals.policies)}
        assert at["oracle"] == solution["total_ms"]
        assert at["blind"] == solution["alpha_zero"]["blind_total_ms"]
        assert {k: at[f"static:{k}"] for k in solution["static_total_ms"]} == solution["static_total_ms"]
        ours = dict(zip(MEASURES, totals.sums[g, 0].tolist(), strict=True))
        paper = solution["totals"]
        for measure in ("rounds", "drafted", "accepted", "expert_ms", "context_ms", "draft_ms", "reject_ms"):
            assert ours[measure] == paper[measure], measure
        assert ours["verify_ms"] == paper["base_ms"]
        assert ours["past_end"] == solution["rounds_past_the_end"]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> tuple[Study, Path]:
    """The recorded traces under the published coefficients, with m = 1 added so that k = 0 may be chosen."""
    folder = tmp_path_factory.mktemp("tiny")
    published = LatencyModel.load(CASES / "published-a100" / "model.json")
    model = LatencyModel(
        m=(1, *published.m),
        beta0_ms=(5.7, *published.beta0_ms),
        alpha_ms_per_expert=(0.081, *published.alpha_ms_per_expert),
        context_ms_per_token=published.context_ms_per_token,
        draft=published.draft,
    )
    question = Question(
        score=True,
        ablate=True,
        decisions=folder / "decisions.parquet",
        shifts=folder / "shifts.parquet",
        threads=2,
    )
    return study(TraceFiles(TINY / "traces.parquet"), model, question), folder


def test_identities_on_recorded_traces(tiny: tuple[Study, Path]) -> None:
    found, folder = tiny
    rows = pq.read_table(folder / "decisions.parquet").to_pylist()
    assert len(rows) == found.generations == 78
    value = sum(sum(row["marginal_ms"]) for row in rows)
    assert value == pytest.approx(found.value_ms, rel=1e-12)
    oracle = next(s for s in found.scores if s.policy == "oracle")
    assert oracle.ms_per_token * found.positions == pytest.approx(value, rel=1e-12), "Σ visit·C = V(0)"
    for row in rows:
        emitted = np.dot(row["visit_prob"], row["expected_advance"])
        assert emitted == pytest.approx(len(row["visit_prob"]), rel=1e-6), "Σ visit·E[clipped A] = N"
    for other in found.scores:
        assert other.ms_per_token >= oracle.ms_per_token * (1 - 1e-12)
    assert found.chosen[0].sum() == found.positions == 19_746


def test_recorded_traces_equal_naive_twin(tiny: tuple[Study, Path]) -> None:
    found, folder = tiny
    traces = load_traces(TINY / "traces.parquet")
    decisions = {row["generation"]: row for row in pq.read_table(folder / "decisions.parquet").to_pylist()}
    costs = found.costs
    twin_costs = naive.Costs(
        beta0=costs.verify_ms.tolist(),
        draft=costs.draft_ms.tolist(),
        reject=costs.reject_ms.tolist(),
        alpha=costs.alpha_ms.tolist(),
        context=costs.context_ms.tolist(),
        lengths=list(costs.lengths),
    )
    assert traces.match_prob is not None
    assert traces.unique_experts is not None
    for g in (0, 41, 77):
        span = slice(int(traces.offsets[g]), int(traces.offsets[g + 1]))
        generation = naive.Generation(
            naive.by_depth(traces.match_prob[span].tolist(), costs.k_max),
            traces.unique_experts[span].astype(float).tolist(),
            int(traces.context_start[g]),
        )
        twin = naive.solve(generation, twin_costs)
        row = decisions[traces.generation[g]]
        np.testing.assert_allclose(row["marginal_ms"], naive.marginal(twin.value), rtol=1e-9)
        for t, k in enumerate(row["draft_length"]):
            assert twin.q[t][k] - twin.value[t] <= 1e-9
        blind = naive.solve(generation, naive.without_experts(twin_costs))
        shift = next(
            r for r in pq.read_table(folder / "shifts.parquet").to_pylist() if r["generation"] == row["generation"]
        )
        for t, k0 in enumerate(shift["changed_draft_length"]):
            assert blind.q[t][k0] - blind.value[t] <= 1e-9


def test_results_do_not_depend_on_threads_or_batches(tmp_path: Path) -> None:
    model = LatencyModel.load(CASES / "published-a100" / "model.json")
    outputs = []
    for threads, batch_bytes in ((1, 1 << 30), (2, 1), (3, 40_000)):
        question = Question(score=True, ablate=True, decisions=tmp_path / "d.parquet", threads=threads)
        files = TraceFiles(TINY / "traces.parquet", batch_bytes=batch_bytes)
        found = study(files, model, question)
        outputs.append((pq.read_table(tmp_path / "d.parquet"), study_tables(found)))
    for decisions, tables in outputs[1:]:
        assert decisions.equals(outputs[0][0])
        assert as_json_text(tables) == as_json_text(outputs[0][1]), "to the last bit"


def test_flat_decisions_hold_the_same_values(tmp_path: Path) -> None:
    model = LatencyModel.load(CASES / "published-a100" / "model.json")
    files = TraceFiles(TINY / "traces.parquet")
    study(files, model, Question(decisions=tmp_path / "nested.parquet"))
    study(files, model, Question(decisions=tmp_path / "flat.parquet", flat=True))
    nested, flat = pq.read_table(tmp_path / "nested.parquet"), pq.read_table(tmp_path / "flat.parquet")
    assert flat.column_names == ["generation", "position", *nested.column_names[1:]]
    for name in nested.column_names[1:]:
        assert nested[name].combine_chunks().flatten().equals(flat[name].combine_chunks())
    assert flat.to_pandas().groupby("generation", sort=False)["position"].max().tolist() == [
        len(row) - 1 for row in nested["draft_length"].to_pylist()
    ]


def test_nothing_is_written_when_a_later_batch_is_faulty(tmp_path: Path) -> None:
    table = pq.read_table(TINY / "traces.parquet")
    bad = table["match_prob"].to_pylist()
    bad[77][5] = 1.5
    column = pa.array(bad, table.schema.field("match_prob").type)
    pq.write_table(
        table.set_column(table.column_names.index("match_prob"), "match_prob", column), tmp_path / "t.parquet"
    )
    model = LatencyModel.load(CASES / "published-a100" / "model.json")
    files = TraceFiles(tmp_path / "t.parquet", batch_bytes=1)
    with pytest.raises(InputError, match=r"generation '.*', position 5: match_prob is 1\.5; a probability lies in"):
        study(files, model, Question(decisions=tmp_path / "d.parquet", threads=2))
    assert [path.name for path in tmp_path.iterdir()] == ["t.parquet"]


def test_draft_lengths_are_settled_in_words() -> None:
    published = LatencyModel.load(CASES / "published-a100" / "model.json")
    span = choose_range(published, None)
    assert (span.k_min, span.k_max) == (1, 10)
    assert span.notes == ("the latency model has no m = 1: k_min is 1 and speed-ups over k = 0 are not available",)
    gap = LatencyModel(
        m=(1, 2, 4), beta0_ms=(1, 1, 1), alpha_ms_per_expert=(0, 0, 0), context_ms_per_token=0.0, draft=published.draft
    )
    span = choose_range(gap, 2)
    assert (span.k_min, span.k_max) == (0, 2)
    assert span.notes == (
        "left out, since the latency model has no m for them: k = 2 (measured: m = 1, 2, 4)",
        "k_max is 2: the trace carries no longer draft length (the model goes to 3)",
    )
    assert length_costs(gap, 0, 3).lengths == (0, 1, 3)
    assert length_costs(gap, 0, 3).base_ms.tolist()[2] == np.inf


@pytest.mark.parametrize(
    ("k_min", "k_max", "carried", "message"),
    [
        (None, 12, 10, "t.parquet: k_max is 12, but the trace carries draft lengths up to 10; lower --k-max"),
        (None, 129, None, "k_max is 129; draft lengths up to 128 are supported: give --k-max"),
        (3, 2, None, "draft lengths must satisfy 0 <= k_min <= k_max, not k_min = 3 and k_max = 2"),
        (11, 12, None, "has no m = 12"),
    ],
)
def test_impossible_ranges_are_refused(k_min: int | None, k_max: int, carried: int | None, message: str) -> None:
    model = LatencyModel.load(CASES / "published-a100" / "model.json")
    with pytest.raises(InputError) as raised:
        choose_range(model, carried, k_min=k_min, k_max=k_max, source="t.parquet")
    assert message in str(raised.value)


def test_missing_expert_column_is_named() -> None:
    traces = load_traces(CASES / "hand-all-match" / "trace.parquet")
    with pytest.raises(InputError) as raised:
        make_problem(traces, 2, "recorded")
    assert str(raised.value).endswith(
        "--unique-experts recorded needs a column unique_experts, which the trace lacks; it has routing"
    )


def test_refitted_beta0_keeps_the_mean_price_of_experts() -> None:
    """Against least squares without U on simulated rounds: T = beta0' + c·L for one m, c given."""
    rng = np.random.default_rng(0)
    U, L = rng.uniform(4, 12, 200), rng.uniform(100, 900, 200)
    T = 3.0 + 0.25 * U + 0.001 * L + rng.normal(0, 0.1, 200)
    design = np.column_stack([np.ones(200), U, L])
    beta0, alpha, c = np.linalg.lstsq(design, T, rcond=None)[0]
    model = LatencyModel(
        m=(1,),
        beta0_ms=(float(beta0),),
        alpha_ms_per_expert=(float(alpha),),
        context_ms_per_token=float(c),
        draft=LatencyModel.load(CASES / "published-a100" / "model.json").draft,
        fit={"per_m": [{"m": 1, "mean_unique_experts": float(U.mean())}]},
    )
    costs = length_costs(model, 0, 0)
    refitted = parse_change("experts=0").refitted(costs, model)
    assert refitted is not None
    assert refitted.alpha_ms.tolist() == [0.0]
    assert refitted.verify_ms[0] == pytest.approx((T - c * L).mean(), rel=1e-12)


def test_a_trace_without_experts_under_a_model_that_prices_them_is_noted(tmp_path: Path) -> None:
    table = pq.read_table(TINY / "traces.parquet").drop_columns(
        ["experts", "unique_experts", "layers", "top_k", "num_experts"]
    )
    pq.write_table(table, tmp_path / "t.parquet")
    model = LatencyModel.load(CASES / "published-a100" / "model.json")
    found = study(TraceFiles(tmp_path / "t.parquet"), model, Question())
    assert any(
        note.startswith("the traces hold no expert columns, so experts cost nothing here") for note in found.notes
    )


def test_prices_of_nothing_without_experts_are_noted() -> None:
    model = LatencyModel.load(CASES / "published-a100" / "model.json")
    low = replace(
        model, beta0_ms=(-1.0, *model.beta0_ms[1:]), alpha_ms_per_expert=(2.0, *model.alpha_ms_per_expert[1:])
    )
    said = f"without its experts a round of k = {model.m[0] - 1} would cost nothing or less in a short context: "
    traces = TraceFiles(TINY / "traces.parquet")
    for fitted, noted in ((model, 0), (low, 1)):
        notes = study(traces, fitted, Question(score=True)).notes
        assert sum(note.startswith(said) for note in notes) == noted


def test_what_the_model_was_not_fitted_for_is_noted() -> None:
    """Contexts beyond the measured ones, another top_k, a borrowed alpha, no means to refit with, few clusters."""
    published = LatencyModel.load(CASES / "published-a100" / "model.json")
    model = LatencyModel(
        m=(1, 2),
        beta0_ms=(5.0, 7.0),
        alpha_ms_per_expert=(0.1, 0.1),
        context_ms_per_token=0.001,
        draft=published.draft,
        fit={
            "counts": {"longest_context": 300},
            "per_m": [{"m": 1, "mean_unique_experts": 3.0}],
            "alpha_source": ["borrowed from m = 2", "own"],
        },
    )
    found = study(TraceFiles(TINY / "traces.parquet"), model, Question(score=True, ablate=True))
    assert [note.split(":")[0][:60] for note in (*found.notes, *found.change_notes)] == [
        "the traces reach a context of 475 tokens, the model was fitt",
        "one position touches 4 experts a layer in the traces and 3 i",
        "match probabilities of greedy texts are overlaps Σ min(p, q)",
        "alpha at m = 1 is borrowed from m = 2",
        "experts=0",
    ]
    assert found.change_notes[1].endswith(
        "the model file does not tell the mean U of its rounds, so beta0 is not refitted"
    )
    few = study(TraceFiles(CASES / "hand-end-of-text" / "trace.parquet"), published, Question(score=True, k_max=2))
    assert few.clusters < 10
    assert any("clusters only" in note for note in few.notes) == (few.clusters >= 2)
