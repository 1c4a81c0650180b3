"""Tuning in memory that does not grow: groups of clusters against clusters named so, batches, files, what is kept."""

import tracemalloc
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from policy_inputs import random_inputs, with_columns

from oracle import unit_sums
from oracle.errors import InputError
from oracle.policies import Inputs
from oracle.policies.laid_out import LaidOut, laid_out
from oracle.realised.calibration import CalibrationTally
from oracle.realised.problem import Realised
from oracle.realised.sums import RealisedSums
from oracle.summaries import generations
from oracle.summaries.generations import GenerationScores
from oracle.traces import Traces
from oracle.tuning import HeldOut, HeldOutBatch, hold_out, learn, scored, scored_by_category, survey

SIZES = (14, 9, 21, 8, 17, 0, 5, 12, 30, 7, 11, 6)
FAMILIES = ("static", "budget", "confidence@keep", "survival!", "goodput")


def clustered(inputs: Inputs, names: Sequence[str]) -> Inputs:
    return with_columns(inputs, cluster=pa.array(names, pa.string()))


def parts(inputs: Inputs, ends: Sequence[int]) -> list[Traces]:
    table = inputs.traces.table
    return [Traces.from_arrow(table.slice(a, b - a), "t") for a, b in zip((0, *ends), (*ends, len(SIZES)), strict=True)]


def held_out(batches: LaidOut | list[Inputs], **more: Any) -> HeldOut:
    return hold_out(batches, FAMILIES, folds=3, points=7, **more)


def test_groups_of_clusters_are_held_out_and_resampled_like_clusters_of_their_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """More clusters than units: everything is what it would be if the traces named the groups."""
    inputs = clustered(random_inputs(31, SIZES), [f"q{g}" for g in range(len(SIZES))])
    monkeypatch.setattr(unit_sums, "MOST_UNITS", 5)
    grouped = held_out([inputs])
    named = clustered(inputs, [unit_sums.unit_beyond(f"q{g}") for g in range(len(SIZES))])
    twin = held_out([named])
    assert grouped.grouped
    assert not twin.grouped
    assert grouped.clusters == sum(size > 0 for size in SIZES)
    assert len(set(grouped.expected.cluster)) <= 5
    for one, other in zip(scored(grouped).families, scored(twin).families, strict=True):
        assert (one.family, one.chosen, one.chosen_on_all) == (other.family, other.chosen, other.chosen_on_all)
        assert one.ms_per_token == pytest.approx(other.ms_per_token, rel=1e-12)
        assert one.in_sample_ms_per_token == pytest.approx(other.in_sample_ms_per_token, rel=1e-12)
        assert one.ms_per_token_interval is not None
        assert other.ms_per_token_interval is not None
        assert one.ms_per_token_interval.low == pytest.approx(other.ms_per_token_interval.low, rel=1e-12)
        assert one.gain_interval is None or one.gain_interval.low == pytest.approx(other.gain_interval.low, abs=1e-9)
    assert scored(grouped).clusters == grouped.clusters, "the clusters are counted, not the groups"
    by_category = scored_by_category(grouped)
    for category, tuning in by_category.items():
        at = [g for g, size in enumerate(SIZES) if size and inputs.traces.category_of[g] == (category or "")]
        assert tuning.clusters in (1, len(at))
        assert tuning.tokens == sum(SIZES[g] for g in at)


@pytest.mark.parametrize("most", [3, 2_000])
def test_sums_are_the_same_to_the_last_bit_however_generations_are_batched(
    monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(unit_sums, "MOST_UNITS", most)
    inputs = clustered(random_inputs(32, SIZES), [f"q{g // 2}" for g in range(len(SIZES))])
    whole = held_out(laid_out([inputs]))
    for ends, threads in (((4,), 1), ((1, 2, 7), 2), (tuple(range(1, len(SIZES))), 3)):
        other = held_out(LaidOut(parts(inputs, ends), inputs.costs, threads=threads))
        assert [str(f.chosen) for f in other.families] == [str(f.chosen) for f in whole.families]
        assert other.expected.cluster == whole.expected.cluster
        assert other.expected.sums.tobytes() == whole.expected.sums.tobytes()
        assert other.oracle_ms.tobytes() == whole.oracle_ms.tobytes()
        assert other.in_sample_ms.tobytes() == whole.in_sample_ms.tobytes()


def test_a_policy_that_chose_alike_costs_alike_to_the_last_bit() -> None:
    """Several generations a cluster: k = 0 as the best static length differs from k = 0 by exactly nothing."""
    inputs = clustered(random_inputs(33, SIZES), [f"q{g // 3}" for g in range(len(SIZES))])
    dear = replace(inputs, costs=replace(inputs.costs, draft_ms=inputs.costs.draft_ms * 50))
    static = scored(held_out([dear])).families[0]
    assert static.chosen_on_all == "static:0"
    assert static.against_off is not None
    assert static.against_off.ms_per_token == 0
    assert static.against_off.interval is not None
    assert (static.against_off.interval.low, static.against_off.interval.high) == (0, 0)
    assert static.optimism_ms_per_token == 0


class Repeated:
    """Batches that are made when they are asked for, and never kept."""

    def __init__(self, batches: int) -> None:
        self.table = random_inputs(34, SIZES).traces.table.drop_columns(["cluster"])
        self.batches = batches

    def __iter__(self) -> Iterator[Traces]:
        for b in range(self.batches):
            names = pa.array([f"b{b} g{g}" for g in range(len(SIZES))])
            yield Traces.from_arrow(self.table.set_column(0, "generation", names), "t")


def kept_and_peak(batches: int, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """Rows that are kept of so many batches, and the most that was allocated meanwhile, bytes."""
    costs = random_inputs(34, SIZES).costs
    monkeypatch.setattr(unit_sums, "MOST_UNITS", 20)
    laid = LaidOut(Repeated(batches), costs)
    tracemalloc.start()
    try:
        found = hold_out(laid, ("static", "confidence@keep"), folds=3, points=5)
        return len(found.expected.tokens), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_the_generations(monkeypatch: pytest.MonkeyPatch) -> None:
    kept_and_peak(2, monkeypatch)  # kernels are compiled, modules imported
    rows, peak = kept_and_peak(40, monkeypatch)
    more_rows, more_peak = kept_and_peak(320, monkeypatch)
    assert rows <= more_rows <= 20 * 3, "one row a category and group"
    per_generation = (more_peak - peak) / (280 * len(SIZES))
    assert per_generation < 200, "a row of sums would be 800 bytes; 8 bytes a name in a few counts are kept"


def test_the_file_of_generations_does_not_depend_on_batches(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    inputs = random_inputs(35, SIZES)
    monkeypatch.setattr(generations, "ROW_GROUP", 25)
    files = []
    for n, ends in enumerate(((), (1, 5, 6), tuple(range(1, len(SIZES))))):
        path = tmp_path / f"{n}.parquet"
        with ExitStack() as stack:
            rows = GenerationScores(stack, path, {"said": "so"})
            held_out(LaidOut(parts(inputs, ends), inputs.costs), on_batch=rows.add)
        files.append(path.read_bytes())
    names = [g for g in inputs.traces.generation for _ in FAMILIES]
    assert pq.read_table(path)["generation"].to_pylist() == names, "also those without positions"
    assert files[0] == files[1] == files[2]
    groups = pq.read_metadata(path)
    assert [groups.row_group(i).num_rows for i in range(groups.num_row_groups)] == [25, 25, 10]
    assert pq.read_metadata(path).metadata[b"draft_oracle.said"] == b"so"


def test_no_file_of_generations_without_a_batch(tmp_path: Path) -> None:
    with ExitStack() as stack:
        GenerationScores(stack, tmp_path / "none.parquet", {})
    assert not list(tmp_path.iterdir())


def test_a_survey_counts_what_is_put_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unit_sums, "MOST_CATEGORIES", 4)
    inputs = random_inputs(36, SIZES)
    found = survey([with_columns(inputs, category=pa.array([f"k{g}" for g in range(len(SIZES))]))])
    assert not found.categories_apart
    assert found.training.best_by_category == {}
    assert found.training.best_static == learn([inputs]).best_static
    batches: list[HeldOutBatch] = []
    held = held_out([with_columns(inputs, category=pa.array([f"k{g}" for g in range(12)]))], on_batch=batches.append)
    assert set(held.category) == {None}
    assert held.clusters_of == {}
    assert list(scored_by_category(held)) == [None]
    assert batches[0].category == tuple(f"k{g}" for g in range(12)), "the file names them all the same"


def test_too_many_ways_of_decoding_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    batches: list[HeldOutBatch] = []
    held_out([random_inputs(37, SIZES)], on_batch=batches.append)
    totals, G = batches[0].expected, len(SIZES)
    decoding = tuple(f"at {g}" for g in range(G))
    tally = CalibrationTally(decoding, totals.cluster, np.zeros((G, 10, 3)), np.zeros((G, 5, 3)))
    found = Realised(totals, totals, (None,) * G, decoding, tally, G, dict.fromkeys(decoding, 1))
    sums = RealisedSums()
    sums.add(found)
    monkeypatch.setattr("oracle.realised.sums.MOST_CATEGORIES", 4)
    with pytest.raises(InputError) as error:
        RealisedSums().add(found)
    assert str(error.value) == (
        "the column decoding names more than 4 ways of decoding; realised scores keep each apart: write fewer, as "
        "greedy and sample, or leave the column out"
    )
