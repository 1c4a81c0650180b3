"""Sums of the path in alpha and of stability: bounded memory, and nothing depends on batches."""

import tracemalloc
import warnings
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest
from cluster_data import TINY

from oracle import unit_sums
from oracle.ablation import counting
from oracle.alpha_path.scales import ScaleSums
from oracle.alpha_path.study import BatchScales, alpha_study
from oracle.costs import LengthRange
from oracle.errors import InputWarning
from oracle.latency.draws import Draws, draws_from_file
from oracle.latency.fit import fit_latency
from oracle.latency.model import LatencyModel
from oracle.pipeline import in_order
from oracle.rounds import RoundFiles
from oracle.stability import corpus as corpora
from oracle.stability.corpus import CorpusTally
from oracle.stability.decisions import draw_costs
from oracle.stability.study import BatchStability, StabilitySums, stability
from oracle.stability.tally import StabilityTally, stability_rows
from oracle.study import Question, study
from oracle.traces import TraceFiles
from oracle.unit_sums import ArraySums

LENGTHS = LengthRange(0, 4)
FILE = TINY / "traces.parquet"


@pytest.fixture(scope="module")
def model() -> LatencyModel:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputWarning)
        return fit_latency(RoundFiles(TINY / "rounds.parquet")).model


@pytest.fixture(scope="module")
def draws(model: LatencyModel) -> Draws:
    return draws_from_file(model, draws=40)


class Kept:
    """A walker that remembers what came out of every batch."""

    def __init__(self) -> None:
        self.results: list = []

    def __call__(self, work, batches: Iterable, threads: int):
        for result in in_order(work, batches, threads):
            self.results.append(result)
            yield result


def test_stability_does_not_depend_on_batches_or_threads(model: LatencyModel, draws: Draws) -> None:
    whole = stability(TraceFiles(FILE), model, draws, LENGTHS)
    for batch_bytes, threads in ((1, 1), (200_000, 2)):
        kept = Kept()
        files = TraceFiles(FILE, batch_bytes=batch_bytes)
        other = stability(files, model, draws, LENGTHS, threads=threads, walker=kept)
        assert len(kept.results) > 3
        for name in ("generations", "positions", "clusters", "experts_from", "rows", "quantities", "statics"):
            assert getattr(other, name) == getattr(whole, name)
        np.testing.assert_array_equal(other.histogram, whole.histogram)


def test_stability_of_few_clusters_is_that_of_generations_kept_one_by_one(model: LatencyModel, draws: Draws) -> None:
    kept = Kept()
    found = stability(TraceFiles(FILE, batch_bytes=200_000), model, draws, LENGTHS, walker=kept)

    def together(part: str, name: str) -> np.ndarray:
        return np.concatenate([getattr(getattr(each, part), name) for each in kept.results])

    clusters = tuple(name for each in kept.results for name in each.decisions.cluster)
    assert 1 < len(set(clusters)) < len(clusters), "clusters must hold several generations for this to say anything"
    decisions = StabilityTally(clusters, together("decisions", "counts"), together("decisions", "histogram"))
    spent = CorpusTally(clusters, *(together("corpus", name) for name in ("tokens", "rounds", "optimum_ms")))
    assert found.rows == stability_rows(decisions)
    assert (found.quantities, found.statics) == corpora.corpus(spent, found.costs, draw_costs(draws, LENGTHS))
    assert found.clusters == len(set(clusters))
    np.testing.assert_allclose(found.histogram, decisions.histogram.sum(axis=0), rtol=1e-13)


def first_batch(model: LatencyModel, draws: Draws) -> tuple[BatchScales, BatchStability]:
    scales, stable = Kept(), Kept()
    alpha_study(TraceFiles(FILE), model, LENGTHS, walker=scales)
    stability(TraceFiles(FILE), model, draws, LENGTHS, walker=stable)
    return scales.results[0], stable.results[0]


def test_memory_follows_the_names_of_clusters_only(
    model: LatencyModel, draws: Draws, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every batch brings new clusters; from the group after the last on only 8 bytes a name are kept."""
    monkeypatch.setattr(unit_sums, "MOST_UNITS", 50)
    path, stable = first_batch(model, draws)
    generations, scales, stabilities = len(path.tally.cluster), ScaleSums(), StabilitySums()

    def add(number: int) -> None:
        names = tuple(f"{number}-{g}" for g in range(generations))
        scales.add(replace(path.tally, cluster=names))
        stabilities.add(replace(stable, decisions=replace(stable.decisions, cluster=names)))

    for number in range(10):
        add(number)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for number in range(10, 100):
        add(number)
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    per_generation = 8 * (stable.decisions.counts[0].size + path.tally.changed[0].size)
    assert grown < 2 * 2 * 8 * 90 * generations + 20_000 < 90 * generations * per_generation / 10
    found = scales.tally()
    assert found is not None
    assert (found.clusters, stabilities.clusters) == (100 * generations, 100 * generations)
    assert len(found.cluster) <= 50
    assert len(stabilities.tallies()[0].counts) <= 50
    np.testing.assert_allclose(found.weights.sum(axis=0), 100 * path.tally.weights.sum(axis=0), rtol=1e-12)


def test_arrays_keep_their_names_and_shapes() -> None:
    sums = ArraySums()
    assert sums.sums == {}
    one, two = np.arange(6.0).reshape(3, 2, 1), np.arange(3.0)
    sums.add({"one": one, "two": two}, ("a", "b", "a"))
    sums.add({"one": np.zeros((0, 2, 1)), "two": np.zeros(0)}, ())
    assert sums.units == ("a", "b")
    assert len(sums.clusters) == 2
    assert sums.sums["one"].tolist() == [[[4.0], [6.0]], [[2.0], [3.0]]]
    assert sums.sums["two"].tolist() == [2.0, 1.0]
    with pytest.raises(ValueError, match="batches add up other arrays"):
        sums.add({"one": one[:, :1], "two": two}, ("a", "b", "a"))


def test_many_categories_put_clusters_into_fewer_groups_and_the_answer_says_so(
    monkeypatch: pytest.MonkeyPatch, model: LatencyModel
) -> None:
    whole = study(TraceFiles(FILE), model, Question(ablate=True))
    monkeypatch.setattr(counting, "_MOST_ROWS", 20)
    few = study(TraceFiles(FILE), model, Question(ablate=True))
    said = "shares of decisions that move: clusters are resampled in 125 groups, for many categories"
    assert (said in few.notes, said in whole.notes) == (True, False)
    for one, other in zip(few.ablations, whole.ablations, strict=True):
        assert one.by_category.keys() == other.by_category.keys()
        for fewer, row in zip(one.prevalence, other.prevalence, strict=True):
            assert (fewer.boundary, fewer.decisions) == (row.boundary, row.decisions)
            assert fewer.visit_share == pytest.approx(row.visit_share, rel=1e-12)
