"""Policies: naive twins written from the definitions, the information rule, what looking costs, users' lengths."""

from dataclasses import replace
from typing import Any

import naive
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from policy_inputs import DYADIC, INFORMED, ONLINE, K, random_inputs, random_unique, refusal, with_columns
from traces_factory import TEXTS, lists, rows, trace_table

from oracle import scores
from oracle.costs import LengthCosts
from oracle.policies import (
    Call,
    Confidence,
    Inputs,
    PolicySet,
    Slope,
    Static,
    Survival,
    inputs_of,
    lengths_of,
    static,
)
from oracle.traces import Traces

# Naive twins: one decision, plain Python, from the definitions.


def twin(text: str, look: list[float], unique: list[float], context_len: float, costs: LengthCosts) -> tuple[int, int]:
    """k and the steps made, from what the policy looks at: its probabilities by depth, U by length, and L."""
    head, *options = text.split("@")
    name, _, value = head.partition(":")
    form, informed = name.rstrip("!"), name.endswith("!")
    allowed = list(costs.lengths)

    def cost(k: int) -> float:
        beta = costs.verify_ms[k] + costs.draft_ms[k] + costs.reject_ms[k]
        return float(beta + costs.alpha_ms[k] * unique[k] + costs.context_ms[k] * context_len)

    S = naive.survival(look)
    if form in ("confidence", "survival"):
        k = 0
        while k < K and (look[k] if form == "confidence" else S[k + 1]) >= float(value):
            k += 1
        steps = min(k + 1, K)
        k = steps if "keep" in options else k
    else:
        k = steps = allowed[0]
        for following in allowed[1:]:
            steps = following
            gain = sum(S[k + 1 : following + 1])
            advance = sum(S[: k + 1])
            if form == "goodput" and not (advance + gain) / cost(following) > advance / cost(k):
                break
            if form == "slope" and not cost(following) - cost(k) <= float(value) * gain:
                break
            k = following
    for option in options:
        side, _, bound = option.partition("=")
        if side in ("max", "min"):
            k, steps = ((min if side == "max" else max)(x, int(bound)) for x in (k, steps))
    k = max([a for a in allowed if a <= k], default=allowed[0])
    steps = max(k, min(steps, allowed[-1]))
    return k, k if informed else steps


@pytest.mark.parametrize("text", [*ONLINE, *INFORMED])
def test_each_form_equals_its_naive_twin(text: str) -> None:
    for seed in range(25):
        allowed = [(0, 1, 2, 3, 4, 5), (1, 2, 3, 4, 5), (0, 1, 3, 4), (2, 5)][seed % 4]
        sizes = (7, 1, 0, 12)
        inputs = random_inputs(seed, sizes, allowed)
        laid = lengths_of([text], inputs)
        traces, problem = inputs.traces, inputs.problem
        for g, size in enumerate(sizes):
            first = int(traces.offsets[g])
            for t in range(size):
                at = first + t
                if "!" in text:  # past the end nothing matches
                    assert traces.match_prob is not None
                    look = [float(traces.match_prob[at + j]) if t + j < size - 1 else 0.0 for j in range(K)]
                    unique = problem.unique_experts[at].tolist()
                else:  # past the end, the text's beginning stands in
                    assert traces.draft_prob is not None
                    look = [float(traces.draft_prob[first + (t + j) % size]) for j in range(K)]
                    unique = np.arange(2.0, 8.0).tolist()
                k, steps = twin(text, look, unique, float(problem.context_len[at]), inputs.costs)
                assert laid.draft_length[at, 0] == k, (seed, g, t)
                assert (laid.draft_length if laid.drafted is None else laid.drafted)[at, 0] == steps, (seed, g, t)


@settings(deadline=None)
@given(
    seed=st.integers(0, 2**16),
    before=st.integers(0, 8),
    after=st.integers(1, 14),
    other=st.integers(1, 14),
    gaps=st.booleans(),
)
def test_online_policies_never_see_what_comes_after(seed: int, before: int, after: int, other: int, gaps: bool) -> None:
    """New routing and matches from t on, new confidences beyond the stop, another end: the choice at t stays."""
    allowed = (0, 1, 3, 5) if gaps else tuple(range(K + 1))
    inputs = random_inputs(seed, (before + after, 3), allowed)
    laid = lengths_of(ONLINE, inputs)
    assert laid.drafted is not None
    t, rng = before, np.random.default_rng(seed + 1)
    assert inputs.traces.draft_prob is not None
    assert inputs.traces.match_prob is not None
    for p, text in enumerate(ONLINE):
        # the token at which it stops included; a row past the end was never recorded
        seen = min(int(laid.drafted[t, p]), after)
        fresh = max(seen, other)
        sizes = (before + fresh, 2)
        unique = random_unique(rng, sum(sizes))
        draft, match = (rng.choice(DYADIC, sum(sizes)) for _ in range(2))
        draft[: t + seen] = inputs.traces.draft_prob[: t + seen]
        match[:t] = inputs.traces.match_prob[:t]
        unique[:t] = inputs.problem.unique_experts[:t]
        if int(laid.drafted[t, p]) > seen and fresh != seen:
            continue  # it looked past the end of the shorter text: more text is more to look at
        changed = trace_table(
            sizes,
            K=K,
            num_experts=64,
            drop=(*TEXTS, "experts", "new_experts"),
            match_prob=lists(sizes, match),
            draft_prob=lists(sizes, draft),
            unique_experts=rows(sizes, unique),
        )
        again = lengths_of([text], inputs_of(Traces.from_arrow(changed), inputs.costs, training=inputs.training))
        assert again.drafted is not None
        assert again.draft_length[t, 0] == laid.draft_length[t, p], text
        assert again.drafted[t, 0] == laid.drafted[t, p], text


def test_online_policies_do_not_clip_at_the_end() -> None:
    """Where the confidence never changes, neither does the choice: not at the last position either."""
    inputs = random_inputs(4, (9, 2, 1))
    flat = with_columns(inputs, draft_prob=lists((9, 2, 1), np.full(12, 0.5, np.float32)))
    flat = replace(flat, costs=replace(flat.costs, context_ms=np.zeros(K + 1)))
    laid = lengths_of(ONLINE, flat)
    assert (laid.draft_length == laid.draft_length[0]).all()
    assert (lengths_of(["static:5"], flat).draft_length == 5).all()


def test_oracle_costs_no_more_than_any_policy_on_any_generation() -> None:
    policies = ("oracle", "blind", "budget", *ONLINE, *INFORMED, *(static(k) for k in (1, 3, 4)))
    for seed in range(40):
        allowed = (0, 1, 3, 4) if seed % 2 else (1, 2, 3, 4)
        inputs = random_inputs(seed, (20, 1, 0, 31), allowed)
        wanted = [p for p in policies if "static" not in p or int(p[-1]) in allowed]
        best = replace(inputs.training, best_static=1, best_by_category={"code": 4})
        laid = lengths_of(wanted, replace(inputs, training=best))
        ms = scores.total(
            inputs.problem, inputs.costs, laid, inputs.traces.generation, inputs.traces.cluster_of
        ).total_ms
        assert (ms[:, [0]] <= ms * (1 + 1e-12)).all()


def test_a_token_looked_at_and_left_out_is_paid_for() -> None:
    """No confidence anywhere: each round verifies one position and pays one draft step for nothing."""
    inputs = with_columns(random_inputs(1, (6,)), draft_prob=lists((6,), np.zeros(6, np.float32)))
    costs = replace(inputs.costs, draft_ms=np.array([0.0, 7.0, 8.0, 9.0, 10.0, 11.0]))
    inputs = replace(inputs, costs=costs)
    laid = lengths_of(["static:0", "confidence:0.5", "confidence:0.5@keep", "static:1"], inputs)
    assert laid.drafted is not None
    assert laid.drafted.tolist() == [[0, 1, 1, 1]] * 6
    assert laid.draft_length.tolist() == [[0, 0, 1, 1]] * 6
    totals = scores.total(inputs.problem, costs, laid, ("g",), ("g",))
    plain, looked, kept, one = totals.sums[0]
    assert (looked - plain).tolist() == [0, 6, 0, 0, 0, 0, 0, 0, 6 * 7.0, 0]
    assert kept.tolist() == one.tolist()
    falling = replace(costs, draft_ms=np.array([0.0, -1.0, 0.0, 0.0, 0.0, 0.0]))  # a step never earns time
    assert (scores.total(inputs.problem, falling, laid, ("g",), ("g",)).of("draft_ms")[0, :2] == 0).all()


def test_discarded_steps_equal_the_twin_totals_plus_their_price() -> None:
    for seed in range(20):
        inputs = random_inputs(seed, (15, 8), (0, 2, 3, 5))
        laid = lengths_of(["confidence:0.5"], inputs)
        totals = scores.total(inputs.problem, inputs.costs, laid, ("a", "b"), ("a", "b"))
        draft = inputs.costs.draft_ms
        price = [0.0, draft[2] / 2, draft[2], draft[3], (draft[3] + draft[5]) / 2, draft[5]]
        assert laid.drafted is not None
        assert inputs.traces.match_prob is not None
        for g, (first, end) in enumerate(((0, 15), (15, 23))):
            k = laid.draft_length[first:end, 0].tolist()
            steps = laid.drafted[first:end, 0].tolist()
            table = naive.by_depth(inputs.traces.match_prob[first:end].tolist(), K)
            one = naive.Generation(table, inputs.problem.unique_experts[first:end].tolist(), 10 + g)
            c = inputs.costs
            lists_of = [a.tolist() for a in (c.verify_ms, c.draft_ms, c.reject_ms, c.alpha_ms, c.context_ms)]
            plain = naive.totals(one, naive.Costs(*lists_of, list(c.lengths)), k)
            visit = naive.visit_probs(one, k)
            extra = sum(v * max(price[d] - price[x], 0) for v, d, x in zip(visit, steps, k, strict=True))
            tokens = sum(v * (d - x) for v, d, x in zip(visit, steps, k, strict=True))
            assert totals.total_ms[g, 0] == pytest.approx(plain.total_ms + extra, rel=1e-12)
            assert totals.of("drafted")[g, 0] == pytest.approx(plain.drafted + tokens, rel=1e-12)


def test_a_hundred_thresholds_are_one_call_and_equal_each_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = random_inputs(3, (40, 25))
    calls = []
    for rule in (Confidence, Survival, Slope):
        original = rule.choose

        def counted(self: Any, of: Inputs, at: NDArray[np.float64], original: Any = original) -> Any:
            calls.append(len(at))
            return original(self, of, at)

        monkeypatch.setattr(rule, "choose", counted)
    grid = np.linspace(0, 1, 100).tolist()
    sweep = [make(t) for make in (Confidence, Survival, lambda t: Slope(8 * t)) for t in grid]
    together = lengths_of([*sweep, Static(2), Static(4)], inputs)
    assert calls == [100, 100, 100]
    assert together.draft_length.shape == (65, 302)
    for p, policy in enumerate(sweep[::7]):
        alone = lengths_of([policy], inputs)
        assert alone.drafted is not None
        assert together.drafted is not None
        assert (alone.draft_length[:, 0] == together.draft_length[:, 7 * p]).all()
        assert (alone.drafted[:, 0] == together.drafted[:, 7 * p]).all()
    assert together.draft_length[:, 300:].tolist() == [[2, 4]] * 65


def test_budget_takes_the_best_length_of_the_category() -> None:
    inputs = random_inputs(2, (3, 2, 4))  # categories: code, none, prose (not seen in training)
    assert lengths_of(["budget"], inputs).draft_length[:, 0].tolist() == [2, 2, 2, 1, 1, 1, 1, 1, 1]


def test_a_user_brings_a_column_or_a_function() -> None:
    inputs = random_inputs(5, (3, 2))
    inputs = with_columns(inputs, mine=lists((3, 2), pa.array([0, 1, 2, 3, 4], pa.int16())))
    call = Call("alternating", lambda of: np.arange(of.problem.positions) % 2)
    laid = lengths_of(["column:mine", call, "column:mine@max=2", "column:mine"], inputs)
    assert laid.names == ("column:mine", "call:alternating", "column:mine@max=2")
    assert laid.draft_length.T.tolist() == [[0, 1, 2, 3, 4], [0, 1, 0, 1, 0], [0, 1, 2, 2, 2]]
    assert laid.drafted is None

    bad = with_columns(
        inputs,
        short=lists((3, 1), pa.array([0, 1, 2, 3], pa.int16())),
        long=lists((3, 2), pa.array([0, 0, 0, 0, 7], pa.int16())),
        less=lists((3, 2), pa.array([0, 0, 0, -1, 0], pa.int16())),
        real=lists((3, 2), pa.array([0.5] * 5)),
    )
    said = refusal(
        [f"column:{name}" for name in ("short", "long", "less", "real", "generation")] + [Call("two", lambda of: [1])],
        bad,
    )
    assert "policy 'column:short': generation 'g1' has 2 positions, the column 1 entries" in said
    assert "policy 'column:long': generation 'g1', position 1: asks for k = 7, that is m = 8" in said
    assert "policy 'column:less': generation 'g1', position 0: the draft length is -1; it is 0 or more" in said
    assert "policy 'column:real': gives numbers of type float64; draft lengths are whole numbers" in said
    assert "policy 'column:generation': the column holds no list of whole numbers, one a position" in said
    assert "policy 'call:two': gives an array of shape (1,); give one draft length a position, (5,)" in said


def test_logged_rounds_are_scored_on_realised_matches_only() -> None:
    """Rounds of a simulated engine, logged: the score is the simulation's; under other matches it is refused."""
    rng, sizes = np.random.default_rng(0), (9, 0, 14)
    matches = rng.integers(0, 2, sum(sizes)).astype(np.float32)
    inputs = with_columns(random_inputs(8, sizes), match_prob=lists(sizes, matches))
    wanted = rng.integers(0, K + 1, sum(sizes)).tolist()
    c = inputs.costs
    lists_of = [a.tolist() for a in (c.verify_ms, c.draft_ms, c.reject_ms, c.alpha_ms, c.context_ms)]
    logged, twins = [], []
    for g in range(3):
        first, end = inputs.traces.offsets[g : g + 2]
        table = naive.by_depth(matches[first:end].tolist(), K)
        one = naive.Generation(table, inputs.problem.unique_experts[first:end].tolist(), 10 + g)
        twin_totals, rounds = naive.simulate(one, naive.Costs(*lists_of, list(c.lengths)), wanted[first:end])
        logged.append(rounds)
        twins.append(twin_totals.total_ms)
    counts = [len(r) for r in logged]
    length, advance = (pa.array([r[i] for rounds in logged for r in rounds], pa.int16()) for i in (1, 2))
    engine = with_columns(inputs, logged_draft_length=lists(counts, length), logged_advance=lists(counts, advance))
    laid = lengths_of(["logged"], engine)
    names = engine.traces.generation
    assert scores.total(engine.problem, c, laid, names, names).total_ms[:, 0].tolist() == twins

    expected = with_columns(engine, match_prob=lists(sizes, np.full(23, 0.5, np.float32)))
    said = refusal(["logged"], expected)
    assert "policy 'logged': needs realised scores: generation 'g0', position 1: the match probabilities" in said
    assert "Give realised matches (0 or 1), or score the rule that the engine followed" in said
    for surely in (0.0, 1.0):  # realised, but not what was logged
        other = with_columns(engine, match_prob=lists(sizes, np.full(23, surely, np.float32)))
        assert "as logged; elsewhere the log does not tell" in refusal(["logged"], other)
    few = with_columns(engine, logged_advance=lists((1, 0, 1), pa.array([1, 1], pa.int16())),
                       logged_draft_length=lists((1, 0, 1), pa.array([0, 0], pa.int16())))  # fmt: skip
    assert "generation 'g0' has 9 positions, its 1 logged rounds advance by 1 tokens" in refusal(["logged"], few)


def test_batches_without_positions_have_no_lengths() -> None:
    inputs = random_inputs(0, (0, 0))
    laid = lengths_of([*ONLINE, *INFORMED, "oracle", "budget", "static:1"], inputs)
    assert isinstance(laid, PolicySet)
    assert laid.draft_length.shape == (0, 16 + 1)
