"""What a speed-up takes from memory: its weights and what it adds to KV, said together; and what a batch reads."""

import json
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from naive_pool import kv_each, tenants, unique_share
from pool_strategies import POOL, draft_letters, letters, only, plans
from test_cli import succeeded

from oracle.figures import pool as figures
from oracle.pages.drawn_pool import memory_drawn
from oracle.pool.answer import answer
from oracle.pool.budget import budget
from oracle.pool.plan import GIB
from oracle.pool.plan_file import read_plan
from oracle.pool.unique_experts import UniqueExperts
from oracle.pool.worth import worth

A100 = POOL / "a100.toml"
# Mixtral 8x7B on 80 GB, 20 contexts of 8000 tokens, and a small draft with a wide cache
MIXTRAL = """
format = "draft-oracle/pool"
version = 1
[hardware]
hbm_gb = 80
usable_share = 0.9
reserve_gib = 3
[model]
parameters = 46.7e9
active_parameters = 12.9e9
kept_parameters = 0.26e9
expert_parameters = 45.1e9
experts = 8
experts_per_token = 2
[[precision]]
name = "FP8"
bytes_per_value = 1
[kv]
layers = 32
kv_heads = 8
head_dim = 128
block_tokens = 16
[[kv_precision]]
name = "bf16"
bytes_per_value = 2
[[tenant]]
name = "rag"
count = {}
context_tokens = 8000
[[speedup]]
name = "draft"
draft_length = {}
parameters = 0.16e9
kv_bytes_per_token = 18432
acceptance = 0.7
"""
SLOTS = 8016  # of a context of 8000 with up to 16 draft tokens, in blocks of 16
ADDED = 18432 * SLOTS + 16 * 2 * 32 * 8 * 128 * 2


@given(plans(tenants_from=1))
@settings(max_examples=80)
def test_what_it_adds_equals_the_definition(plan):
    p, speedup, served = letters(plan), plan.speedups[0], only(plan)
    s, laid = draft_letters(speedup), budget(plan, served, speedup)
    count = sum(n for n, _ in p["tenants"])
    more = sum(n * (kv_each(p, c, s["k"], s["own"]) - kv_each(p, c)) for n, c in p["tenants"]) / count
    held, _ = tenants(p, s["size"], s["k"], s["own"])
    assert laid.tenants == held
    assert laid.draft_kv_bytes == pytest.approx(held * more, abs=1)
    assert laid.target_kv_bytes == pytest.approx(held * tenants(p)[1], abs=1)
    parts = ("used_weights", "idle_weights", "draft", "reserve", "draft_kv", "target_kv", "unused")
    assert sum(getattr(laid, f"{part}_bytes") for part in parts) == laid.usable_bytes
    found = worth(plan, served, speedup)
    assume(found.without.pool_bytes > 0)
    at = min(count, held)
    assert found.held == at
    assert found.taken_bytes == pytest.approx(s["size"] + at * more, abs=1)
    assert found.pool_share == pytest.approx((s["size"] + at * more) / found.without.pool_bytes, rel=1e-6, abs=1e-9)


def test_without_a_speed_up_nothing_is_added():
    plan = read_plan(A100)
    laid = budget(plan, answer(plan).choices[0].served)
    assert (laid.draft_bytes, laid.draft_kv_bytes) == (0, 0)
    assert laid.target_kv_bytes == laid.kv_bytes > 0


def test_the_page_gives_weights_and_kv_at_the_tenants_it_names():
    page = succeeded("pool", "-", stdin=MIXTRAL.format(20, 3))
    pool = 72e9 - 3 * GIB - (46.7e9 - 0.26e9) - 2 * 0.26e9
    taken = 0.32e9 + 17 * ADDED
    assert (
        f"takes {taken / GIB:.2f} GiB, {100 * taken / pool:.3g} % of the pool: 0.30 GiB of weights, and 142.9 MiB "
        "(slots for 3 draft tokens in blocks of 16 and KV of its own) for each of the 17 tenants that fit with it, "
        "2.37 GiB; displaces 3 of 20 tenants"
    ) in page
    assert f"{taken / GIB:.2f} GiB, {100 * taken / pool:.3g} %" == "2.67 GiB, 13.1 %"
    page = succeeded("pool", "-", stdin=MIXTRAL.format(5, 1))
    assert (
        "142.9 MiB (slots for 1 draft token in blocks of 16 and KV of its own) for each of the 5 tenants that are"
        in page
    )
    assert "that are asked for, 0.70 GiB; displaces " in page
    assert "KV of its own) for one tenant, 0.14 GiB" in succeeded("pool", "-", stdin=MIXTRAL.format(1, 1))


def test_columns_give_both():
    row = json.loads(succeeded("pool", "-", "--json", stdin=MIXTRAL.format(20, 3)))["tables"]["pool_speedups"]["rows"][
        0
    ]
    assert row["held"] == row["tenants_with"] == 17
    assert row["draft_gib"] == pytest.approx(0.32e9 / GIB)
    assert row["draft_kv_gib"] == pytest.approx(17 * ADDED / GIB)
    assert row["taken_gib"] == row["draft_gib"] + row["draft_kv_gib"]
    assert row["pool_share"] == pytest.approx(row["taken_gib"] * GIB / (72e9 - 3 * GIB - 46.44e9 - 0.52e9))


def test_without_tenants_the_kv_is_said_to_be_missing():
    text = MIXTRAL.format(1, 3).replace('[[tenant]]\nname = "rag"\ncount = 1\ncontext_tokens = 8000\n', "")
    page = succeeded("pool", "-", stdin=text)
    assert "takes 0.30 GiB of weights, 1.47 % of the pool; KV of its own is not in that; at a full pool" in page


def test_the_bars_show_the_kv_of_drafts_by_itself():
    found = answer(read_plan(A100))
    rows = {(row["bar"], row["part"]): row["gib"] for row in memory_drawn(found).rows}
    draft = next(each for i, each in found.worths if i == found.chosen and each.speedup.name == "draft model 1.7B")
    assert rows["with draft model 1.7B", "its KV and slots"] == draft.having.draft_kv_bytes / GIB > 2
    assert rows["bf16 weights, bf16 KV", "its KV and slots"] == 0
    assert figures._said(draft.having) == "3 tenants\ndrafts 5.5 GiB"
    assert [name for name, *_ in figures.PARTS].index("draft_kv_bytes") == 4


def test_what_a_full_pool_reads_is_said_of_the_experts():
    plan = read_plan(A100)
    found = answer(plan)
    for choice in found.choices:
        assert choice.hit_share == pytest.approx(unique_share(choice.budget.tenants, 128, 8), rel=1e-12)
    rows = tuple(UniqueExperts(n, u, 0) for n, u in ((1, 8.0), (12, 40.0), (200, 100.0)))
    measured = answer(replace(plan, unique_experts=rows))
    assert measured.choices[0].hit_share == 40 / 128
    without = replace(plan.model, expert_parameters=None, experts=None, experts_per_token=None)
    assert answer(replace(plan, model=without)).choices[0].hit_share is None
    text = MIXTRAL.format(20, 3).replace("expert_parameters = 45.1e9\nexperts = 8\nexperts_per_token = 2\n", "")
    page = succeeded("pool", "-", stdin=text)
    assert "a batch uses more of them than one token, how many is not known: experts are not stated" in page
