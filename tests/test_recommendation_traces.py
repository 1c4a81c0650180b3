"""The recommendation from traces: paired intervals against a bootstrap by hand, tenants against their traces alone."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from scipy import stats
from traces_factory import trace_table

from oracle import unit_sums
from oracle.errors import InputError
from oracle.latency.model import DraftLine, LatencyModel
from oracle.recommendation.from_traces import (
    by_tenant_of_traces,
    recommend_from_totals,
    recommend_from_walk,
    walk_static,
)
from oracle.scores import MEASURES, PolicyTotals, score
from oracle.summaries.recommendation import recommendation_tables, verdict
from oracle.tables import render
from oracle.traces import TraceFiles

MODEL = LatencyModel((1, 2, 3, 4), (5.0, 5.5, 6.5, 7.0), (0.25, 0.25, 0.25, 0.25), 0.001, DraftLine(0.5, 0.25))


def totals(ms: np.ndarray, tokens: np.ndarray, cluster: list[str], names: tuple[str, ...]) -> PolicyTotals:
    """Totals with all time in beta0, one round a token."""
    sums = np.zeros((*ms.shape, len(MEASURES)))
    sums[:, :, MEASURES.index("verify_ms")] = ms
    sums[:, :, MEASURES.index("rounds")] = tokens[:, None]
    sums[:, :, MEASURES.index("drafted")] = 2 * tokens[:, None]
    sums[:, :, MEASURES.index("accepted")] = tokens[:, None] / 2
    return PolicyTotals(names, tuple(f"g{i}" for i in range(len(tokens))), tuple(cluster), tokens, sums)


NAMES = ("oracle", "static:0", "static:2", "static:3")


def random_totals(seed: int, spread: float, clusters: int = 12) -> PolicyTotals:
    rng = np.random.default_rng(seed)
    tokens = rng.integers(5, 50, size=2 * clusters).astype(float)
    level = tokens * np.exp(rng.normal(0, 0.5, len(tokens)))  # what all lengths share, and pairing takes out
    factor = np.array([0.5, 1.0, 0.8, 0.82]) * np.exp(rng.normal(0, spread, (len(tokens), 4)))
    return totals(level[:, None] * factor, tokens, [f"c{i // 2}" for i in range(len(tokens))], NAMES)


def naive_interval(t: PolicyTotals, a: int, b: int) -> tuple[float, float]:
    """Rate of policy a over that of b: resample whole clusters, both policies on the same ones."""
    names = list(dict.fromkeys(t.cluster))
    by_cluster = [[g for g, c in enumerate(t.cluster) if c == name] for name in names]
    weights = np.random.default_rng(0).multinomial(len(names), np.full(len(names), 1 / len(names)), size=999)
    values = []
    for row in weights:
        drawn = [g for times, members in zip(row, by_cluster, strict=True) for g in members * int(times)]
        values.append(sum(t.total_ms[g, b] for g in drawn) / sum(t.total_ms[g, a] for g in drawn) - 1)
    n = len(names)
    tail = 100 * stats.norm.cdf(stats.t.ppf(0.025, n - 1) * np.sqrt(n / (n - 1)))  # wider, for few clusters
    low, high = np.percentile(values, [tail, 100 - tail])
    return float(low), float(high)


def test_every_length_is_compared_on_the_same_clusters() -> None:
    t = random_totals(1, 0.05)
    answer = recommend_from_totals(t)
    assert answer.recommended is not None
    chosen = NAMES.index(f"static:{answer.recommended}")
    for c in answer.candidates:
        at = NAMES.index(f"static:{c.draft_length}")
        for against, other in ((c.over_recommended, chosen), (c.over_off, NAMES.index("static:0"))):
            if at == other:
                assert against is None
                continue
            assert against is not None
            assert against.interval is not None
            assert against.share == pytest.approx(t.total_ms[:, other].sum() / t.total_ms[:, at].sum() - 1)
            assert (against.interval.low, against.interval.high) == pytest.approx(naive_interval(t, at, other))


def test_pairing_tells_apart_what_overlaps() -> None:
    """Texts differ by a factor, lengths on one text hardly do: rates overlap, differences are clear."""
    answer = recommend_from_totals(random_totals(2, 0.01))
    off, two = answer.of(0), answer.of(2)
    assert off.interval is not None
    assert two.interval is not None
    assert off.interval.high > two.interval.low
    assert two.over_off is not None
    assert two.over_off.verdict("faster", "slower") == "faster"
    assert answer.of(3).verdict == ""  # 2.5 % slower, and the pairs tell
    assert answer.recommended == 2


def test_what_the_clusters_cannot_tell_is_no_winner() -> None:
    t = random_totals(3, 0.8)
    answer = recommend_from_totals(t, noise=0.0)
    best = answer.best
    assert best is not None
    unsure = {c.draft_length for c in answer.candidates if c.verdict in ("not significant", "not enough data")}
    assert unsure
    for c in answer.candidates:
        if c is not best:
            a, b = NAMES.index(f"static:{c.draft_length}"), NAMES.index(f"static:{best.draft_length}")
            low, high = naive_interval(t, a, b)
            assert (c.draft_length in unsure) == (low <= 0 <= high)
            if c.draft_length in unsure:  # with no noise a longer one matters where it may be better at all
                assert (c.verdict == "not enough data") == (c.draft_length < best.draft_length or high > 0)
    assert answer.recommended == best.draft_length
    page = render(recommendation_tables([answer]))
    assert "setting     not enough data; provisionally K = " in page
    assert "measure about " in page
    assert " more clusters (" in page
    assert "not significant: the 95 % interval holds 0" in page


def test_the_same_length_twice_is_a_tie_and_the_shorter_wins() -> None:
    tokens = np.array([10.0, 20.0, 5.0])
    ms = tokens[:, None] * np.array([4.0, 10.0, 5.0, 5.0])
    answer = recommend_from_totals(totals(ms, tokens, ["a", "b", "c"], NAMES), notes=["said"])
    assert answer.recommended == 2
    assert answer.tied == (3,)
    three = answer.of(3).over_recommended
    assert three is not None
    assert three.share == 0
    assert three.verdict("faster", "slower") == "tie, few clusters"
    assert answer.of(2).step_ms == pytest.approx(5.0)
    assert answer.of(2).acceptance == pytest.approx(0.25)
    assert answer.notes[0] == "said"
    assert "would give 250.0 tokens/s, 25.0 % more than K = 2" in answer.notes[1]
    eight = recommend_from_totals(totals(ms, tokens, ["a", "b", "c"], NAMES), batch_size=8)
    assert eight.of(2).tokens_per_second == pytest.approx(1600)
    assert "would give 2,000.0 tokens/s of the batch, 25.0 % more than K = 2" in eight.notes[0]
    page = render(recommendation_tables([eight]))
    assert "provisionally K = 2: 1,600.0 tokens/s of the batch" in page
    assert "tokens/s" in page.split("Static draft lengths")[1].splitlines()[2]
    assert "of the batch" in page.split("Static draft lengths")[1].splitlines()[3]
    assert "of the batch" not in render(recommendation_tables([answer]))


def test_one_cluster_has_no_intervals() -> None:
    tokens = np.array([10.0, 20.0])
    ms = tokens[:, None] * np.array([4.0, 10.0, 5.0, 5.05])
    answer = recommend_from_totals(totals(ms, tokens, ["a", "a"], NAMES))
    assert answer.recommended == 2
    assert answer.of(2).interval is None, "no noise stands in for what was not sampled"
    assert answer.undecided == (0,)
    off = answer.of(0).over_recommended
    assert off is not None
    assert off.verdict("faster", "slower") == "few clusters"
    assert verdict(answer) == "not enough data; provisionally K = 2: 200.0 tokens/s, 100.0 % above off"


def test_nothing_to_recommend_from() -> None:
    with pytest.raises(InputError, match="hold no positions"):
        recommend_from_totals(totals(np.zeros((1, 4)), np.zeros(1), ["a"], NAMES))
    with pytest.raises(InputError, match="only K = 0 may be chosen, so there is nothing to compare; raise --k-max"):
        recommend_from_totals(totals(np.ones((1, 2)), np.ones(1), ["a"], NAMES[:2]))


def test_without_k_0_nothing_is_compared_with_off() -> None:
    t = random_totals(4, 0.05)
    keep = [0, 2, 3]
    cut = PolicyTotals(tuple(NAMES[p] for p in keep), t.generation, t.cluster, t.tokens, t.sums[:, keep])
    answer = recommend_from_totals(cut)
    assert [c.over_off for c in answer.candidates] == [None, None]
    assert sum(c.over_recommended is not None for c in answer.candidates) == 1
    page = render(recommendation_tables([answer]))
    assert "over off" not in page.split("What would change")[0]


@pytest.mark.parametrize(("m", "k_min", "why"), [((2, 3), None, "not measured"), ((1, 2, 3), 1, "left out by --k-min")])
def test_without_k_0_it_cannot_tell_whether_off_is_faster(
    m: tuple[int, ...], k_min: int | None, why: str, tmp_path: Path
) -> None:
    n = len(m)
    model = LatencyModel(m, (5.0,) * n, (0.25,) * n, 0.001, DraftLine(0.5, 0.25))
    walked = walk_static(write(tmp_path / "t.parquet", shared(["a"] * 12)), model, k_min=k_min)
    assert recommend_from_walk(walked).limits[0] == f"whether off is faster: K = 0 was {why}"
    whole = walk_static(TraceFiles(tmp_path / "t.parquet"), MODEL)
    assert not any("whether off" in limit for limit in recommend_from_walk(whole).limits)


def test_one_length_has_no_bound_to_be_below(tmp_path: Path) -> None:
    model = LatencyModel((2,), (5.0,), (0.25,), 0.001, DraftLine(0.5, 0.25))
    answer = recommend_from_walk(walk_static(write(tmp_path / "t.parquet", shared(["a"] * 12)), model))
    assert not any("the bound" in note for note in answer.notes)
    assert "nothing else was measured to compare it with" in render(recommendation_tables([answer]))


# --- a walk over files ---------------------------------------------------------------------------------------------


def write(path: Path, table: pa.Table) -> TraceFiles:
    pq.write_table(table, path, row_group_size=3)
    return TraceFiles([path])


def shared(tenants: list[str | None]) -> pa.Table:
    rng = np.random.default_rng(8)
    lengths = rng.integers(0, 30, size=len(tenants)).tolist()
    return trace_table(
        lengths, seed=5, cluster=[f"c{i // 2}" for i in range(len(tenants))], tenant=pa.array(tenants, pa.string())
    )


def test_the_walk_scores_what_a_study_scores(tmp_path: Path) -> None:
    from oracle.study import Question, study  # noqa: PLC0415

    files = write(tmp_path / "t.parquet", shared(["a"] * 12))
    walked = walk_static(files, MODEL, threads=2)
    by_name = {each.policy: each for each in study(files, MODEL, Question(score=True)).scores}
    answer = recommend_from_totals(walked.totals)
    for c in answer.candidates:
        own = by_name[f"static:{c.draft_length}"]
        assert c.tokens_per_second == pytest.approx(1e3 / own.ms_per_token)
        assert c.acceptance == pytest.approx(own.acceptance) if c.draft_length else own.acceptance is None
    bound = next(each for each in score(walked.totals) if each.policy == "oracle")
    assert bound.ms_per_token == pytest.approx(by_name["oracle"].ms_per_token)
    assert by_tenant_of_traces(walked) is None
    assert "12 generations, 6 clusters" in walked.notes[0]


def test_a_tenant_is_told_what_its_traces_alone_would_say(tmp_path: Path) -> None:
    table = shared(["a", "a", "b", "b", None, "b", "a", "a", None, "a", "b", "a"])
    walked = walk_static(write(tmp_path / "all.parquet", table), MODEL)
    tenants = by_tenant_of_traces(walked)
    assert tenants is not None
    assert list(tenants.answers) == ["a", "b", None]
    for tenant, own in tenants.answers.items():
        mask = pc.is_null(table["tenant"]) if tenant is None else pc.equal(table["tenant"], tenant)
        alone = walk_static(write(tmp_path / f"{tenant}.parquet", table.filter(pc.fill_null(mask, False))), MODEL)
        assert own.candidates == recommend_from_totals(alone.totals).candidates
        assert f"{'(none named)' if tenant is None else tenant}: " in " ".join(tenants.notes)
    answer = recommend_from_totals(walked.totals)
    page = render(recommendation_tables([answer], [tenants]))
    assert "Acceptance by tenant; 1 request" in page
    assert "(none named)" in page
    assert "clusters only; intervals from so few are too narrow to be trusted" in page


def test_groups_of_clusters_are_resampled_and_all_clusters_counted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """More clusters than units: the answer is that of traces whose clusters bear the groups' names."""
    monkeypatch.setattr(unit_sums, "MOST_UNITS", 4)
    monkeypatch.setattr("oracle.recommendation.from_traces.MOST_UNITS", 4)
    table = shared(["a", "a", "b", "b", None, "b", "a", "a", None, "a", "b", "a"])
    named = pa.array([unit_sums.unit_beyond(name) for name in table["cluster"].to_pylist()])
    twin = table.set_column(table.column_names.index("cluster"), "cluster", named)
    one, other = (walk_static(write(tmp_path / f"{n}.parquet", t), MODEL) for n, t in enumerate((table, twin)))
    assert (one.clusters, len(set(one.totals.cluster))) == (6, len(set(named.to_pylist())))
    assert "6 clusters are resampled in 4 groups" in one.notes
    np.testing.assert_allclose(one.totals.sums, other.totals.sums, rtol=1e-12)
    answer, expected = recommend_from_walk(one), recommend_from_walk(other)
    for a, b in zip(answer.candidates, expected.candidates, strict=True):
        assert a.interval is not None
        assert b.interval is not None
        assert (a.interval.low, a.interval.high) == pytest.approx((b.interval.low, b.interval.high), rel=1e-9)
    assert answer.sample is not None
    assert answer.sample.count == 6


def test_a_walk_keeps_no_generation(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Also where tenants become too many to be kept apart."""
    monkeypatch.setattr(unit_sums, "MOST_UNITS", 3)
    monkeypatch.setattr(unit_sums, "MOST_CATEGORIES", 5)
    table = shared([f"t{i // 4}" for i in range(40)])
    walked = walk_static(write(tmp_path / "many.parquet", table), MODEL)
    assert len(walked.totals.tokens) <= 3
    assert len(walked.by_tenant.tokens) <= 3
    assert by_tenant_of_traces(walked) is None
    assert any(note.endswith("tenants: answers by tenant are left out") for note in walked.notes)
    few = walk_static(write(tmp_path / "few.parquet", shared([f"t{i // 10}" for i in range(40)])), MODEL)
    assert len(few.by_tenant.tokens) <= 3 * 4
    tenants = by_tenant_of_traces(few)
    assert tenants is not None
    assert list(tenants.answers) == ["t0", "t1", "t2", "t3"]


def test_batches_and_threads_change_nothing(tmp_path: Path) -> None:
    table = shared(["a", "b"] * 12)
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=5)
    whole = walk_static(TraceFiles(tmp_path / "t.parquet"), MODEL)
    for batch_bytes, threads in ((1, 1), (1, 3), (5_000, 2)):
        other = walk_static(TraceFiles(tmp_path / "t.parquet", batch_bytes=batch_bytes), MODEL, threads=threads)
        assert other.totals.sums.tobytes() == whole.totals.sums.tobytes()
        assert other.by_tenant.sums.tobytes() == whole.by_tenant.sums.tobytes()
        assert (other.tenant, other.notes) == (whole.tenant, whole.notes)


def test_a_file_without_positions(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no positions, so there is nothing to recommend from"):
        walk_static(write(tmp_path / "t.parquet", trace_table((0, 0))), MODEL)
