"""Whole recordings: one folder in the end, however often it was stopped, which `run` takes as it is."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

torch = pytest.importorskip("torch", reason="needs the extra `record`")
pytest.importorskip("transformers", reason="needs the extra `record`")

import record_models  # noqa: E402
from record_commands import ALL, K, command, invoked, succeeded, write_models  # noqa: E402

from oracle.cli.main import group  # noqa: E402
from oracle.errors import InputError, InputWarning  # noqa: E402
from oracle.latency.fit import fit_latency  # noqa: E402
from oracle.recorder import timing  # noqa: E402
from oracle.recorder.routing import Routing  # noqa: E402
from oracle.rounds import load_rounds  # noqa: E402
from oracle.traces import load_traces  # noqa: E402

pytestmark = pytest.mark.record


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_models(tmp_path_factory.mktemp("models"))


def even_clock() -> Callable[[], float]:
    """A clock that goes on by about a millisecond each time someone looks: what the machine does spoils no fit."""
    rng, now = np.random.default_rng(3), [0.0]

    def look() -> float:
        now[0] += 1e-3 * (1 + 0.01 * rng.random())
        return now[0]

    return look


@pytest.mark.parametrize("architecture", ALL)
def test_each_architecture_is_recorded_and_run(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, architecture: str
) -> None:
    monkeypatch.setattr(timing, "time", SimpleNamespace(perf_counter=even_clock()))
    out = tmp_path / "out"
    said = succeeded(command(models, architecture, out, "--timing-rounds", "50", "--timing-repeats", "1"))
    assert sorted(path.name for path in out.iterdir()) == ["record.json", "rounds.parquet", "traces.parquet"]
    traces, rounds = load_traces(out / "traces.parquet"), load_rounds(out / "rounds.parquet")
    assert traces.generations == 6
    assert traces.positions == 6 * 23
    assert traces.match_kind == ("greedy",) * 6
    layers = record_models.LAYERS.get(architecture, 3)
    assert traces.layers == (layers or None)
    assert len(rounds) == 13 * (K + 1)  # 50 rounds at 4 lengths are 13 anchors
    assert (rounds.target_ms > 0).all()
    np.testing.assert_array_equal(rounds.draft_ms == 0, rounds.draft_length == 0)
    assert sorted(rounds.numeric("round_index")) == list(range(len(rounds)))
    if layers:
        assert traces.unique_experts is not None
        _same_unique_experts(traces, rounds)
    assert "mean match probability of the first token (greedy)" in said
    tables = json.loads(succeeded(["run", str(out), "--json", "--threads", "1"]))["tables"]
    policies = {row["policy"] for row in tables["scores"]["rows"]}
    assert {"oracle", "static:0", "static:3"} <= policies


def _same_unique_experts(traces: Any, rounds: Any) -> None:
    """What the timed passes touched is what the traces say of their anchors (rounding may flip near-ties)."""
    places = rounds.table.select(["generation", "position"]).to_pylist()
    at = {name: traces.offsets[g] for g, name in enumerate(traces.generation)}
    wanted = [
        traces.unique_experts[at[row["generation"]] + row["position"], k]
        for row, k in zip(places, rounds.draft_length, strict=True)
    ]
    assert np.mean(np.isclose(rounds.unique_experts, wanted)) > 0.9
    starts = dict(zip(traces.generation, traces.context_start, strict=True))
    context = [starts[row["generation"]] + row["position"] for row in places]
    np.testing.assert_array_equal(rounds.context_len, context)


def test_faults_that_the_texts_show_come_before_any_work(models: Path, tmp_path: Path) -> None:
    rows = [
        {"id": "ids", "prompt_token_ids": [1, 999]},
        {"id": "chat", "messages": [{"role": "user", "content": "x"}]},
        {"id": "fine", "prompt": "abc"},
    ]
    bad = tmp_path / "bad.jsonl"
    bad.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    words = command(models, "olmoe", tmp_path / "out")
    words[words.index("--prompts") + 1] = str(bad)
    result = CliRunner().invoke(group, words)
    assert isinstance(result.exception, InputError)
    assert result.exception.faults == (
        "prompt 'ids': holds the token 999, but the models know 257; was it made with another tokenizer?",
        "prompt 'chat': the tokenizer has no chat template; give `prompt` in place of `messages`",
    )
    many = CliRunner().invoke(group, command(models, "olmoe", tmp_path / "out", "--timing-rounds", "2000"))
    assert str(many.exception) == (
        "--timing-rounds needs 500 places that 3 positions follow (--k-max), one for every 4 rounds; the texts have "
        "120 at most (the longest has 23 positions): time fewer rounds, lower --k-max, or raise the number of prompts "
        "and --max-new-tokens"
    )
    assert not (tmp_path / "out").exists()


def test_overlaps_of_greedy_texts_are_recorded_with_a_warning(models: Path, tmp_path: Path) -> None:
    with pytest.warns(InputWarning, match="a greedy engine accepts by equality"):
        invoked(*command(models, "dense", tmp_path / "out", "--match", "overlap"))
    traces = load_traces(tmp_path / "out" / "traces.parquet")
    assert traces.match_kinds == {"overlap of greedy texts"}


def test_a_lookup_is_recorded_and_run(models: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    said = succeeded(command(models, "qwen2_moe", out, "--timing-rounds", "60", draft="ngram"))
    assert "the lookup proposes fewer than K tokens at " in said
    traces, rounds = load_traces(out / "traces.parquet"), load_rounds(out / "rounds.parquet")
    assert traces.match_probs is not None
    assert traces.draft_prob is None
    assert any(len(chain) < K for row in traces.table.column("draft_token_id").to_pylist() for chain in row)
    assert len(rounds) == 15 * (K + 1)  # the text's own tokens fill the rounds that nothing is proposed for
    succeeded(["run", str(out), "--threads", "1"])


def test_provenance_says_what_it_was(models: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    succeeded(command(models, "mixtral", out))
    kept = {k.decode(): v.decode() for k, v in pq.read_schema(out / "traces.parquet").metadata.items()}
    assert kept["draft_oracle.target"] == "mixtral (MixtralForCausalLM)"
    assert str(models) not in str(kept)
    assert kept["draft_oracle.device"] == "cpu, float32"
    recorder = json.loads(kept["draft_oracle.recorder"])
    assert recorder["settings"]["tails"] == "actual"
    assert recorder["inputs"][0]["name"] == "prompts.jsonl"
    assert recorder["models"]["target"]["architecture"] == "MixtralForCausalLM"


def test_refusals_come_before_any_work(models: Path, tmp_path: Path) -> None:
    inside = CliRunner().invoke(group, command(models, "olmoe", models))
    assert "would replace the input" in str(inside.exception)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("x")
    foreign = CliRunner().invoke(group, [*command(models, "olmoe", tmp_path / "full"), "--resume"])
    assert "holds no recording (record.json cannot be read)" in str(foreign.exception)
    assert (tmp_path / "full" / "mine.txt").exists()
    missing = CliRunner().invoke(group, command(models, "olmoe", tmp_path / "new", draft="no-such-model"))
    assert "the tokenizer of no-such-model cannot be loaded" in str(missing.exception)
    device = CliRunner().invoke(group, [*command(models, "olmoe", tmp_path / "new"), "--device", "nonsense"])
    assert "--device 'nonsense' cannot be used" in str(device.exception)
    kernel = CliRunner().invoke(group, [*command(models, "olmoe", tmp_path / "new"), "--experts-kernel", "nonsense"])
    assert "check the name and the options" in str(kernel.exception)
    assert not (tmp_path / "new").exists()


def _of(found: dict[str, Any], name: str, key: str) -> float:
    return float(found[key][found["names"].index(name)])


def test_the_sweep_recovers_a_planted_delay_per_expert(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every MoE layer takes 0.5 ms per unique expert, so alpha is the sum over three layers.

    The clock stands still but for what is planted (and noise): what else the machine does cannot spoil the test.
    """
    delay_ms, noise_ms, layers = 0.5, 0.3, 3
    real, rng, now = Routing.__init__, np.random.default_rng(11), [0.0]

    def passes_time(_module: Any, arguments: tuple[Any, ...]) -> None:
        now[0] += 1e-3 * (delay_ms * len(torch.unique(arguments[1])) + 1 + noise_ms * rng.standard_normal())

    def planted(self: Any, model: Any, name: str) -> None:
        real(self, model, name)
        for module, _ in self._modules:
            module.register_forward_pre_hook(passes_time)

    monkeypatch.setattr(Routing, "__init__", planted)
    monkeypatch.setattr(timing, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    out = tmp_path / "out"
    succeeded(command(models, "olmoe", out, "--decoding", "sample", "--timing-rounds", "160"))
    rounds = load_rounds(out / "rounds.parquet")
    assert np.isin(rounds.numeric("repeats"), 3).all()
    fit = fit_latency(rounds, draft="free").model.fit
    assert fit is not None
    found = fit["coefficients"]
    for m in range(2, K + 2):  # at m = 1 U does not vary
        low, high = (_of(found, f"alpha_ms_per_expert[{m}]", end) for end in ("low", "high"))
        assert high - low < 0.5 * layers * delay_ms
        assert low < layers * delay_ms < high
