"""The real cases of cases/alpha-*: product against the naive twins, READMEs and script against expected.json."""

import json
import re
import shlex
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from test_cli import succeeded
from test_hand_cases import CASES, read_costs

from oracle.ablation import TERMS
from oracle.explanation import Comparison, Explained, explain_decision
from oracle.latency.model import LatencyModel
from oracle.traces import load_traces

ROUNDS = {
    "alpha-code-licence": "rounds-grouped_mm.parquet",
    "alpha-html-navigation": "rounds.parquet",
    "alpha-prose-reference": "rounds-grouped_mm.parquet",
    "alpha-russian-clause": "rounds.parquet",
}
NAMES = tuple(ROUNDS)
MOST_BYTES = 100_000


@pytest.fixture(scope="module")
def script() -> ModuleType:
    import importlib.util  # noqa: PLC0415

    spec = importlib.util.spec_from_file_location("make_real_cases", CASES / "make_real_cases.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def expected_of(case: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((CASES / case / "expected.json").read_text())
    return found


def explained(case: str) -> Explained:
    traces = load_traces(CASES / case / "trace.parquet")
    return explain_decision(traces, LatencyModel.load(CASES / case / "model.json"), expected_of(case)["position"])


def terms_of(comparison: Comparison | None, *, changed: bool) -> dict[str, float]:
    """A comparison in the words of the naive twin."""
    assert comparison is not None
    ms = comparison.changed_ms if changed else comparison.full_ms
    terms = dict(zip(TERMS, ms.tolist(), strict=True))
    return {
        "q_difference": float(ms.sum()),
        "base": terms["verify_ms"],
        "expert": terms["expert_load_ms"] + terms["expert_price_ms"],
        "context": terms["context_ms"],
        "draft": terms["draft_ms"],
        "reject": terms["reject_ms"],
        "continuation": terms["continuation_ms"],
        "more_experts": terms["expert_load_ms"],
        "dearer_experts": terms["expert_price_ms"],
    }


@pytest.mark.parametrize("case", NAMES)
def test_the_product_gives_what_the_definition_gives(case: str) -> None:
    expected, one = expected_of(case), explained(case)
    found = one.explanation
    assert (found.position, found.positions) == (expected["position"], expected["positions"])
    assert found.context_len == expected["context_len"]
    assert found.draft_length == expected["draft_length"]
    assert found.changed_length == expected["alpha_zero_draft_length"]
    assert found.modal_advance == expected["modal_advance"]
    assert found.unique_experts.tolist() == expected["unique_experts"]
    for name in ("next_match_prob", "visit_prob", "survival"):
        np.testing.assert_allclose(getattr(found, name), expected[name], rtol=1e-9)
    assert found.rest_ms == pytest.approx(expected["value_after_ms"], rel=1e-9)
    assert found.q_gap_ms == pytest.approx(expected["q_gap_ms"], rel=1e-9)
    assert np.diff(np.sort(found.changed_q_ms))[0] == pytest.approx(expected["alpha_zero_q_gap_ms"], rel=1e-9)
    np.testing.assert_allclose(found.q_ms + expected["value_after_ms"], expected["q_ms"], rtol=1e-12)
    after = expected["alpha_zero_value_after_ms"]
    np.testing.assert_allclose(found.changed_q_ms + after, expected["alpha_zero_q_ms"], rtol=1e-12)
    assert found.scale.below == pytest.approx(expected["scale_below"], rel=1e-9)
    assert found.scale.draft_length_below == expected["draft_length_below"]


@pytest.mark.parametrize("case", NAMES)
def test_every_term_is_that_of_the_definition(case: str) -> None:
    expected, found = expected_of(case), explained(case).explanation
    for key, comparison in (("next_ms", found.next_one), ("shifted_ms", found.ablated)):
        full, free = terms_of(comparison, changed=False), terms_of(comparison, changed=True)
        # the naive continuation is a difference of two sums near 1,000 ms
        assert full == pytest.approx(expected[key], rel=1e-9, abs=1e-11)
        expected_free = expected[f"alpha_zero_{key}"]
        for name in ("q_difference", "base", "expert", "draft", "continuation"):
            assert free[name] == pytest.approx(expected_free[name], rel=1e-9, abs=1e-11), name


def test_the_script_writes_what_is_kept(script: ModuleType, tmp_path: Path) -> None:
    written = script.write(tmp_path)
    assert sorted({path.parent.name for path in written}) == sorted(NAMES)
    for path in written:
        kept = CASES / path.parent.name / path.name
        if path.suffix == ".json":
            assert path.read_text() == kept.read_text()
        else:
            assert pq.read_table(path).equals(pq.read_table(kept))
            assert pq.read_schema(path).equals(pq.read_schema(kept), check_metadata=True)


@pytest.mark.parametrize("case", NAMES)
def test_the_script_reads_models_like_the_hand_cases(script: ModuleType, case: str) -> None:
    model = json.loads((CASES / case / "model.json").read_text())
    mine, theirs = script.costs_of(model), read_costs(case, list(range(11)))
    assert [list(column) for column in mine] == [list(column) for column in theirs]


@pytest.mark.parametrize("rounds", sorted(set(ROUNDS.values())))
def test_the_models_are_fitted_to_the_recorded_rounds(rounds: str, tmp_path: Path) -> None:
    succeeded("fit", CASES / "tiny-moe" / rounds, "-o", tmp_path / "model.json")
    fitted = LatencyModel.load(tmp_path / "model.json")
    for case in (case for case, origin in ROUNDS.items() if origin == rounds):
        kept = LatencyModel.load(CASES / case / "model.json")
        assert kept.m == fitted.m
        for name in ("beta0_ms", "alpha_ms_per_expert"):
            np.testing.assert_allclose(getattr(kept, name), getattr(fitted, name), rtol=1e-9)
        for k in range(11):
            assert kept.context_of(k + 1) == pytest.approx(fitted.context_of(k + 1), rel=1e-9)
            assert kept.draft_ms(k) == pytest.approx(fitted.draft_ms(k), rel=1e-9)


def numbers_in(value: Any) -> list[float]:
    if isinstance(value, dict | list):
        return [x for item in (value.values() if isinstance(value, dict) else value) for x in numbers_in(item)]
    return [value] if isinstance(value, int | float) else []


@pytest.mark.parametrize("case", NAMES)
def test_readmes_say_the_numbers_of_expected_json(case: str) -> None:
    expected, page = expected_of(case), (CASES / case / "README.md").read_text().replace("−", "-")
    rows = re.findall(r"^\| .+ \| `([\w.]+)` \| ([+-]?[\d.]+) \|$", page, re.MULTILINE)
    assert len(rows) >= 15
    for path, shown in rows:
        value = expected
        for key in path.split("."):
            value = value[key]
        decimals = len(shown.partition(".")[2])
        assert float(shown) == pytest.approx(value, abs=0.5000001 * 10**-decimals), path
    known = {f"{abs(x):.4f}" for x in numbers_in(expected)}
    said = re.findall(r"\d+\.\d{3,}", page)
    assert len(said) > len(rows)
    assert set(said) <= known


@pytest.mark.parametrize("case", NAMES)
def test_the_command_of_the_readme_explains_the_case(case: str) -> None:
    expected = expected_of(case)
    command = re.search(r"^draft-oracle (explain .+)$", (CASES / case / "README.md").read_text(), re.MULTILINE)
    assert command is not None
    words = [str(CASES.parent / word) if word.startswith("cases/") else word for word in shlex.split(command[1])]
    said = {row["key"]: row["value"] for row in json.loads(succeeded(*words, "--json"))["tables"]["decision"]["rows"]}
    assert said["draft_length"] == expected["draft_length"]
    assert said["changed_length"] == expected["alpha_zero_draft_length"]
    assert said["scale_below"] == pytest.approx(expected["scale_below"], rel=1e-9)


def test_the_cases_differ_and_are_small() -> None:
    rows = [pq.read_table(CASES / case / "trace.parquet").to_pylist()[0] for case in NAMES]
    assert len({row["category"] for row in rows}) == len(NAMES)
    assert len({expected_of(case)["draft_length"] for case in NAMES}) == len(NAMES)
    for case in NAMES:
        assert sum(path.stat().st_size for path in (CASES / case).iterdir()) < MOST_BYTES
        assert expected_of(case)["alpha_zero_next_ms"]["q_difference"] < 0


def test_every_case_stands_in_the_overview() -> None:
    overview = (CASES / "README.md").read_text()
    for case in NAMES:
        assert f"`{case}/`" in overview
        assert (CASES / case / "README.md").stat().st_size > 1000
