"""A model fitted on the experts of whole batches is refused wherever one generation would be priced by it."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from in_process import printed
from traces_factory import trace_table

from oracle.batch_unions import refuse_batch_unions
from oracle.cluster.arrow import solve_batches
from oracle.costs import length_costs
from oracle.errors import InputError
from oracle.latency.model import DraftLine, LatencyModel, ModelByBatchSize
from oracle.mismatch import of_one_request
from oracle.traces import Traces

TOP_K = 2
ONE, UNION = (2.0, 3.5, 4.4), (6.9, 7.6, 7.9)  # experts a layer at m = 1, 2, 3: of one request, of a batch of 32


def model_of(unique_experts: Sequence[float | None], batch_size: int | None = 32, alpha: float = 0.25) -> LatencyModel:
    per_m = [{"m": m, "mean_unique_experts": u} for m, u in enumerate(unique_experts, 1)]
    return LatencyModel(
        (1, 2, 3), (5.0, 5.5, 6.0), (alpha,) * 3, 0.001, DraftLine(0.5, 0.25), 0.0, {"per_m": per_m}, batch_size
    )


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Traces of 12 clusters; a model with a block of one request and one of a batch of 32 and its union."""
    folder = tmp_path_factory.mktemp("unions")
    pq.write_table(trace_table((9, 4, 0, 11, 6, 8, 5, 7, 9, 3, 6, 4, 8), seed=3), folder / "traces.parquet")
    blocks = [model_of(ONE, 1), model_of(UNION, 32)]
    records: Any = {str(block.batch_size): block.fit for block in blocks}
    ModelByBatchSize(blocks, {"by_batch_size": records}).save(folder / "model.json")
    return folder


def traces() -> Traces:
    return Traces.from_arrow(trace_table((9, 4, 11), seed=3), "t.parquet")


COMMANDS = {
    "recommend": ("--traces", "TRACES"),
    "policies": ("TRACES", "--policy", "static"),
    "solve": ("TRACES", "-o", "OUT/decisions.parquet"),
    "score": ("TRACES",),
    "ablate": ("TRACES", "--draws", "0", "--s-max", "0"),
    "explain": ("TRACES", "-g", "g0", "-t", "1"),
    "report": ("TRACES", "-o", "OUT/report.html"),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_that_prices_one_generation_refuses(command: str, case: Path, tmp_path: Path) -> None:
    words = [word.replace("TRACES", str(case / "traces.parquet")) for word in COMMANDS[command]]
    words = [word.replace("OUT", str(tmp_path)) for word in words]
    asked = (command, *words, "-m", str(case / "model.json"), "--batch-size")
    with pytest.raises(InputError) as refused:
        printed(*asked, "32")
    assert refused.value.faults[0].removeprefix(f"{case}/") == (
        "traces.parquet: one request touches at most 2 experts a layer at m = 1 (top_k is 2), and the rounds behind "
        "the latency model (batch size 32) touched 6.9: the union of a whole batch, or experts of another target. Its "
        "alpha does not price the experts of one generation. For a batch, ask `crossover`, which takes the union from "
        "the traces, or `recommend` with --acceptance and --step-times; for one request, fit rounds of this target at "
        "batch size 1"
    )
    assert list(tmp_path.iterdir()) == []
    if command != "report":  # slow, and the walks are those of the others
        printed(*asked, "1")


def test_the_way_out_goes_on(case: Path) -> None:
    out = printed("crossover", case / "traces.parquet", "-m", case / "model.json", "--max-batch-size", "4", "--json")
    assert '"batch_size": 4' in out


def test_batches_of_other_engines_are_refused_too() -> None:
    table = trace_table((9, 4, 11), seed=3)
    with pytest.raises(InputError, match="the union of a whole batch"):
        list(solve_batches(table.to_batches(), model_of(UNION)))
    assert list(solve_batches(table.to_batches(), model_of(ONE)))


def judge(model: LatencyModel, asked: Traces, k_max: int = 2) -> None:
    refuse_batch_unions(model, asked, length_costs(model, 0, k_max))


def test_what_one_request_can_touch_is_priced_at_any_batch_size() -> None:
    for most in (ONE, (2.0, 4.0, 6.0), (2.03, None, None), (None, None, None)):
        judge(model_of(most), traces())
    with pytest.raises(InputError, match="at most 6 experts a layer at m = 3"):
        judge(model_of((None, 3.5, 6.2)), traces())
    with pytest.raises(InputError, match=r"the latency model touched 2\.1: "):
        judge(model_of((2.1, 3.5, 4.4), None), traces())
    judge(model_of((2.0, 3.5, 50.0)), traces(), 1)  # k = 2 is not asked for
    judge(model_of(UNION, alpha=0.0), traces())  # experts cost nothing
    judge(replace(model_of(UNION), fit=None), traces())  # typed by hand: nothing is told


def test_top_k_is_what_one_position_touches_where_it_is_not_stated() -> None:
    recorded = replace(traces(), top_k=None)
    assert recorded.unique_experts is not None
    with pytest.raises(InputError, match="top_k is 2"):
        judge(model_of(UNION), recorded)
    judge(model_of(ONE), recorded)
    judge(model_of(UNION), replace(recorded, unique_experts=None))  # a dense target


def test_a_typed_model_of_a_batch_says_whose_experts_it_prices(case: Path, tmp_path: Path) -> None:
    replace(model_of(ONE), fit=None).save(tmp_path / "typed.json")
    page = printed("recommend", "--traces", case / "traces.parquet", "-m", tmp_path / "typed.json")
    assert "does not tell whose experts its alpha prices: here those of one request; if it was fitted on those" in page
    assert "tokens/s of the batch" in page
    model_of(ONE).save(tmp_path / "fitted.json")
    page = printed("score", case / "traces.parquet", "-m", tmp_path / "fitted.json")
    assert "whose experts" not in page
    assert "tokens/s" in page
    assert "a request" in page
    assert "batch size 32: ms/token and tokens/s are of one request; the batch emits 32 times as many tokens/s" in page
    assert list(of_one_request(model_of(ONE, 1))) == list(of_one_request(model_of(ONE, None))) == []
