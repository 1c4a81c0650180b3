"""Both readings of how computing joins the time of reading bytes: the naive twin, a roofline by hand, verdicts."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from naive_pool import gain, hidden_round, hidden_step
from pool_strategies import POOL, draft_letters, letters, only, plans

from oracle.pool.answer import answer
from oracle.pool.plan import Precision
from oracle.pool.plan_file import plan_from_text, read_plan
from oracle.pool.times import read_bytes, round_ms, step_ms, with_reading
from oracle.pool.timing import Reading
from oracle.pool.unique_experts import UniqueExperts, unique_experts
from oracle.pool.worth import Verdict, verdict, weigh
from oracle.summaries.pool import answer_table, pool_tables
from oracle.tables import render

A100 = read_plan(POOL / "a100.toml")


@given(plans(), st.integers(1, 200))
def test_hidden_times_equal_the_definition(plan, n):
    p, speedup, hidden = letters(plan), plan.speedups[0], with_reading(plan, Reading.HIDDEN)
    s = draft_letters(speedup)
    assert float(step_ms(hidden, only(plan), n)) == pytest.approx(hidden_step(p, n), rel=1e-9)
    found = float(round_ms(hidden, only(plan), speedup, n))
    assert found == pytest.approx(hidden_round(p, s, n, s["size"]), rel=1e-9)


@given(plans(tenants_from=1))
def test_both_readings_are_weighed(plan):
    p, s = letters(plan), draft_letters(plan.speedups[0])
    found = weigh(plan, only(plan), plan.speedups[0])
    assume(found.without.tenants)
    if not plan.timing.verify_ms_per_token:
        assert found.hidden is None
        assert found.readings == (found,)
        return
    assert found.gain == pytest.approx(gain(p, s, s["size"]), rel=1e-9)
    assert found.hidden.gain == pytest.approx(gain(p, s, s["size"], hidden_step, hidden_round), rel=1e-9)
    if not plan.timing.step_host_ms and found.same_gain is not None:  # at the same tenants hiding is never dearer
        assert found.hidden.same_gain >= found.same_gain * (1 - 1e-12)


def test_roofline_by_hand():
    """A full pool at NVFP4 weights and FP8 KV: 147 tenants of 7,168 tokens, 146 with slots for drafts."""
    each = 49152 * (24 * 4096 + 8 * 16384) / 32
    weight = 0.5 + 1 / 16

    def reads(positions):
        touched = 1 - (1 - 8 / 128) ** positions
        return 0.62e9 * 2 + (30.5e9 - 29e9 - 0.62e9) * weight + 29e9 * weight * touched

    def ms(size):
        return size / 2039e9 * 1e3

    step = max(ms(reads(147) + each * 147), 0.042 * 147)
    took = 0.1 + max(ms(reads(146 * 5) + each * 146), 0.042 * 5 * 146)
    by_hand = sum(0.3**j for j in range(5)) * 146 / took / (147 / step)
    found = answer(A100)
    (lookup,) = [w for i, w in found.worths if i == 5 and w.speedup.name == "n-gram lookup"]
    assert (lookup.without.tenants, lookup.having.tenants) == (147, 146)
    assert lookup.hidden.gain == pytest.approx(by_hand, rel=1e-6)
    assert (round(lookup.gain, 3), round(lookup.hidden.gain, 3)) == (0.826, 1.418)


@pytest.mark.parametrize(
    ("gains", "said"),
    [
        ((1.1,), Verdict.PAYS),
        ((1.0,), Verdict.NOT),
        ((1.1, 1.2), Verdict.PAYS),
        ((0.9, 0.95), Verdict.NOT),
        ((0.9, 1.2), Verdict.DEPENDS),
        ((1.2, 0.9), Verdict.DEPENDS),
    ],
)
def test_a_verdict_stands_where_both_agree(gains, said):
    assert verdict(gains) is said


def test_the_page_says_where_the_verdict_depends():
    kept = replace(A100, precisions=A100.precisions[2:], kv_precisions=A100.kv_precisions[1:])
    rows = {row["fact"]: row["value"] for row in answer_table(answer(kept)).rows}
    assert (
        "at a full pool it depends on whether verification hides behind reading bytes (then it pays): 0.826 / 1.418 "
        "times the tokens" in rows["n-gram lookup"]
    )
    assert "at a full pool it pays: 1.467 / 2.372 times the tokens" in rows["EAGLE-3 head"]
    assert "at a full pool it does not pay: 0.304 / 0.328 times" in rows["draft model 1.7B"]
    assert rows["a / b"].startswith("a: verifying drafts takes time on top of reading bytes; b: it hides")
    table = next(table for table in pool_tables(answer(A100)) if table.name == "pool_speedups")
    verdicts = [row["verdict"] for row in table.rows if row["speedup"] == "n-gram lookup"]
    assert verdicts == ["does not pay", "pays", "pays", "pays", "pays", "depends"]
    for row in table.rows:
        assert (row["verdict"] == "depends") == ((row["asked_gain"] > 1) != (row["hidden_asked_gain"] > 1))


def test_a_precision_has_its_own_price():
    kept = A100.precisions[0]
    quick = replace(A100, precisions=(kept, replace(kept, name="quick", verify_ms_per_token=0.0)))
    slow, fast = answer(quick).choices[0].served, answer(quick).choices[2].served
    lookup = A100.speedups[2]
    added = float(round_ms(quick, slow, lookup, 10)) - float(round_ms(quick, fast, lookup, 10))
    assert added == pytest.approx(0.042 * 4 * 10)
    assert weigh(quick, fast, lookup).hidden is None
    assert Precision("p", 1.0).verify_ms_per_token is None


def test_what_is_left_open_of_verification():
    said = " ".join(answer(A100).left_open)
    assert "whether verification hides behind reading bytes is not known: both are worked out" in said
    assert "computing a token is taken to cost the same at every precision" in said
    free = replace(A100, timing=replace(A100.timing, verify_ms_per_token=0.0))
    said = " ".join(answer(free).left_open)
    assert "verify_ms_per_token is not stated: computing is taken to cost nothing" in said
    assert "a / b" not in render(pool_tables(answer(free)))


def test_kv_without_tenants_is_given_in_bytes():
    text = (POOL / "a100.toml").read_text("utf-8")
    start, end = text.index("[[tenant]]"), text.index("[[speedup]]")
    found = answer(plan_from_text(text[:start] + text[end:], "p.toml"))
    assert [choice.budget.tenants for choice in found.choices] == [None] * 6
    assert "contexts of tenants are not stated: the pool is given in bytes, not in tenants" in found.left_open
    assert "8.24 GiB left for KV" in render(pool_tables(found))


def test_rows_of_a_draft_length_are_for_its_rounds():
    rows = (UniqueExperts(8, 40.0, 0), UniqueExperts(10, 30.0, 4), UniqueExperts(20, 60.0))
    at = np.array([8.0, 10.0])
    assert unique_experts(rows, at, 0, 128, 8)[0] == 40.0
    assert unique_experts(rows, at, 4, 128, 8)[1] == 30.0
    assert unique_experts(rows, np.array([20.0]), 3, 128, 8)[0] == 60.0
    plan, served = replace(A100, unique_experts=rows), answer(A100).choices[0].served
    per_expert = 29.0e9 * 2 / 128
    assert float(read_bytes(plan, served, 8)) - float(read_bytes(plan, served, 10, 4)) == pytest.approx(10 * per_expert)
    assert not any("unique experts were not measured" in said for said in answer(plan).left_open)
    some = replace(A100, unique_experts=rows[:1])
    assert any("not measured at draft length 4: the uniform" in said for said in answer(some).left_open)
