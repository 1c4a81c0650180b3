"""The paper answers of cases/hand-* against the naive twins and QuantEcon; their traces against the literals."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import naive
import pyarrow.parquet as pq
import pytest
import referee_quantecon

CASES = Path(__file__).parent.parent / "cases"
NAMES = ("hand-all-match", "hand-end-of-text", "hand-junk-tail", "hand-one-expert-too-many")


def load_script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_hand_cases", CASES / "make_hand_cases.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def read_costs(case: str, lengths: list[int]) -> naive.Costs:
    """The model file by draft length k; lengths whose m the model lacks get 0 and are not allowed."""
    model = json.loads((CASES / case / "model.json").read_text())
    verify, draft = model["verify"], model["draft"]
    K = max(lengths)
    by_k: dict[str, list[float]] = {name: [0.0] * (K + 1) for name in ("beta0", "draft", "reject", "alpha", "context")}
    for i, m in enumerate(verify["m"]):
        k, c = m - 1, verify["context_ms_per_token"]
        by_k["beta0"][k] = verify["beta0_ms"][i]
        by_k["alpha"][k] = verify["alpha_ms_per_expert"][i]
        by_k["context"][k] = c[i] if isinstance(c, list) else c
        if k >= 1:
            by_k["reject"][k] = model["reject_ms"]
            line = "ms_per_token" in draft
            by_k["draft"][k] = (
                draft["ms_per_token"] * k + draft["base_ms"] if line else draft["ms"][draft["k"].index(k)]
            )
    return naive.Costs(**by_k, lengths=lengths)


def read_rows(case: str) -> dict[str, dict[str, Any]]:
    return {row["generation"]: row for row in pq.read_table(CASES / case / "trace.parquet").to_pylist()}


def read_routing(row: dict[str, Any]) -> list[list[list[int]]]:
    """experts[t][layer] = ids, from the bytes of the trace."""
    top_k = row["top_k"]
    return [[list(ids[i * top_k : (i + 1) * top_k]) for i in range(row["layers"])] for ids in row["experts"]]


def solutions() -> list[Any]:
    found = []
    for case in NAMES:
        expected = json.loads((CASES / case / "expected.json").read_text())
        for one in expected["solutions"]:
            label = f"{case}-{one['generation']}-{one['unique_experts_from']}"
            found.append(pytest.param(case, expected["draft_lengths"], one, id=label))
    return found


def read_generation(case: str, expected: dict[str, Any], K: int) -> naive.Generation:
    row = read_rows(case)[expected["generation"]]
    matches = row["match_probs"] if "match_probs" in row else naive.by_depth(row["match_prob"], K)
    recorded = expected["unique_experts_from"] == "recorded"
    U = row["unique_experts"] if recorded else naive.unique_experts(read_routing(row), K)
    return naive.Generation(matches, U, row["context_start"])


@pytest.mark.parametrize(("case", "lengths", "expected"), solutions())
def test_the_paper_answer_is_what_the_definition_gives(case: str, lengths: list[int], expected: dict[str, Any]) -> None:
    K = max(lengths)
    costs, one = read_costs(case, lengths), read_generation(case, expected, K)
    N = len(one.match_probs)
    mine = naive.solve(one, costs)
    k = mine.draft_length
    p = one.match_probs
    assert one.unique_experts == expected["unique_experts"]
    if expected["unique_experts_from"] == "routing":
        assert naive.new_experts(read_routing(read_rows(case)[expected["generation"]]), K) == expected["new_experts"]
    assert [[naive.round_cost(one, costs, t, j) for j in lengths] for t in range(N)] == expected["cost_ms"]
    assert [[q[j] for j in lengths] for q in mine.q] == expected["q_ms"]
    assert k == expected["draft_length"]
    assert mine.value == [*expected["value_ms"], 0.0]
    assert mine.value[0] == expected["total_ms"]
    assert naive.marginal(mine.value) == expected["marginal_ms"]
    assert [naive.q_gap(q) for q in mine.q] == expected["q_gap_ms"]
    assert [naive.modal_advance(p[t], k[t], N - t) for t in range(N)] == expected["modal_advance"]
    assert [naive.expected_advance(p[t], k[t], N - t) for t in range(N)] == expected["expected_advance"]
    visit = naive.visit_probs(one, k)
    assert visit == expected["visit_prob"]
    assert naive.totals(one, costs, k)._asdict() == expected["totals"]
    assert sum(visit[t] for t in range(N) if t + k[t] > N - 1) == expected["rounds_past_the_end"]
    static = {str(j): naive.evaluate(one, costs, [j] * N)[0] for j in lengths}
    assert static == expected["static_total_ms"]


@pytest.mark.parametrize(("case", "lengths", "expected"), solutions())
def test_the_paper_answer_without_expert_cost(case: str, lengths: list[int], expected: dict[str, Any]) -> None:
    costs, one = read_costs(case, lengths), read_generation(case, expected, max(lengths))
    found, zero = naive.ablate(one, costs), expected["alpha_zero"]
    assert found.blind.draft_length == zero["draft_length"]
    assert found.blind.value == [*zero["value_ms"], 0.0]
    assert found.shift == zero["shift"]
    assert found.next_q_ms == zero["next_q_ms"]
    assert naive.evaluate(one, costs, found.blind.draft_length)[0] == zero["blind_total_ms"]


@pytest.mark.parametrize(("case", "lengths", "expected"), solutions())
def test_the_paper_answer_is_what_quantecon_finds(case: str, lengths: list[int], expected: dict[str, Any]) -> None:
    costs, one = read_costs(case, lengths), read_generation(case, expected, max(lengths))
    value, draft_length = referee_quantecon.solve(one, costs)
    assert value.tolist() == [*expected["value_ms"], 0.0]
    assert draft_length.tolist() == expected["draft_length"]


def test_the_paper_decomposition() -> None:
    case = "hand-one-expert-too-many"
    (expected,) = json.loads((CASES / case / "expected.json").read_text())["solutions"]
    costs, one = read_costs(case, [0, 1, 2]), read_generation(case, expected, 2)
    terms = dict(expected["decomposition"])
    t, k, other = terms.pop("position"), terms.pop("draft_length"), terms.pop("other")
    assert naive.decompose(one, costs, naive.solve(one, costs).value, t=t, k=k, other=other) == terms
    assert sum(terms.values()) == expected["q_ms"][t][k] - expected["q_ms"][t][other]


def test_the_traces_are_what_the_script_writes(tmp_path: Path) -> None:
    script = load_script()
    written = script.write(tmp_path)
    assert sorted(path.parent.name for path in written) == sorted(NAMES)
    for path in written:
        again, kept = pq.read_table(path), pq.read_table(CASES / path.parent.name / "trace.parquet")
        assert again.schema.equals(kept.schema, check_metadata=True)
        assert again.equals(kept)


def test_every_case_explains_itself() -> None:
    overview = (CASES / "README.md").read_text()
    for case in NAMES:
        assert f"`{case}/`" in overview
        assert (CASES / case / "README.md").stat().st_size > 1000
