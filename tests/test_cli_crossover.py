"""``draft-oracle crossover`` as a user meets it: recorded traffic, the formula, schedules, pictures, refusals."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_cli import PUBLISHED, TINY, refused, succeeded

BY_FORMULA = ("--match-prob", "0.38", "--context-len", "1000", "--num-experts", "128", "--top-k", "8")
ASSUMED = ("--off-ms", "5.7", "--token-ms", "0", "--floor-ms", "0.042", "--kv-read-ms", "0.000049152")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "model.json"
    succeeded("fit", TINY / "rounds.parquet", "-o", path)
    return path


def rows(said: str, table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(said)["tables"][table]["rows"]
    return found


@pytest.fixture(scope="module")
def recorded(model: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    out = tmp_path_factory.mktemp("crossover") / "out"
    asked = ("--max-batch-size", "32", "--paths", "100", "--engine", "vllm", "--engine", "sglang", "-o", out)
    return succeeded("crossover", TINY / "traces.parquet", "-m", model, *asked, "--json"), out


def test_at_one_request_it_agrees_with_score(recorded: tuple[str, Path], model: Path) -> None:
    scored = {
        r["policy"]: r
        for r in rows(succeeded("score", TINY, "-m", model, "--unique-experts", "routing", "--json"), "scores")
    }
    one = rows(recorded[0], "lengths")[0]
    for k in range(1, 11):
        # windows near the end of a text are left out here and clipped there
        assert one[f"speed_up_k{k}"] == pytest.approx(scored[f"static:{k}"]["speedup"], abs=0.003)
        assert one[f"rests_on_k{k}"] == "measured"


def test_measured_experts_lie_below_the_formulas_within_requests(recorded: tuple[str, Path]) -> None:
    found = {(r["batches_of"], r["batch_size"], r["draft_length"]): r for r in rows(recorded[0], "unique_experts")}
    deep = found["at random", 1, 10]
    assert deep["measured"] < deep["popularity"] < deep["uniform"]
    assert deep["uniform"] == pytest.approx(64 * (1 - (60 / 64) ** 11))
    plain = found["at random", 8, 0]
    assert plain["measured_low"] < plain["popularity"] < plain["measured_high"]  # requests are nearly independent
    assert found["at random", 1, 0]["measured"] == 4.0
    assert found["1 tenant", 4, 0]["measured_high"] < found["4 tenants", 4, 0]["measured"]


def test_mixing_tenants_costs_experts(recorded: tuple[str, Path]) -> None:
    found = rows(recorded[0], "tenants_mixed")
    assert all(r["distinct"] for r in found)
    largest = [r for r in found if r["batch_size"] == 7 and r["draft_length"] == 0]
    assert [r["tenants"] for r in largest] == [2, 4, 5]
    assert all(r["extra_low"] > 0 for r in largest)
    assert 1.0 < largest[-1]["extra"] < 3.0
    assert 0.01 < largest[-1]["share"] < 0.08


def test_every_extrapolation_is_flagged(recorded: tuple[str, Path]) -> None:
    sizes = rows(recorded[0], "batch_sizes")
    assert [r["off_rests_on"] for r in sizes] == ["measured", *["extrapolated"] * (len(sizes) - 1)]
    intervals = json.loads(recorded[0])["tables"]["crossover"]
    assert any(note.startswith("extrapolated: batch size 1 was timed") for note in intervals["notes"])
    assert any("censored: it still pays at 32" in note for note in intervals["notes"])


def test_a_folder_holds_tables_pictures_and_configurations(recorded: tuple[str, Path]) -> None:
    said, out = recorded
    names = sorted(path.name for path in out.iterdir())
    pictures = ["speed-up.svg", "tables.json", "tables.md", "tenants-mixed.svg", "unique-experts.svg"]
    assert names == ["acceptance-needed.svg", "configuration.txt", *pictures]
    assert json.loads((out / "tables.json").read_text())["tables"] == json.loads(said)["tables"]
    written = (out / "configuration.txt").read_text()
    assert "num_speculative_tokens_per_batch_size" in written
    assert "# 31 of 32 batch sizes rest on extrapolated prices: time them first" in written
    for name, word in (
        ("speed-up", "speed-up over K = 0"),
        ("acceptance-needed", "match probability"),
        ("unique-experts", "uniform formula"),
        ("tenants-mixed", "tenants in a batch"),
    ):
        assert word in (out / f"{name}.svg").read_text()


def test_the_same_seed_gives_the_same_numbers(model: Path) -> None:
    asked = ("crossover", TINY / "traces.parquet", "-m", model, "--max-batch-size", "4", "--paths", "20", "--json")
    one, two, other = (
        succeeded(*asked, "--seed", seed, "--threads", n) for seed, n in (("3", "1"), ("3", "2"), ("4", "2"))
    )
    assert json.loads(one)["tables"] == json.loads(two)["tables"]
    assert json.loads(one)["tables"] != json.loads(other)["tables"]


def test_published_coefficients_and_the_formula() -> None:
    asked = ("crossover", "-m", PUBLISHED, *BY_FORMULA, *ASSUMED, "--max-batch-size", "2048")
    found = rows(succeeded(*asked, "--json"), "crossover")
    assert [(r["from"], r["to"]) for r in found] == [(1, 1), (12, 744)]
    text = succeeded(*asked)
    assert "first exit 1, last exit 744; every batch size was looked at" in text
    assert "if a token of context of a further request takes 0 ms: first exit 1, last exit 579" in text
    assert "takes as much as for the first request: first exit 1, last exit not seen (on to 2,048)" in text
    assert "at no batch size were all prices measured" in text
    assert "extrapolated to be, some K ≥ 1 pays at 1, 12 … 744 and none at 2 … 11, 745 … 2,048" in text
    assert (
        "some K ≥ 1 still pays wherever it does now as long as the compute floor of a token is no more than 0.042 ms"
        in text
    )
    assert "price of a further token: 0 ms besides its experts (--token-ms); compute floor of a token: " in text
    assert "assumed: a K = 0 round has a base time of 5.7 ms (--off-ms); measure it" in text
    assert "experts: not measured" in text
    without = succeeded("crossover", "-m", PUBLISHED, *BY_FORMULA, "--token-ms", "0", "--max-batch-size", "4")
    assert "unknown at batch size 1: K = 0 or every K ≥ 1 has no price there; time rounds with draft" in without
    assert "some K ≥ 1 pays if the base time of a K = 0 round is above 5.63 ms; it was not measured" in without


def test_acceptance_from_a_file_and_the_memory_that_ends_it(tmp_path: Path) -> None:
    path = tmp_path / "rates.csv"
    path.write_text("draft_length,position,rate\n2,1,0.9\n2,2,0.7\n")
    asked = ("--acceptance", path, "--acceptance-is", "survival", *BY_FORMULA[2:], *ASSUMED, "--kv-tokens", "9900")
    said = succeeded("crossover", "-m", PUBLISHED, *asked, "--json")
    first = rows(said, "lengths")[0]
    assert (first["speed_up_k3"], first["rests_on_k3"]) == (None, "measured")
    assert rows(said, "batch_sizes")[-1]["batch_size"] == 9
    notes = json.loads(said)["tables"]["crossover"]["notes"]
    assert "the KV cache holds no more than 9 requests without drafts: that ends the batch sizes" in notes
    assert any(note.startswith("K = 3, 4, 5, 6, 7, 8, 9, 10 are left out: no acceptance") for note in notes)
    lengths = [1 + 0.9, 1 + 0.9 + 0.7]
    off = first["round_ms_k0"]
    wanted = [length * off / first[f"round_ms_k{k}"] for k, length in enumerate(lengths, 1)]
    assert np.array([first["speed_up_k1"], first["speed_up_k2"]]) == pytest.approx(wanted)


def test_several_measured_batch_sizes_from_stdin() -> None:
    def block(size: int, base: list[float]) -> dict[str, Any]:
        return {"batch_size": size, "m": [1, 2], "beta0_ms": base, "alpha_ms_per_expert": [0.1, 0.1]} | {
            "context_ms_per_token": 0.001
        }

    draft = {"ms_per_token": 0.1, "base_ms": 0.0}
    model = {"format": "draft-oracle/latency-model", "version": 1, "draft": draft, "reject_ms": 0.0}
    model["verify"] = [block(1, [9.0, 9.0]), block(4, [9.0, 30.0])]
    asked = ("--match-prob", "0.9", "--context-len", "0", "--num-experts", "8", "--top-k", "2", "--max-batch-size", "5")
    said = succeeded(
        "crossover", "-m", "-", *asked, "--engine", "trtllm", "--engine-version", "1.2", stdin=json.dumps(model)
    )
    assert "between two measured batch sizes coefficients lie on a straight line" in said
    assert "draft_len_schedule: {1: 1, 3: 0}" in said
    for kind in ("measured", "between", "extrapolated"):
        assert kind in said


def test_batches_of_two_tenants_touch_fewer_experts(model: Path) -> None:
    asked = ("crossover", TINY / "traces.parquet", "-m", model, "--max-batch-size", "7", "--paths", "60", "--json")
    two, any_ = (rows(succeeded(*asked, *more), "lengths")[-1] for more in (("--tenants", "2"), ()))
    assert two["unique_experts_k0"] < any_["unique_experts_k0"]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ((), "without traces experts come from the formula: give --num-experts, or name traces"),
        ((), "without traces nothing tells the acceptance: give --match-prob or --acceptance, or name traces"),
        ((*BY_FORMULA, "--tenants", "2"), "--tenants goes with traces, and none are named"),
        ((TINY / "traces.parquet", "--top-k", "4"), "--top-k goes with the formula; the traces hold it"),
        (
            (TINY / "traces.parquet", "--tenants", "6"),
            "--tenants is 6, and the traces hold 5 tenants with two clusters",
        ),
        ((*BY_FORMULA, "--acceptance", "x.csv"), "--match-prob and --acceptance both say the acceptance"),
        ((*BY_FORMULA, "--acceptance-is", "survival"), "--acceptance-is goes with --acceptance, which is not given"),
        ((*BY_FORMULA, "--kv-bytes", "99"), "--kv-bytes and --bandwidth-gb go together"),
        (
            (*BY_FORMULA, "--kv-bytes", "99", "--bandwidth-gb", "2", "--kv-read-ms", "0"),
            "--kv-read-ms and --kv-bytes both say what reading a token of context takes",
        ),
        ((*BY_FORMULA, "--kv-tokens", "99"), "the KV cache holds 99 tokens, less than the 1000 of one context"),
    ],
)
def test_refusals(asked: tuple[str | Path, ...], said: str) -> None:
    assert said in refused("crossover", *asked, "-m", PUBLISHED)


def test_a_cache_that_ends_the_batches_does_not_switch_speculation_off() -> None:
    asked = ("--match-prob", "0.7", *BY_FORMULA[2:], *ASSUMED, "--kv-tokens", "40000", "--engine", "vllm")
    said = succeeded("crossover", "-m", PUBLISHED, *asked, "--method", "eagle3", "--draft-model", "x")
    assert '"num_speculative_tokens_per_batch_size": [[1, 5, 2], [6, 40, 9]]' in said
    assert "exit not seen (on to 39)" in said
    assert "does not fit at batch size 40: the KV cache holds drafts of fewer requests" in said
    assert "unknown at" not in said


def test_kv_bytes_over_the_bandwidth_price_context() -> None:
    more = (
        "--off-ms",
        "5.7",
        "--token-ms",
        "0",
        "--floor-ms",
        "0.042",
        "--kv-bytes",
        "98304",
        "--bandwidth-gb",
        "2000",
    )
    asked = ("crossover", "-m", PUBLISHED, *BY_FORMULA, "--max-batch-size", "64", "--json")
    by_bytes, by_time = (succeeded(*asked, *prices) for prices in (more, ASSUMED))
    for table in ("lengths", "batch_sizes", "schedule"):
        assert rows(by_bytes, table) == rows(by_time, table)
