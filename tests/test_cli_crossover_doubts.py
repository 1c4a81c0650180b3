"""``draft-oracle crossover`` where the latency model cannot carry an answer: refusals, unknown sizes, open exits."""

import json
from pathlib import Path
from typing import Any

import pytest
from test_cli import PUBLISHED, TINY, refused, succeeded

BY_FORMULA = ("--match-prob", "0.8", "--context-len", "100", "--num-experts", "64", "--top-k", "4")


def write(path: Path, beta0: list[float], alpha: float, **block: Any) -> Path:
    verify = {"m": list(range(1, len(beta0) + 1)), "beta0_ms": beta0, "alpha_ms_per_expert": [alpha] * len(beta0)}
    model = {"format": "draft-oracle/latency-model", "version": 1, "reject_ms": 0.0}
    model["verify"] = verify | {"context_ms_per_token": 0.001} | block  # type: ignore[assignment]
    if block:
        model["verify"] = [model["verify"]]  # type: ignore[assignment]
    path.write_text(json.dumps(model | {"draft": {"ms_per_token": 0.3, "base_ms": 0.1}}))
    return path


def test_a_round_that_takes_no_time_is_refused(tmp_path: Path) -> None:
    model = write(tmp_path / "model.json", [9.0, 9.1, 9.2], -0.3)
    said = refused("crossover", "-m", model, *BY_FORMULA, "--token-ms", "0")
    assert "batch size 4: the latency model prices a round of K = 2 at -" in said
    assert "(base and further tokens 9.2 ms, experts, " in said
    assert "a round takes at least 1e-06 ms: time rounds of such batch sizes and fit again, or ask for smaller" in said
    fine = succeeded("crossover", "-m", model, *BY_FORMULA, "--token-ms", "0", "--max-batch-size", "3")
    assert "alpha is negative at m = 1, 2, 3 (down to -0.3 ms per expert): more experts cannot take less time" in fine


def test_a_price_at_which_a_round_takes_no_time_has_no_exit(tmp_path: Path) -> None:
    model = write(tmp_path / "model.json", [9.0, 9.05, 9.06, 9.2, 9.21, 9.5], -0.16)
    said = succeeded("crossover", "-m", model, *BY_FORMULA)
    assert "takes 0 ms (lower end of its interval), no answer, a round would take no time or less, if 1.18 ms" in said
    assert "at both ends of the" not in said  # there is one only


def test_batch_sizes_below_the_measured_one_are_unknown_and_not_off(tmp_path: Path) -> None:
    model = write(tmp_path / "model.json", [9.0, 9.1, 9.2, 9.4], 0.05, batch_size=16)
    asked = ("crossover", "-m", model, *BY_FORMULA, "--max-batch-size", "24")
    said = succeeded(*asked, "--engine", "vllm", "--method", "mtp")
    assert "batch sizes 1 … 15 are unknown, written as K = 0" in said
    assert "# batch sizes 1 … 15 are unknown, written as K = 0: that is no finding that drafts do not pay" in said
    assert "beyond it beta0 and alpha go by the draft length" in said
    rows = json.loads(succeeded(*asked, "--json"))["tables"]["schedule"]["rows"]
    assert (rows[0]["from"], rows[0]["to"], rows[0]["unknown"]) == (1, 15, True)
    assert not rows[1]["unknown"]


def test_the_published_beta0_tell_no_price_of_a_further_token() -> None:
    said = succeeded("crossover", "-m", PUBLISHED, *BY_FORMULA, "--off-ms", "5.7", "--max-batch-size", "64")
    assert "price of a further token: cannot be told (beta0 over m = 7 … 11 does not rise): what rests on it is" in said
    assert "unknown: price of a further token" in said
    assert "speculation" in said


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> str:
    model = tmp_path_factory.mktemp("model") / "model.json"
    succeeded("fit", TINY / "rounds-grouped_mm.parquet", "-o", model)
    asked = ("--paths", "40", "--engine", "vllm", "--method", "mtp")
    return succeeded("crossover", TINY / "traces.parquet", "-m", model, *asked)


def test_exits_that_rest_on_a_price_are_given_at_both_ends(recorded: str) -> None:
    by_token = "if a further token takes 0.0156 ms (lower end of its interval), exit not seen (on to 256), if 0.231 ms"
    assert f"the exit rests on prices that were not timed: {by_token}" in recorded
    context = "if a token of context of a further request takes 0 ms, exit "
    assert f"; {context}" in recorded
    assert f"# {by_token}" in recorded
    assert f"# {context}" in recorded


def test_what_is_set_and_what_pays_do_not_contradict_each_other(recorded: str) -> None:
    (line,) = [line for line in recorded.splitlines() if line.startswith("     1  pays")]
    assert line.startswith("     1  pays, not significantly; not set")
    heads = recorded[recorded.index("Prices at which speculation turns") :]
    for head in ("pays while a further", "drafting a token for", "reading a token of context of", "the compute of a"):
        assert head in heads
    assert " any " in heads
    assert " none " in heads
