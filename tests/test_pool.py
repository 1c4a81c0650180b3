"""Budgets, times and the worth of speed-ups: the naive twin, sums, monotonicity, break-evens against direct search."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from naive_pool import gain, kv_each, round_time, step, tenants
from pool_strategies import POOL, draft_letters, letters, only, plans, precisions, with_usable

from oracle.errors import InputError
from oracle.levers.cost import Toggles, cost_parts
from oracle.levers.deployment import Deployment, Speculation
from oracle.levers.deployment import Precision as LeversPrecision
from oracle.levers.regime import make_regime
from oracle.pool.answer import answer
from oracle.pool.budget import Served, budget
from oracle.pool.kv_cache import KvCache, grouped_heads, latent
from oracle.pool.plan import GIB, Memory, Model, Plan, Precision, Tenant
from oracle.pool.plan_file import read_plan
from oracle.pool.speedup import Speedup
from oracle.pool.times import read_bytes, round_ms, step_ms
from oracle.pool.timing import Timing
from oracle.pool.unique_experts import UniqueExperts, unique_experts
from oracle.pool.worth import MOST_TENANTS, most_draft_bytes, worth


@given(plans())
def test_tenants_are_whole_and_what_the_definition_counts(plan):
    p, s = letters(plan), draft_letters(plan.speedups[0])
    without, having = budget(plan, only(plan)), budget(plan, only(plan), plan.speedups[0])
    assert isinstance(without.tenants, int)
    assert without.tenants == tenants(p)[0]
    assert having.tenants == tenants(p, s["size"], s["k"], s["own"])[0]
    assert having.tenants <= without.tenants


@given(plans())
def test_the_parts_sum_to_the_budget(plan):
    for laid in (budget(plan, only(plan)), budget(plan, only(plan), plan.speedups[0])):
        parts = (laid.used_weights_bytes, laid.idle_weights_bytes, laid.draft_bytes, laid.reserve_bytes, laid.kv_bytes)
        assert all(isinstance(part, int) and part >= 0 for part in parts)
        assert sum(parts) + laid.unused_bytes == laid.usable_bytes == plan.memory.usable_bytes
        assert (laid.unused_bytes >= 0) == laid.fits
        if laid.fits:
            total, count = laid.tenant_bytes
            assert laid.unused_bytes * count < total  # not one tenant more


@given(plans(), st.integers(0, 1 << 34))
def test_more_memory_never_means_fewer_tenants(plan, more):
    wider = with_usable(plan, plan.memory.usable_bytes + more)
    for speedup in (None, plan.speedups[0]):
        assert budget(plan, only(plan), speedup).tenants <= budget(wider, only(plan), speedup).tenants


@given(plans(), precisions, precisions)
def test_fewer_bytes_a_value_never_mean_fewer_tenants(plan, one, other):
    wide, narrow = sorted((one, other), key=lambda p: -p.stored_bytes)
    kv = only(plan).kv
    assert budget(plan, Served(wide, kv)).tenants <= budget(plan, Served(narrow, kv)).tenants
    weights = only(plan).weights
    assert budget(plan, Served(weights, wide)).tenants <= budget(plan, Served(weights, narrow)).tenants


@given(plans(), st.integers(1, 200))
def test_times_equal_the_definition(plan, n):
    p, speedup = letters(plan), plan.speedups[0]
    s = draft_letters(speedup)
    assert float(step_ms(plan, only(plan), n)) == pytest.approx(step(p, n), rel=1e-9)
    assert float(round_ms(plan, only(plan), speedup, n)) == pytest.approx(round_time(p, s, n, s["size"]), rel=1e-9)


@given(plans(tenants_from=1))
def test_what_it_gives_and_needs_equals_the_definition(plan):
    p, speedup = letters(plan), plan.speedups[0]
    s, found = draft_letters(speedup), worth(plan, only(plan), speedup)
    assume(found.without.tenants)
    assert found.gain == pytest.approx(gain(p, s, s["size"]), rel=1e-9)
    if found.having.tenants:
        at = replace(speedup, acceptance=None, acceptance_length=found.length_needed)
        assert worth(plan, only(plan), at).gain == pytest.approx(1.0, rel=1e-9)
        if found.acceptance_needed not in (0.0, math.inf):
            at = replace(speedup, acceptance=found.acceptance_needed)
            assert worth(plan, only(plan), at).gain == pytest.approx(1.0, rel=1e-9)
        assert (found.acceptance_needed == math.inf) == (found.length_needed > speedup.draft_length + 1)


@settings(max_examples=60)
@given(plans(tenants_from=1))
def test_the_largest_draft_that_pays_equals_a_direct_search(plan):
    """Bisection over whole bytes, each size weighed by the naive twin."""
    speedup, served = plan.speedups[0], only(plan)
    assume(speedup.resident_bytes and budget(plan, served).tenants)
    p, s = letters(plan), draft_letters(speedup)
    most = most_draft_bytes(plan, served, speedup)
    if gain(p, s, 0) < 1 - 1e-9:
        assert most < 1
        return
    assume(gain(p, s, 0) > 1 + 1e-9)
    low, high = 0, plan.memory.usable_bytes
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if gain(p, s, middle) >= 1 else (low, middle)
    assert most == pytest.approx(low, rel=1e-6, abs=2)


@settings(max_examples=60)
@given(plans(tenants_from=1))
def test_it_pays_with_the_tenants_at_which_it_emits_more(plan):
    p, speedup = letters(plan), plan.speedups[0]
    s, found = draft_letters(speedup), worth(plan, only(plan), plan.speedups[0])
    n, left = found.without.tenants, found.having.tenants
    assume(n and left)
    for asked in range(1, n + 3):
        held, plain = min(asked, left), min(asked, n)
        ratio = s["length"] * held / round_time(p, s, held, s["size"]) / (plain / step(p, plain))
        if abs(ratio - 1) > 1e-9:
            assert any(low <= asked <= high for low, high in found.pays) == (ratio > 1), asked


def test_steps_and_rounds_are_those_of_the_serving_levers():
    """Without weights of a draft the two models are one."""
    kv, context = 192512.0, 16384
    how = Speculation(8, 0.1, 640.0)
    deployment = Deployment(
        1536e9, 64e12, 235e9, 235e9, kv, 0.005, 0.0, (LeversPrecision("FP8", 1.0, 1.0),), how, kv_read_share=0.5
    )
    precision = deployment.precisions[0]
    verify = deployment.read_ms_per_byte / 8 / 640
    plan = Plan(
        Memory(round(1536e9)),
        Model(235e9),
        (Precision("FP8", 1.0),),
        KvCache(kv, is_bytes=True),
        (),
        (Tenant("t", 1, context),),
        (Speedup("n-gram", 8, acceptance=0.35, round_host_ms=0.1),),
        Timing(64e12, kv_read_share=0.5, verify_ms_per_token=verify),
    )
    served, speedup = answer(plan).choices[0].served, plan.speedups[0]
    assert budget(plan, served).tenants == 412  # K(FP8) of the levers' example
    regime = make_regime(
        concurrency=200.0, prefix_share=0.0, repetitiveness=0.35, prompt_tokens=8192, output_tokens=512,
        context_tokens=context,
    )  # fmt: skip
    for on in (False, True):
        cost = float(cost_parts(deployment, precision, regime, Toggles(on, False)).decode_ms)
        took = round_ms(plan, served, speedup, 200) / speedup.length if on else step_ms(plan, served, 200)
        assert float(took) / 200 == pytest.approx(cost, rel=1e-12)


def test_published_numbers_of_tenants():
    """The levers' example holds 337, 412 and 449 contexts; an A100 with 61 GB of weights about 110 of 1,000 tokens."""
    levers = Plan(
        Memory(round(1536e9)),
        Model(235e9),
        (Precision("FP16", 2.0), Precision("FP8", 1.0), Precision("NVFP4", 0.5)),
        KvCache(192512.0, is_bytes=True),
        tenants=(Tenant("t", 1, 16384),),
    )
    assert [choice.budget.tenants for choice in answer(levers).choices] == [337, 412, 449]
    bf16 = (Precision("bf16", 2.0),)
    a100 = Plan(
        Memory(round(0.9 * 80e9)), Model(30.5e9), bf16, grouped_heads(48, 4, 128), bf16, (Tenant("t", 1, 1000),)
    )
    assert answer(a100).choices[0].budget.tenants == 111


def test_measured_lines_are_used_as_they_are():
    plan = Plan(
        Memory(10 * GIB, is_pool=True),
        kv=KvCache(float(GIB // 1024), is_bytes=True),
        tenants=(Tenant("t", 4, 1024),),
        speedups=(
            Speedup("head", 3, extra_bytes=GIB, acceptance_length=2.5, round_base_ms=12.0, round_ms_per_tenant=0.5),
        ),
        timing=Timing(step_base_ms=8.0, step_ms_per_tenant=0.25),
    )
    (_, found), *_ = answer(plan).worths
    assert (found.without.tenants, found.having.tenants) == (10, 8)  # slots for 3 draft tokens cost the ninth
    assert (found.step_ms, found.round_ms) == (10.5, 16.0)
    assert found.gain == pytest.approx((2.5 * 8 / 16) / (10 / 10.5))
    assert found.length_needed == pytest.approx(10 / 8 * 16 / 10.5)
    assert found.same_gain == pytest.approx(2.5 * 9 / 14)
    each = GIB + 3 * (GIB // 1024)
    # 6 tenants at 2.5/15 each give 1.0 a millisecond, more than the 0.952 without; 5 give 0.862
    assert found.most_draft_bytes == 10 * GIB - 6 * each


def test_shapes_of_attention():
    assert grouped_heads(48, 4, 128).values(1) * 2 == 98304  # bytes a token of a 30B-A3B MoE at bf16
    assert latent(61, 512, 64).values(1) == 61 * 576
    windowed = grouped_heads(48, 8, 256, window_layers=40, window_tokens=1024, block_tokens=16)
    assert windowed.values(100) == 48 * 2 * 8 * 256 * 112
    assert windowed.values(5000) == 2 * 8 * 256 * (8 * 5008 + 40 * 1024)


@given(plans())
def test_kv_of_each_kind(plan):
    found = answer(plan).choices[0]
    p = letters(plan)
    assert list(found.kind_bytes) == [kv_each(p, tenant.context_tokens) for tenant in plan.tenants]
    pool = found.budget.pool_bytes
    assert list(found.alone) == [max(0, pool) // each for each in found.kind_bytes]


def test_one_position_reads_the_active_experts():
    plan = Plan(
        Memory(1 << 40), Model(100.0, expert_parameters=80.0, experts=8, experts_per_token=2), (Precision("b", 1),)
    )
    served = answer(plan).choices[0].served
    assert read_bytes(plan, served, [1, 2, 10_000]).tolist() == pytest.approx([40.0, 20 + 80 * (1 - 0.75**2), 100.0])
    assert np.all(np.diff(read_bytes(plan, served, np.arange(1, 50))) > 0)


def test_a_pool_of_more_tenants_than_can_be_looked_at():
    plan = Plan(Memory(MOST_TENANTS + 1, is_pool=True), kv=KvCache(1.0, is_bytes=True), tenants=(Tenant("t", 1, 1),))
    with pytest.raises(InputError) as refusal:
        answer(plan)
    assert str(refusal.value) == (
        "the pool holds 131,073 tenants; at most 131,072 are looked at one by one; give the context that a tenant "
        "holds when it is full"
    )


@given(plans(tenants_from=1))
def test_what_it_gives_at_the_tenants_asked_for(plan):
    p, speedup = letters(plan), plan.speedups[0]
    s, found = draft_letters(speedup), worth(plan, only(plan), plan.speedups[0])
    n, left = found.without.tenants, found.having.tenants
    assume(n and left)
    asked = min(sum(count for count, _ in p["tenants"]), n)
    held = min(asked, left)
    ratio = s["length"] * held / round_time(p, s, held, s["size"]) / (asked / step(p, asked))
    assert (found.asked, found.asked_gain) == (asked, pytest.approx(ratio, rel=1e-9))
    assert found.gain == pytest.approx(found.asked_gain, rel=1e-9) if asked == n else True


def test_measured_unique_experts_stand_in_for_the_formula():
    rows = (UniqueExperts(4, 13.0), UniqueExperts(8, 20.0))
    plan = replace(read_plan(POOL / "a100.toml"), unique_experts=rows)
    assert (plan.model.experts, plan.model.experts_per_token) == (128, 8)
    found = unique_experts(rows, np.array([1.0, 2.5, 4.0, 6.0, 8.0, 1e6]), 0, 128, 8)
    assert found == pytest.approx([8.0, 10.5, 13.0, 16.5, 20.0, 128.0])

    def formula(n):
        return 128 * (1 - (1 - 8 / 128) ** n)

    share = (formula(16) - formula(8)) / (128 - formula(8))
    assert float(unique_experts(rows, np.array(16.0), 0, 128, 8)) == pytest.approx(20 + 108 * share)
    served = Served(plan.precisions[0], plan.kv_precisions[0])
    fewer = read_bytes(plan, served, 8)
    assert fewer < read_bytes(replace(plan, unique_experts=()), served, 8)
    whole = float(read_bytes(plan, served, 1e9))
    assert whole - float(fewer) == pytest.approx(plan.model.expert_parameters * 2 * 108 / 128)
