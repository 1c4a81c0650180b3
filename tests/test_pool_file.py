"""Memory plans typed by hand: what is read, units, and every fault in words, all at once."""

import copy
import functools
import json
import re
import tomllib
from pathlib import Path
from unittest import mock

import pytest
from pool_strategies import POOL

from oracle.errors import InputError
from oracle.pool.answer import answer
from oracle.pool.kv_cache import grouped_heads, latent
from oracle.pool.plan import GIB, Memory
from oracle.pool.plan_file import plan_from_text, read_plan
from oracle.pool.unique_experts import UniqueExperts
from oracle.summaries.pool import pool_tables
from oracle.tables import render

TOML = (POOL / "a100.toml").read_text("utf-8")
HEAD = 'format = "draft-oracle/pool"\nversion = 1\n'
BARE = HEAD + "[hardware]\npool_gib = 4\n"
KV = BARE + '[[tenant]]\nname = "t"\ncount = 2\ncontext_tokens = 100\n'


def faults_of(text: str) -> tuple[str, ...]:
    with pytest.raises(InputError) as refusal:
        plan_from_text(text, "p.toml")
    return refusal.value.faults


@pytest.mark.parametrize("path", sorted(POOL.glob("*.toml")), ids=lambda path: path.stem)
def test_every_shipped_plan_is_read(path: Path) -> None:
    assert read_plan(path).memory.usable_bytes > 0


def test_units_are_what_their_names_say():
    def memory(text):
        return plan_from_text(HEAD + f"[hardware]\n{text}\n" + '[model]\nparameters = 1\n[[precision]]\nname = "b"\n'
                              "bytes_per_value = 1\n", "p").memory  # fmt: skip

    assert memory("usable_gib = 2\nreserve_gib = 0.5") == Memory(2 * GIB, GIB // 2)
    assert memory("usable_gb = 2") == Memory(2_000_000_000)
    assert memory("hbm_gb = 80\nusable_share = 0.9") == Memory(72_000_000_000)
    assert memory("hbm_gib = 4\nusable_share = 0.5") == Memory(2 * GIB)
    assert plan_from_text(BARE, "p").memory == Memory(4 * GIB, is_pool=True)
    assert read_plan(POOL / "a100.toml").timing.bandwidth_bytes_per_s == 2.039e12
    assert read_plan(POOL / "post-pool.toml").speedups[0].extra_bytes == GIB


def test_json_says_the_same_as_toml():
    tree = {
        "format": "draft-oracle/pool",
        "version": 1,
        "hardware": {"usable_gib": 28.7},
        "model": {"parameters": 26e9, "active_parameters": 4e9},
        "precision": [{"name": "bf16", "bytes_per_value": 2}, {"name": "FP8", "bytes_per_value": 1}],
    }
    assert plan_from_text(json.dumps(tree), "p.json") == read_plan(POOL / "post.toml")


def test_shapes_of_attention():
    precision = '[[kv_precision]]\nname = "b"\nbytes_per_value = 2\n'
    gqa = (
        "[kv]\nlayers = 48\nkv_heads = 4\nhead_dim = 128\nwindow_layers = 40\nwindow_tokens = 512\nblock_tokens = 16\n"
    )
    assert plan_from_text(KV + gqa + precision, "p").kv == grouped_heads(48, 4, 128, 40, 512, 16)
    mla = "[kv]\nlayers = 61\nlatent_dim = 512\nrope_dim = 64\n"
    assert plan_from_text(KV + mla + precision, "p").kv == latent(61, 512, 64)
    assert plan_from_text(KV + "[kv]\nbytes_per_token = 70272.5\n", "p").kv.values(10) == 702725


def test_all_faults_of_a_plan_at_once():
    text = TOML.replace("hbm_gb = 80", 'hbm_gb = "80"\ncolour = 1').replace("usable_share = 0.9", "usable_share = 90")
    text = text.replace("active_parameters = 3.3e9", "active_parameters = 33e9").replace("experts = 128\n", "")
    text = text.replace("values_per_scale = 16384", "values_per_scale = 0").replace("head_dim = 128", "head_dim = 0")
    text = text.replace("context_tokens = 4096", "context_tokens = 4.5").replace("acceptance = 0.75", "acceptance = 75")
    text = text.replace("acceptance = 0.70", "acceptance_length = 5.5").replace("draft_length = 4", "", 1)
    text = text.replace("bandwidth_gb_per_s = 2039", "").replace("[16, 24,", "[24, 16,").replace("0.1]", "0.6]")
    assert faults_of(text) == (
        "p.toml: hardware.colour is not a key of a memory plan; known here: usable_gib, usable_gb, hbm_gib, hbm_gb, "
        "usable_share, pool_gib, reserve_gib",
        "p.toml: hardware.hbm_gb is text; it is a number",
        "p.toml: tenant 1: context_tokens is 4.5; it is a whole number",
        "p.toml: speedup 1: draft_length is missing; add it",
        "p.toml: kv.head_dim is 0; it is a whole number from 1 to 1,000,000,000",
        "p.toml: hardware.usable_share is 90; it is a finite number at least 0 and at most 1; a percentage is written "
        "as a fraction: 0.9",
        "p.toml: precision FP8: values_per_scale is 0; it is a whole number from 1 to 1,000,000,000",
        "p.toml: model.active_parameters is 3.3e+10, more than the 3.05e+10 parameters that there are",
        "p.toml: model: expert_parameters, experts_per_token without the others; expert_parameters, experts and "
        "experts_per_token go together",
        "p.toml: speedup draft model 1.7B: acceptance is 75; it is a finite number at least 0 and at most 1; a "
        "percentage is written as a fraction: 0.75",
        "p.toml: speedup EAGLE-3 head: acceptance_length is 5.5; a round of 4 draft tokens emits from 1 to 5 tokens, "
        "the bonus token included",
        "p.toml: timing: give either bandwidth_gb_per_s or measured steps (step_base_ms, step_ms_per_tenant)",
        "p.toml: early_exit.exit_layers[1] is 16 after 24; layers rise strictly",
        "p.toml: early_exit.probabilities sum to 1.1; tokens leave once, so the sum is at most 1",
    )


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", 'p.toml: format and version are None, None; a memory plan says format = "draft-oracle/pool", version = 1'),
        ("= 3", "p.toml: not TOML (Invalid statement (at line 1, column 1)); mend it there, or give JSON"),
        (HEAD, "p.toml: hardware is missing; add it"),
        (
            HEAD + "[hardware]\n",
            "p.toml: hardware: no size; give one of usable_gib, usable_gb, pool_gib, or hbm_gib or hbm_gb with "
            "usable_share",
        ),
        (
            HEAD + "[hardware]\nusable_gib = 3\npool_gib = 3\n",
            "p.toml: hardware: usable_gib, pool_gib; give one of usable_gib, usable_gb, pool_gib, or hbm_gib or hbm_gb "
            "with usable_share",
        ),
        (
            HEAD + "[hardware]\nhbm_gb = 80\n",
            "p.toml: hardware: usable_share goes with hbm_gib or hbm_gb, and they with it; give both or the usable "
            "size",
        ),
        (HEAD + "[hardware]\npool_gib = nan\n", "p.toml: hardware.pool_gib is nan; it is a finite number"),
        (
            HEAD + "[hardware]\nusable_gib = 3\n",
            "p.toml: model is missing; add [model] with parameters, or give pool_gib, what an engine leaves for KV",
        ),
        (
            BARE + "reserve_gib = 1\n",
            "p.toml: hardware: the reserve is taken off already where the pool is given; leave one of them out",
        ),
        (
            KV,
            "p.toml: kv is missing; add [kv] with the shape of the attention or bytes_per_token",
        ),
        (
            KV + "[kv]\nlayers = 5\n",
            "p.toml: kv has no shape; give layers, kv_heads and head_dim (grouped heads), or layers, latent_dim and "
            "rope_dim (latent attention), or bytes_per_token",
        ),
        (
            KV + "[kv]\nlayers = 5\nkv_heads = 1\nhead_dim = 8\nwindow_layers = 6\nwindow_tokens = 8\n",
            "p.toml: kv.window_layers is 6, more than the 5 layers that there are",
        ),
        (
            KV + "[kv]\nbytes_per_token = 5\n[[kv_precision]]\nname = 'b'\nbytes_per_value = 2\n",
            "p.toml: kv_precision: kv.bytes_per_token holds its precision already; give the shape of the attention",
        ),
        (
            KV + "[kv]\nbytes_per_token = 5\n[timing]\nstep_base_ms = 5\n",
            "p.toml: timing: step_base_ms and step_ms_per_tenant go together; give both or none",
        ),
        (
            BARE + "[timing]\nstep_base_ms = 5\nstep_ms_per_tenant = 1\nverify_ms_per_token = 1\nkv_read_share = 0.5\n",
            "p.toml: timing: measured steps hold kv_read_share, verify_ms_per_token already; leave out one or the ",
        ),
        (
            BARE + "[[speedup]]\nname = 'a'\ndraft_length = 2\nround_base_ms = 5\nround_ms_per_tenant = 1\n"
            "round_host_ms = 1\n",
            "p.toml: speedup a: measured rounds hold round_host_ms already; leave out one or the other",
        ),
        (
            TOML.replace("expert_parameters = 29.0e9", "expert_parameters = 1e9"),
            "p.toml: model.active_parameters is 3.3e+09, and what is outside the experts with 8 of 128 experts makes "
            "2.96e+10; expert_parameters are those of all experts of all layers",
        ),
        (
            TOML.replace("scale_bytes = 1\n", "scale_bytes = 1\nverify_ms_per_token = -1\n"),
            "p.toml: precision NVFP4: verify_ms_per_token is -1; it is a finite number at least 0",
        ),
        (
            TOML.replace("scale_bytes = 1\n", "scale_bytes = 1\nverify_ms_per_token = 1\n")
            .replace("bandwidth_gb_per_s = 2039", "step_base_ms = 5\nstep_ms_per_tenant = 1")
            .replace("verify_ms_per_token = 0.042", ""),
            "p.toml: precision NVFP4: measured steps hold verify_ms_per_token already; leave out one or the other",
        ),
        (
            KV + "[kv]\nbytes_per_token = 5\n[timing]\nbandwidth_gb_per_s = 5\n",
            "p.toml: timing: bytes that a step reads need a [model]; add it, or give measured steps",
        ),
        (
            BARE + "[[speedup]]\nname = 'a'\ndraft_length = 2\nacceptance_length = 3.5\n",
            "p.toml: speedup a: acceptance_length is 3.5; a round of 2 draft tokens emits from 1 to 3 tokens, the "
            "bonus token included",
        ),
        (
            BARE + "[[speedup]]\nname = 'a'\ndraft_length = 2\nacceptance_length = 2\nacceptance = 0.5\n",
            "p.toml: speedup a: acceptance and acceptance_length are two forms of the same; leave one of them out",
        ),
        (
            BARE + "[[speedup]]\nname = 'a'\ndraft_length = 2\n" * 2,
            "p.toml: speedup a is there 2 times; names are unique",
        ),
        (
            BARE + "[speedup]\nname = 'a'\n",
            "p.toml: speedup is an object; it is a list of tables, each begun by [[speedup]]",
        ),
        (
            BARE + "[early_exit]\nlayers = 4\nexit_layers = [1, 5]\nprobabilities = [0.7, 0.7]\n",
            "p.toml: early_exit.exit_layers[1] is 5; it is a whole number from 1 to 4",
        ),
        (
            BARE + "[early_exit]\nlayers = 4\nexit_layers = [1, 3]\nprobabilities = [0.7, 0.7]\n",
            "p.toml: early_exit.probabilities sum to 1.4; tokens leave once, so the sum is at most 1",
        ),
        (
            BARE + "[early_exit]\nlayers = 4\nexit_layers = [3]\nprobabilities = [0.7, 0.2]\n",
            "p.toml: early_exit.exit_layers has 1 values and probabilities has 2; they go together one by one",
        ),
    ],
)
def test_plans_that_are_refused(text: str, fault: str) -> None:
    found = faults_of(text)
    assert any(each.startswith(fault) for each in found), found


def test_a_name_cannot_write_to_the_terminal():
    text = BARE + '[[speedup]]\nname = "a\\u001b[31m"\ndraft_length = 0\n'
    assert faults_of(text) == ("p.toml: speedup a\\x1b[31m: draft_length is 0; it is a whole number from 1 to 128",)


ODD = (True, "x", "", [], {}, [{}], -1, 0, 1e-300, 1e300, 10**400, float("nan"), 0.5, 3, [-1], ["x"])


def places(tree, path=()):
    """Every place of a tree of tables and lists."""
    for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
        yield (*path, key)
        if isinstance(value, dict | list):
            yield from places(value, (*path, key))


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: repr(odd)[:12])
def test_an_odd_value_anywhere_is_answered_or_refused(odd):
    whole = tomllib.loads(TOML)
    refusals = 0
    for *path, key in places(whole):
        tree = copy.deepcopy(whole)
        at = functools.reduce(lambda branch, step: branch[step], path, tree)
        at[key] = odd
        with mock.patch("oracle.pool.plan_file.tree_from_text", lambda _text, _source, tree=tree: tree):
            try:
                text = render(pool_tables(answer(plan_from_text("", "p.toml"))))
            except InputError:
                refusals += 1
                continue
        assert not re.search(r"\bnan\b", text), (path, key)
    assert refusals > 20


MOE = HEAD + (
    "[hardware]\nusable_gib = 9\n[model]\nparameters = 1e9\nexpert_parameters = 8e8\nexperts = 64\n"
    "experts_per_token = 4\n[[precision]]\nname = 'b'\nbytes_per_value = 2\n"
)


def measured(*rows: tuple[float, float]) -> str:
    return "".join(f"[[unique_experts]]\ntokens = {n}\nexperts = {u}\n" for n, u in rows)


def test_measured_unique_experts_are_read():
    plan = plan_from_text(MOE + measured((2, 6.5), (8, 17)), "p")
    assert plan.unique_experts == (UniqueExperts(2, 6.5), UniqueExperts(8, 17))
    own = plan_from_text(MOE + measured((8, 17)) + "draft_length = 0\n" + measured((2, 5)) + "draft_length = 1\n", "p")
    assert own.unique_experts == (UniqueExperts(8, 17, 0), UniqueExperts(2, 5, 1))


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (MOE + measured((2, 9)), "p.toml: unique_experts 1: experts is 9; 2 tokens touch from 4 to 8"),
        (MOE + measured((99, 65)), "p.toml: unique_experts 1: experts is 65; 99 tokens touch from 4 to 64"),
        (MOE + measured((4, 9), (2, 7)), "p.toml: unique_experts 2: tokens rise strictly and experts never fall"),
        (
            MOE + measured((4, 9)) + "draft_length = 129\n",
            "p.toml: unique_experts 1: draft_length is 129; it is a whole number from 0 to 128",
        ),
        (BARE + measured((4, 9)), "p.toml: unique_experts: the model's experts are not stated; add them"),
        (MOE + measured((2.5, 7)), "p.toml: unique_experts 1: tokens is 2.5"),
    ],
)
def test_unique_experts_that_no_routing_gives(text: str, fault: str) -> None:
    found = faults_of(text)
    assert any(each.startswith(fault) for each in found), found
