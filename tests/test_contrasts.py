"""Contrasts of recorded traces against naive twins: every mean and difference, batches, and what is refused."""

import itertools
from collections.abc import Iterator, Sequence
from functools import cache

import naive_contrasts as twin
import numpy as np
import pyarrow as pa
import pytest
from traces_factory import DENSE, counts_of, fixed_bytes, lists, routed, rows, trace_table

from oracle.contexts import NO_CHANGE, NO_SCRIPT, SCRIPTS, Label, Mode, labels_of, name_of
from oracle.contrasts import ALL, Comparison, Contrasts, Difference, contrasts
from oracle.contrasts.groups import PROSE, groups_of
from oracle.contrasts.steps import AFTER, AFTER_CHANGE, AT, AT_CHANGE
from oracle.costs import LengthRange, choose_range, length_costs
from oracle.errors import InputError
from oracle.latency.model import DraftLine, LatencyModel
from oracle.problem import make_problem
from oracle.solver import solve, visits
from oracle.traces import Traces

K = 4
MODEL = LatencyModel(tuple(range(1, K + 2)), (4.0, 4.5, 5.0, 5.2, 5.3), (0.3,) * 5, 0.001, DraftLine(0.2, 0.1))
PIECES = (
    "def",
    " f",
    "(x)",
    ":",
    "\n",
    "    ",
    "return",
    " x",
    "\n\n",
    "Это",
    " слово",
    " and",
    " words",
    ".",
    " to",
    "# b",
)
TEXTS = (  # one of each that the labeller must see for all kinds of groups to be there
    ["def", " f", "(", "x", ")", ":", "\n", "    ", "return", " x", "\n", "    ", "if", " x", ":", "\n", "# ", "no"],
    ["We", " call", " `", "f", "(", ")", "`", " and", " go", " on", ".", "\n", "Это", " сло", "во", " and", " more"],
    ["Слово", " за", " word", " сло", "вом", ",", " and", " so", " on", ".", " Then", " we", " stop", " here", "."],
)


def recorded(seed: int, lengths: Sequence[int] = (40, 0, 1, 25, 33, 18, 17, 15), *, depth: int = K) -> Traces:
    """Generations of random pieces of text, then `TEXTS`; drafts that often match; verified experts of their own."""
    rng = np.random.default_rng(seed)
    texts = [[str(p) for p in rng.choice(PIECES, n)] for n in lengths]
    for g, text in zip(range(len(lengths) - 3, len(lengths)), TEXTS, strict=True):
        texts[g] = text[: lengths[g]]
    lengths = [len(text) for text in texts]
    N = sum(lengths)
    ids = rng.integers(0, 3, N)
    ends = np.repeat(np.cumsum(lengths), lengths)
    later = np.minimum(np.arange(N)[:, None] + np.arange(depth), ends[:, None] - 1)
    drafts = np.where(rng.random((N, depth)) < 0.6, ids[later], 9)
    experts = routed(N, 2, 2, 12, seed)
    new, unique = counts_of(lengths, experts, K)
    verified = np.concatenate(
        [unique[:, :1], unique[:, :1] + np.cumsum(rng.integers(0, 4, (N, K)) / 2, axis=1)], axis=1
    )
    return Traces.from_arrow(
        trace_table(
            lengths,
            K=K,
            num_experts=12,
            experts=fixed_bytes(lengths, experts),
            new_experts=fixed_bytes(lengths, new.astype("<u2")),
            unique_experts=rows(lengths, verified.astype(np.float32)),
            token_text=lists(lengths, pa.array(list(itertools.chain(*texts)), pa.string())),
            token_id=lists(lengths, pa.array(ids, pa.int32())),
            draft_token_id=rows(lengths, drafts.astype(np.int32)),
            match_prob=lists(lengths, rng.uniform(0.2, 1.0, N).astype(np.float32)),
        )
    )


def split(traces: Traces, values: np.ndarray) -> list[list]:
    return [values[a:b].tolist() for a, b in itertools.pairwise(traces.offsets)]


@cache
def case(seed: int, depth: int = K) -> tuple[Traces, Contrasts]:
    traces = recorded(seed, depth=depth)
    return traces, contrasts([traces], MODEL, choose_range(MODEL, K))


def names_of(texts: Sequence[str]) -> list[set[tuple[str, str]]]:
    """The groups of each token, token by token."""
    labels = labels_of(texts)
    found: list[set[tuple[str, str]]] = []
    for t in range(len(texts)):
        script, before = SCRIPTS[labels.script[t]], labels.script_before[t]
        names = {
            ("label", name_of(Label(labels.label[t]))),
            ("mode", name_of(Mode(labels.mode[t]))),
            ("script", script),
        }
        flags = ("function_start", "control_flow", "comment", "word_continuation")
        names |= {("flag", flag) for flag in flags if getattr(labels, flag)[t]}
        if labels.from_mode[t] != NO_CHANGE:
            pair = sorted([name_of(Mode(labels.from_mode[t])), name_of(Mode(labels.mode[t]))])
            names.add(("change", " ↔ ".join(pair)))
        if before != NO_SCRIPT and script not in ("Common", "Unknown", SCRIPTS[before]):
            names.add(("change", " ↔ ".join(sorted([SCRIPTS[before], script]))))
        found.append(names | {("all", "all")})
    return found


def token_groups(traces: Traces) -> list[list[set[tuple[str, str]]]]:
    return [names_of(texts) for texts in traces.table["token_text"].to_pylist()]


def same(found: Difference, expected: twin.Levels | None) -> None:
    if expected is None:
        assert found.weight == 0
        assert found.difference.value is None
        return
    levels = (found.mean.value, found.against.value, found.difference.value)
    assert levels == pytest.approx(expected[:3], rel=1e-9, abs=1e-9)
    assert found.weight == pytest.approx(expected.weight)
    assert found.generations == expected.generations


def same_both(one: Comparison, records: Iterator[twin.Record]) -> None:
    kept = list(records)
    same(one.pooled, twin.pooled(kept))
    same(one.within, twin.within(kept))


MEASURES = {
    "at_least_4": lambda k: k >= 4,
    "at_most_1": lambda k: k <= 1,
    "exactly_0": lambda k: k == 0,
    "exactly_1": lambda k: k == 1,
    "longest": lambda k: k == K,
    "draft_length": lambda k: k,
}


def test_every_group_that_occurs_is_there() -> None:
    traces, found = case(0)
    names = token_groups(traces)
    expected = set().union(*itertools.chain(*names))
    assert {tuple(mean.group) for mean in found.means} == expected
    assert {kind for kind, _ in expected} == {"all", "label", "mode", "script", "flag", "change"}
    groups, member = groups_of([labels_of(texts) for texts in traces.table["token_text"].to_pylist()])
    every = list(itertools.chain(*names))
    for b, group in enumerate(groups):
        assert member[:, b].tolist() == [group in names for names in every]


@pytest.mark.parametrize("seed", [0, 1])
def test_lengths_equal_a_count_by_hand(seed: int) -> None:
    traces, found = case(seed)
    costs = length_costs(MODEL, 0, K)
    problem = make_problem(traces, K)
    k = solve(problem, costs).draft_length
    assert len(set(k.tolist())) > 2, "the problem must have several lengths for this test to say anything"
    names, ks = token_groups(traces), split(traces, k)
    for means, differences, weight in (
        (found.means, found.differences, np.ones(len(k))),
        (found.visit_means, found.visit_differences, visits(problem, k)),
    ):
        weights = split(traces, weight)
        assert {mean.measure for mean in means} == set(MEASURES)
        for mean in means:
            member = [[mean.group in token for token in tokens] for tokens in names]
            kept = [r for r in twin.length_records(ks, weights, member, MEASURES[mean.measure]) if r.inside]
            assert mean.mean.value == pytest.approx(twin.mean(kept), abs=1e-12)
            assert mean.weight == pytest.approx(sum(r.weight for r in kept))
            assert mean.generations == len({r.generation for r in kept if r.weight > 0})
            held_by = {traces.cluster_of[r.generation] for r in kept if r.weight > 0}
            assert mean.clusters == len(held_by)
        assert {one.against for one in differences} == {"rest", PROSE.name}
        for one in differences:
            member = [[one.group in token for token in tokens] for tokens in names]
            every = twin.length_records(ks, weights, member, MEASURES[one.measure])
            if one.against == PROSE.name:
                prose = [[PROSE in token for token in tokens] for tokens in names]
                other = twin.length_records(ks, weights, prose, MEASURES[one.measure])
                every = (r for r, p in zip(list(every), list(other), strict=True) if r.inside or p.inside)
            same_both(one, every)


@pytest.mark.parametrize("seed", [0, 1])
def test_new_experts_by_step_equal_a_count_by_hand(seed: int) -> None:
    traces, found = case(seed)
    names = token_groups(traces)
    experts = {one: split(traces, make_problem(traces, K, one).unique_experts) for one in ("recorded", "routing")}
    assert {one.measure for one in found.experts} == set(experts)
    assert {one.group.kind for one in found.experts} == {"label", "mode", "script", "flag", "change"}
    for one in found.experts:
        member = [[one.group in token for token in tokens] for tokens in names]
        same_both(one, twin.step_records(experts[one.measure], member, K))
    everything = [[True] * len(tokens) for tokens in names]
    for mean in found.by_step:
        assert mean.group == ALL
        kept = [r for r in twin.step_records(experts[mean.measure], everything, K) if r.step == mean.step + 1]
        assert mean.mean.value == pytest.approx(twin.mean(kept))
        assert mean.weight == len(kept)
    assert [mean.step for mean in found.by_step] == [j for j in range(K) for _ in experts]


@pytest.mark.parametrize("depth", [K, 2, K + 2])
def test_mismatches_equal_walking_along_every_draft(depth: int) -> None:
    traces, found = case(3, depth)
    experts = {one: split(traces, make_problem(traces, K, one).unique_experts) for one in ("recorded", "routing")}
    tokens, drafts = traces.table["token_id"].to_pylist(), traces.table["draft_token_id"].to_pylist()
    p = split(traces, traces.match_prob.astype(np.float64))

    def equal(g: int, t: int, i: int) -> float:
        return float(drafts[g][t][i] == tokens[g][t + i])

    def chance(g: int, t: int, i: int) -> float:
        return p[g][t + i]

    shapes = {AT: (0, False), AT_CHANGE: (0, True), AFTER: (1, False), AFTER_CHANGE: (1, True)}
    for comparisons, match, deep in ((found.drafted, equal, depth), (found.expected, chance, K)):
        assert comparisons
        for one in comparisons:
            on, change = shapes[one.group]
            table = experts[one.measure]
            same_both(one, twin.mismatch_records(table, match, K, rows_on=on, change=change, depth=deep))
    assert {one.measure for one in found.drafted} == {"recorded", "routing"}
    assert {one.measure for one in found.expected} == {"routing"}


def test_batches_and_threads_change_nothing() -> None:
    traces, whole = case(0)
    parts = [Traces.from_arrow(traces.table.slice(a, b - a)) for a, b in itertools.pairwise((0, 1, 3, 4, 7, 8))]
    seen: list[int] = []
    apart = contrasts(parts, MODEL, choose_range(MODEL, K), threads=2, on_batch=seen.append)
    assert seen == [1, 2, 1, 3, 1]
    for name in ("means", "visit_means", "differences", "experts", "drafted", "expected", "by_step"):
        ours, theirs = getattr(apart, name), getattr(whole, name)
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            assert (one.group, one.measure) == (other.group, other.measure)
            for how in ("mean",) if hasattr(one, "mean") else ("pooled", "within"):
                a, b = getattr(one, how), getattr(other, how)
                a, b = (a, b) if how == "mean" else (a.difference, b.difference)
                assert (a.value is None) == (b.value is None)
                assert a.value is None or a.value == pytest.approx(b.value, rel=1e-9, abs=1e-9)
    assert (apart.generations, apart.positions, apart.clusters) == (whole.generations, whole.positions, whole.clusters)


def test_without_experts_or_drafts_the_rest_is_there() -> None:
    table = recorded(0).table
    dense = contrasts([Traces.from_arrow(table.drop_columns(list(DENSE)))], MODEL, choose_range(MODEL, K))
    assert dense.means
    assert (dense.by_step, dense.experts, dense.drafted, dense.expected) == ([], [], [], [])
    assert {one.verdict for one in dense.findings if one.claim.about != "lengths"} == {"not decidable here"}
    undrafted = contrasts([recorded(0)], MODEL, choose_range(MODEL, K), drafts=False)
    assert undrafted.drafted == []
    assert undrafted.expected
    by_column = contrasts([recorded(0)], MODEL, choose_range(MODEL, K), unique_experts="routing")
    assert by_column.experts_from == "routing"


def test_only_lengths_that_can_vary_are_measured() -> None:
    short = contrasts([recorded(0)], MODEL, LengthRange(1, 2))
    assert {mean.measure for mean in short.means} == {"at_most_1", "exactly_1", "longest", "draft_length"}
    assert {one.verdict for one in short.findings if one.claim.measure == "at_least_4"} == {"not decidable here"}


def test_refusals() -> None:
    with pytest.raises(InputError, match="the traces hold no generations, so there are no contexts to contrast"):
        contrasts([], MODEL, choose_range(MODEL, K))
    table = recorded(0).table
    bare = Traces.from_arrow(table.drop_columns(["token_text"]), "bare")
    with pytest.raises(InputError, match="bare: language contexts need the column token_text"):
        contrasts([bare], MODEL, choose_range(MODEL, K))
    other = Traces.from_arrow(table.drop_columns(["unique_experts"]))
    with pytest.raises(InputError, match="unique experts come from recorded and routing; contrast such traces apart"):
        contrasts([recorded(0), other], MODEL, choose_range(MODEL, K))
    with pytest.raises(InputError, match="columns of experts or drafts that others lack; contrast them apart"):
        contrasts([recorded(0), other], MODEL, choose_range(MODEL, K), unique_experts="routing")
    six = LatencyModel((1, 6), (4.0, 5.0), (0.3, 0.3), 0.001, DraftLine(0.2, 0.1))
    with pytest.raises(InputError, match="carries draft lengths up to 4 only, but k_max is 5"):
        contrasts([recorded(0)], six, LengthRange(0, 5))
