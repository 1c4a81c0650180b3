"""One deployment that tenants share: against the twin, against one tenant alone, and as it is shown."""

import itertools
import json
from dataclasses import replace

import naive_levers as naive
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from levers_strategies import LEVERS, deployments, example, letters, plain, regimes, traffic
from test_cli import refused, succeeded

from oracle.errors import InputError
from oracle.levers.advised import NOISE
from oracle.levers.answer import answer
from oracle.levers.shared import share_deployment, shared_by
from oracle.levers.traffic_file import series_from_text

DEPLOYMENT = LEVERS / "deployment.toml"
D = example()
HEAD = "tenant,tokens,concurrency,prefix_share,repetitiveness,prompt_tokens,output_tokens,context_tokens\n"
ROWS = (
    "agent,100,24,.85,.92,12000,300,16384\nchat,400,64,.05,.05,600,400,16384\n"
    "batch,4000,2048,.35,.30,12288,1024,16384\n"
)
FEW = 400


def naive_shared(deployment, tenants, tokens):
    """Least cost without and with a cap, by pricing every configuration at every batch."""
    d, precisions = plain(deployment)
    ts = [letters(each) for each in tenants]
    C = sum(t["C"] for t in ts)
    context = sum(t["C"] * t["L_ctx"] for t in ts) / C
    mixed = [{**t, "L_ctx": context} for t in ts]
    free, capped = [], []
    for p, s, k in itertools.product(precisions, (0, 1), (0, 1)):
        K = naive.requests_that_fit(d, p, mixed[0])
        costs = [
            sum(w * sum(naive.cost(d, p, t, s, k, batch=B)) for w, t in zip(tokens, mixed, strict=True)) / sum(tokens)
            for B in (*range(1, int(min(C, K)) + 1), min(C, K))
            if K
        ]
        if costs:
            free.append(costs[-1])
            capped += costs
    return min(free, default=None), min(capped, default=None)


@given(deployments(most_precisions=2), st.lists(regimes(), min_size=2, max_size=3), st.data())
@settings(max_examples=25, deadline=None)
def test_the_common_setting_is_the_least_of_all(deployment, tenants, data):
    tenants = [each.having(concurrency=min(float(each.concurrency), FEW / 3)) for each in tenants]
    tokens = data.draw(st.lists(st.floats(1, 100), min_size=len(tenants), max_size=len(tenants)))
    free, capped = naive_shared(deployment, tenants, tokens)
    assume(free is not None)
    saved = 1 - capped / free
    assume(abs(saved - NOISE) > 1e-9)
    found = share_deployment(deployment, tenants, tokens)
    assert found.uncapped_ms == pytest.approx(free, rel=1e-9)
    assert found.cost_ms == pytest.approx(capped if saved > NOISE else free, rel=1e-9)
    assert (found.cap is not None) == (saved > NOISE)
    total = sum(each.tokens * each.cost_ms for each in found.tenants)
    assert total == pytest.approx(found.cost_ms, rel=1e-9)


def test_one_tenant_in_two_halves_is_one_tenant():
    at = traffic(300.0, 0.4, 0.35)
    halves = [at.having(concurrency=100.0), at.having(concurrency=200.0)]
    alone, found = answer(D, at), share_deployment(D, halves, None)
    assert found.uncapped == alone.joint.configuration()
    assert found.uncapped_ms == pytest.approx(float(alone.joint.cost_ms), rel=1e-12)
    assert (found.cap, found.configuration) == (float(alone.capped.batch), alone.capped.configuration())
    assert found.saved == pytest.approx(1 - float(alone.capped.cost_ms / alone.joint.cost_ms))
    runs = [(run.low, run.high, run.configuration) for run in found.by_concurrency]
    assert runs == [(run.low, run.high, run.configuration) for run in alone.by_concurrency]
    assert [each.requests for each in found.tenants] == pytest.approx([1 / 3, 2 / 3])


def test_without_tokens_tenants_count_by_their_requests():
    tenants = [traffic(10.0, r=0.9), traffic(30.0, r=0.1)]
    found, given_tokens = share_deployment(D, tenants, None), share_deployment(D, tenants, [1.0, 3.0])
    assert found.cost_ms == given_tokens.cost_ms
    assert (found.by_tokens, given_tokens.by_tokens) == (False, True)


def of_a_file(tokens, column=True):
    """Two tenants that want opposite levers, from a file with tokens or without that column."""
    head = HEAD if column else HEAD.replace("tokens,", "", 1)
    rows = (f"a,{tokens[0]!r},2,.9,.9,1000,300,2000", f"b,{tokens[1]!r},22,.1,.05,1000,300,2000")
    rows = rows if column else [row.replace(f",{each!r}", "", 1) for row, each in zip(rows, tokens, strict=True)]
    return shared_by(D, series_from_text(head + "\n".join(rows), "t.csv", {}))


@given(st.lists(st.integers(1, 9), min_size=2, max_size=2), st.integers(-40, 40))
@settings(max_examples=30, deadline=None)
def test_the_unit_of_tokens_changes_nothing(tokens, power):
    as_given, scaled = of_a_file(tokens), of_a_file([each * 2.0**power for each in tokens])
    assert (as_given.by_tokens, scaled.by_tokens) == (True, True)
    assert (scaled.configuration, scaled.cap, scaled.cost_ms) == (
        as_given.configuration,
        as_given.cap,
        as_given.cost_ms,
    )
    assert scaled.tenants == as_given.tenants


def test_one_token_each_is_not_no_tokens():
    ones, none = of_a_file([1, 1]), of_a_file([1, 1], column=False)
    assert [each.tokens for each in ones.tenants] == [0.5, 0.5]
    assert (none.by_tokens, [each.tokens for each in none.tenants]) == (False, pytest.approx([2 / 24, 22 / 24]))
    assert ones.configuration.speculation_on
    assert not none.configuration.speculation_on


def test_a_mean_request_that_does_not_fit_is_refused():
    small = replace(D, hbm_bytes=120e9, precisions=D.precisions[2:])
    with pytest.raises(InputError) as refusal:
        share_deployment(small, [traffic(2.0), traffic(2.0)], None)
    assert str(refusal.value) == (
        "no precision can be used for all tenants together: one request of 16384 tokens of context, their mean, does "
        "not fit; give more memory, a lower precision or shorter contexts"
    )


@pytest.fixture(scope="module")
def shown():
    return json.loads(succeeded("levers", DEPLOYMENT, "--traffic", "-", "--json", stdin=HEAD + ROWS))["tables"]


def test_the_joint_answer_stands_beside_each_tenant_s_own(shown):
    own = {row["name"]: row for row in shown["levers_regimes"]["rows"]}
    assert own["agent"]["precision"] == "FP8"
    assert {row["cap"] for row in own.values()} == {None}
    assert "each row is alone on a deployment of its own" in shown["levers_regimes"]["notes"][0]
    page = {row["fact"]: row for row in shown["levers_shared"]["rows"]}
    setting = page["set"]["setting"]
    assert (setting["precision"], setting["speculation_on"], setting["cache_on"]) == ("NVFP4", False, False)
    assert setting["cost_ms"] == pytest.approx(naive_shared(D, *_tenants())[0], rel=1e-9)
    ranges = page["flips with concurrency"]["ranges"]
    assert [(run["low"], run["high"]) for run in ranges] == [(1, 125), (126, 235), (236, None)]
    rows = {row["name"]: row for row in shown["levers_shared_tenants"]["rows"]}
    assert [row["tokens"] for row in rows.values()] == pytest.approx([100 / 4500, 400 / 4500, 4000 / 4500])
    assert rows["agent"]["own_ms"] == own["agent"]["cost_ms"]
    assert rows["agent"]["over_own"] > 2  # the two levers that save it most are off


def _tenants():
    rows = [line.split(",") for line in ROWS.splitlines()]
    found = [traffic(*map(float, row[2:])) for row in rows]
    return found, [float(row[1]) for row in rows]


def test_tokens_of_some_tenants_only_are_refused():
    rows = HEAD + ROWS.replace("chat,400", "chat,")
    error = refused("levers", DEPLOYMENT, "--traffic", "-", stdin=rows)
    assert "tokens are given for some tenants only; give them for all or for none" in error


def test_pictures_of_every_tenant(tmp_path):
    out = tmp_path / "out"
    rows = HEAD + ROWS[: ROWS.index("batch")]
    succeeded("levers", DEPLOYMENT, "--traffic", "-", "-o", out, stdin=rows)
    names = {"repetitiveness", "prefix-share", "precision", "matches", "decisions", "regret"}
    assert {path.name for path in out.glob("*.svg")} == {"shared.svg", *(f"{n}-{i}.svg" for n in names for i in (1, 2))}
    for path in out.glob("*.svg"):
        assert "model output for what was stated, not a measurement" in path.read_text("utf-8"), path.name
    succeeded("levers", DEPLOYMENT, "--traffic", LEVERS / "coding-agent.toml", "-o", out, "--overwrite")
    assert {path.name for path in out.glob("*.svg")} == {f"{n}.svg" for n in names}
