"""Planning a sweep: the numbers of rounds, the anchors, the order, and what the order is for."""

import csv
import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import statsmodels.api as sm
from click.testing import CliRunner
from latency_simulation import PUBLISHED_ALPHA, PUBLISHED_BETA0, close, executed, published_rounds
from scipy.stats import t as student

from oracle.cli.plan_sweep import plan_sweep as command
from oracle.errors import InputError
from oracle.latency.fit import fit_latency
from oracle.rounds import Rounds, load_rounds
from oracle.sweep.anchors import draw_anchors, equal_shares, places_of
from oracle.sweep.levers import LEVELS, lever_plan, read_levels
from oracle.sweep.needs import Pilot, Precision, Spread, error_after, need_of, pilot_of, spreads_at
from oracle.sweep.order import balance_of, interleaved
from oracle.sweep.plan import Request, plan_sweep
from oracle.traces import TraceFiles, Traces

TINY = Path(__file__).parents[1] / "cases" / "tiny-moe"

pytestmark = pytest.mark.filterwarnings("ignore::oracle.errors.InputWarning")


@pytest.fixture(scope="module")
def pilot():
    return pilot_of(load_rounds(TINY / "rounds.parquet"))


# ----- What each draft length needs


def test_spreads_of_a_pilot_equal_statsmodels(pilot):
    frame = pd.read_parquet(TINY / "rounds.parquet")
    for spread in pilot.spreads[1:]:
        rows = frame[frame["draft_length"] == spread.m - 1]
        X = sm.add_constant(rows[["unique_experts", "context_len"]].to_numpy(dtype=float))
        fit = sm.OLS(rows["target_ms"].to_numpy(), X).fit()
        left = sm.OLS(X[:, 1], X[:, [0, 2]]).fit().resid
        assert close([spread.residual_ms, spread.experts_sd], [math.sqrt(fit.scale), left.std()])
        assert close(spread.alpha_ms_per_expert, fit.params[1], fit.bse[1])
        assert close(spread.residual_ms / (spread.experts_sd * math.sqrt(len(rows))), fit.bse[1])
    assert (pilot.spreads[0].m, pilot.spreads[0].experts_sd, pilot.spreads[0].source) == (1, 0.0, "pilot")
    assert (pilot.rounds, pilot.clusters) == (6699, 39)


def test_the_formula_gives_back_the_pilots_own_clustered_errors(pilot):
    frame = pd.read_parquet(TINY / "rounds.parquet")
    result = fit_latency(Rounds.from_pandas(frame))
    ratios = []
    for row, spread in zip(result.separate.rows[1:], pilot.spreads[1:], strict=True):
        expected = error_after(spread, row.rounds, 39, pilot.clustering)
        ratios.append(expected / row.alpha_ms_per_expert.error_cr3)
    assert np.mean(ratios) == pytest.approx(1.0, abs=0.1)  # rho is pooled over m
    assert max(abs(np.array(ratios) - 1)) < 0.35


def test_rounds_needed_invert_the_expected_error():
    spread = Spread(5, 0.3, 1.7, 20.0, 0.25, "pilot")
    for clustering in (0.0, 0.01, 0.05):
        need = need_of(4, spread, Precision(0.012, kind="error"), 39, clustering)
        assert error_after(spread, need.rounds, 39, clustering) <= 0.012
        assert error_after(spread, need.rounds - 1, 39, clustering) > 0.012
    half = need_of(4, spread, Precision(0.1, relative=True), 39, 0.0)
    assert half.wanted_error == pytest.approx(0.025 / student.ppf(0.975, 38))
    assert half.rounds == math.ceil((0.3 / (1.7 * half.wanted_error)) ** 2)


def test_too_few_generations_are_no_matter_of_more_rounds():
    spread = Spread(5, 0.3, 1.7, 20.0, 0.25, "pilot")
    need = need_of(4, spread, Precision(0.005, kind="error"), 20, 0.05)
    alone = (0.3 / (1.7 * 0.005)) ** 2
    assert need.rounds is None
    assert need.clusters_at_least == math.ceil(alone * 0.05) + 1
    assert need_of(4, spread, Precision(0.005, kind="error"), need.clusters_at_least, 0.05).rounds is not None
    with pytest.raises(
        InputError, match=r"k = 4: no number of rounds from 20 generations reaches .* at least 64 gener"
    ):
        plan_sweep(
            Request((4,), precision=Precision(0.005, kind="error"), generations=20), Pilot((spread,), 9, 20, 0.05, {})
        )


def test_what_the_pilot_lacks_is_extrapolated_and_says_so():
    known = [Spread(3, 0.2, 1.0, 10.0, 0.2, "pilot"), Spread(7, 0.4, 2.0, 18.0, 0.4, "pilot")]
    one, same, between, beyond = spreads_at((0, 2, 3, 9), known)
    assert (one.experts_sd, one.source) == (0.0, "extrapolated: m = 3")
    assert same is known[0]
    assert (between.residual_ms, between.experts_sd, between.source) == (
        0.25,
        1.25,
        "extrapolated: between m = 3 and 7",
    )
    assert (beyond.experts_sd, beyond.source, beyond.extrapolated) == (2.0, "extrapolated: m = 7", True)
    plan = plan_sweep(Request((2, 3, 9), precision=Precision(0.02)), Pilot(tuple(known), 99, 20, 0.0, {}))
    assert plan.notes[0] == (
        "k = 3, 9: not in the pilot; spread and residual are extrapolated, so the precision there is a guess"
    )


def test_a_planned_precision_is_what_the_rounds_then_give():
    small = pilot_of(published_rounds(3_000, 39, seed=1))
    plan = plan_sweep(Request(tuple(range(1, 11)), precision=Precision(0.01, kind="error")), small)
    timed = fit_latency(published_rounds(plan.rounds, 39, seed=2)).separate
    for row, expected in zip(timed.rows, plan.expected, strict=True):
        assert expected.reached
        assert row.alpha_ms_per_expert.error_cr3 == pytest.approx(expected.error, rel=0.5)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"cluster": "q", "generation": "q"}, "pilot: one generation only, so its clustering is unknown"),
        ({"target_ms": 0.0}, "pilot: no verification round with a positive target_ms"),
        ({"unique_experts": 0.0}, "pilot: unique_experts varies at no m, so no alpha can be measured"),
    ],
)
def test_pilots_that_say_nothing_are_refused(change, said):
    frame = pd.read_parquet(TINY / "rounds-batched_mm.parquet").assign(**change)
    with pytest.raises(InputError, match=said):
        pilot_of(Rounds.from_pandas(frame))


def test_a_pilot_of_several_batch_sizes_is_refused():
    frame = pd.read_parquet(TINY / "rounds-batched_mm.parquet")
    frame["batch_size"] = np.arange(len(frame)) % 2 * 3 + 1
    with pytest.raises(InputError, match=r"pilot: rounds of several batch sizes \(1, 4\); plan each batch size"):
        pilot_of(Rounds.from_pandas(frame))


# ----- Anchors


def traces_of(lengths, categories, clusters):
    frame = pd.DataFrame(
        [
            {"generation": f"g{g}", "context_start": 100 * g, "category": c, "cluster": q}
            for g, (n, c, q) in enumerate(zip(lengths, categories, clusters, strict=True))
            for _ in range(n)
        ]
    )  # fmt: skip
    return Traces.from_pandas(frame.assign(match_kind="overlap", match_prob=0.5))


def test_anchors_are_spread_over_categories_clusters_generations_and_positions():
    traces = traces_of([110, 110, 110, 60, 12], ["a", "a", "a", "b", "b"], ["q", "q", "r", "s", "t"])
    places = places_of([traces], longest=10)
    anchors = draw_anchors(places, 40, seed=0)
    counts = pd.Series(anchors.generation).value_counts()
    assert pd.Series(anchors.category).value_counts().to_dict() == {"a": 20, "b": 20}
    assert counts["g0"] == counts["g1"] == 5
    assert counts["g2"] == 10
    assert (counts["g3"], counts["g4"]) == (18, 2)  # g4 has two positions where ten more fit behind
    assert len(set(zip(anchors.generation, anchors.position.tolist(), strict=True))) == 40
    start = {f"g{g}": 100 * g for g in range(5)}
    assert all(
        start[g] + t == L for g, t, L in zip(anchors.generation, anchors.position, anchors.context_len, strict=True)
    )
    third = sorted(t for g, t in zip(anchors.generation, anchors.position.tolist(), strict=True) if g == "g2")
    assert [t // 10 for t in third] == list(range(10))  # one in each tenth of the text


def test_anchors_leave_room_for_the_longest_draft():
    traces = traces_of([30, 8], ["a", "a"], ["q", "r"])
    places = places_of([traces], longest=10)
    assert (places.generation, places.too_short) == (("g0",), 1)
    every = draw_anchors(places, 20, seed=1)
    assert sorted(every.position.tolist()) == list(range(20))
    with pytest.raises(
        InputError, match="21 anchors are asked for, but the traces have 20 positions where a round can"
    ):
        draw_anchors(places, 21, seed=1)
    with pytest.raises(InputError, match="traces: none of 2 generations has more than 40 positions"):
        places_of([traces], longest=40)


def test_equal_shares_fill_what_there_is_room_for():
    shares = equal_shares(10, np.array([1, 9, 9]), np.random.default_rng(0))
    assert shares.sum() == 10
    assert shares[0] == 1
    assert sorted(shares[1:]) == [4, 5]


# ----- The order


def test_every_k_occurs_once_per_anchor_and_block_and_drift_cannot_hide_behind_k():
    order = interleaved(range(11), anchors=100, repeats=3, anchors_a_block=8, seed=5)
    frame = pd.DataFrame(vars(order))
    assert len(frame) == 11 * 100 * 3
    assert (frame.groupby(["repeat", "anchor", "draft_length"]).size() == 1).all()
    assert (frame.groupby(["block", "draft_length"]).size().unstack().nunique(axis=1) == 1).all()
    assert frame["block"].is_monotonic_increasing
    balance = balance_of(order)
    assert abs(balance.correlation) < 0.01
    assert all(abs(place - 0.5) < 0.01 for place in balance.mean_place.values())
    assert balance.closest_repeats > 0.4 * 1100  # half a pass, short of the two blocks themselves
    again = interleaved(range(11), anchors=100, repeats=3, anchors_a_block=8, seed=5)
    assert np.array_equal(order.draft_length, again.draft_length)
    other = interleaved(range(11), anchors=100, repeats=3, anchors_a_block=8, seed=6)
    assert not np.array_equal(order.draft_length, other.draft_length)


def test_round_trip_a_drifting_machine_gives_alpha_back_in_this_order_only():
    order = interleaved(range(1, 11), anchors=300, repeats=1, anchors_a_block=8, seed=0)
    cluster = np.char.add("q", (order.anchor % 39).astype(str))
    worst = {}
    for k_after_k in (False, True):
        rounds = executed(order.draft_length, order.anchor, cluster, drift_ms=0.5, k_after_k=k_after_k)
        fit = fit_latency(rounds)
        estimates = [row.alpha_ms_per_expert for row in fit.joint.rows]
        inside = [e.low <= PUBLISHED_ALPHA[m] <= e.high for m, e in enumerate(estimates, 2)]
        off = [
            row.beta0_ms.value + row.alpha_ms_per_expert.value * row.mean_unique_experts
            - PUBLISHED_BETA0[row.m] - PUBLISHED_ALPHA[row.m] * row.mean_unique_experts
            for row in fit.joint.rows
        ]  # fmt: skip
        worst[k_after_k] = np.ptp(off)
        if not k_after_k:
            assert sum(inside) >= 9
    assert worst[False] < 0.12  # ms: what is left of a drift of ± 0.5 ms
    assert worst[True] > 0.6  # an effect of K that is none


def test_the_rehearsal_says_the_same(pilot):
    plan = plan_sweep(Request(tuple(range(11)), precision=Precision(0.1, relative=True)), pilot)
    inside = [row.inside for row in plan.rehearsal if row.inside is not None]
    assert len(inside) == 10
    assert sum(inside) >= 8
    assert plan.rehearsal[0].estimate is None
    ours = max(abs(row.level_error_ms) for row in plan.rehearsal)
    assert ours < 0.1 * max(abs(row.level_error_k_after_k_ms) for row in plan.rehearsal)


def test_too_few_anchors_are_timed_again(pilot):
    plan = plan_sweep(Request((1, 2), anchors=100, precision=Precision(0.03)), pilot)
    need = plan.expected[0].need.rounds
    assert plan.repeats == math.ceil(need / 100) > 1
    assert all(row.reached for row in plan.expected)
    assert plan.balance.closest_repeats > 50
    assert (
        f"each round is timed {plan.repeats} times, since there are too few anchors; more anchors would be better"
        in plan.notes
    )


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (Request((1,)), "how many rounds\\? give --precision with --pilot, or a number of --anchors"),
        (Request((1,), precision=Precision(0.01)), "a precision needs a pilot"),
        (Request((1,), anchors=9, precision=Precision(0.05, True)), "--precision in percent of alpha needs a pilot"),
        (Request((1,), anchors=3_000_000), "the plan would hold 3,000,000 rounds, more than 2,000,000; ask for less"),
    ],
)
def test_requests_that_cannot_be_met_are_refused(request_, said):
    with pytest.raises(InputError, match=said):
        plan_sweep(request_)


def test_a_refused_precision_names_the_draft_length_that_asks_for_too_much():
    at = {2: 0.01, 3: 1.0, 4: 1.2}  # U hardly varies at m = 2
    spreads = tuple(Spread(m, 0.3, sd, 10.0, 0.1, "pilot") for m, sd in at.items())
    hint = r"k = 1 alone asks for so many; without it \d[\d,]* rounds of each k would do"
    for clustering, said in ((0.0, "the plan would hold"), (0.2, "no number of rounds from 40 generations")):
        pilot = Pilot(spreads, 900, 40, clustering, {})
        with pytest.raises(InputError, match=f"{said}.*{hint}"):
            plan_sweep(Request((1, 2, 3), precision=Precision(0.02 if not clustering else 0.3)), pilot)
    alike = tuple(Spread(m, 0.3, 0.001, 10.0, 0.1, "pilot") for m in (2, 3))
    with pytest.raises(InputError) as caught:
        plan_sweep(Request((1, 2), precision=Precision(0.02)), Pilot(alike, 900, 40, 0.0, {}))
    assert "alone asks" not in str(caught.value)


def test_given_spreads(pilot):
    given = Spread(0, 0.3, 1.5, 0.0, None, "given")
    with pytest.raises(InputError, match="a pilot and given spreads"):
        plan_sweep(Request((1,), anchors=5), pilot, given)
    with pytest.raises(InputError, match="say with --generations how many generations the rounds come from"):
        plan_sweep(Request((1,), precision=Precision(0.01)), None, given)
    plan = plan_sweep(Request((0, 1, 5), precision=Precision(0.02), generations=30), None, given)
    assert {row.need.rounds for row in plan.expected[1:]} == {
        math.ceil((0.3 / 1.5 * student.ppf(0.975, 29) / 0.02) ** 2)
    }
    assert plan.expected[0].error is None
    assert plan.notes[0].startswith("residual and spread are given, the same for every k of 1 or more")


# ----- Serving levers


def test_the_levers_are_a_randomised_split_plot():
    frame = lever_plan(LEVELS, (0, 1, 3), repeats=2, seed=0).to_pandas()
    cells = ["precision", "speculation", "draft_length", "cache", "concurrency", "prefix_sharing", "repetitiveness"]
    assert len(frame) == 3 * 3 * 2 * (5 * 4 * 3) * 2  # off, k = 1 and k = 3; the traffic cells; two repeats
    assert (frame.groupby(cells).size() == 2).all()
    assert (frame.groupby("session")[["precision", "draft_length", "cache"]].nunique() == 1).all(axis=None)
    assert set(zip(frame["speculation"], frame["draft_length"], strict=True)) == {("off", 0), ("on", 1), ("on", 3)}
    for name in ("concurrency", "prefix_sharing", "repetitiveness", "draft_length"):
        assert abs(frame["order"].corr(frame[name])) < 0.15
    assert not frame["session"].map(frame.groupby("session")["precision"].first()).is_monotonic_increasing


def test_levels_are_checked_all_at_once():
    assert read_levels(["concurrency=1, 64", "cache=on"]) == {**LEVELS, "concurrency": ("1", "64"), "cache": ("on",)}
    with pytest.raises(InputError) as caught:
        read_levels(
            [
                "speed=1",
                "cache=maybe",
                "concurrency=0.5",
                "prefix_sharing=40",
                "precision=",
                "repetitiveness=x",
                "cache=on,on",
            ]
        )
    assert caught.value.faults == (
        f"--level 'speed=1': is not LEVER=VALUE,VALUE; the levers are {', '.join(LEVELS)}",
        "--level cache: 'maybe' is neither off nor on",
        "--level concurrency: 0.5 is not a whole number of requests, 1 or more",
        "--level prefix_sharing: 40 is not a share between 0 and 1",
        "--level 'precision=': no values; name each once",
        "--level repetitiveness: 'x' is not a number",
        "--level 'cache=on,on': a value is repeated; name each once",
    )


# ----- The command


def run(*words):
    return CliRunner().invoke(command, [str(word) for word in words])


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".jsonl"])
def test_the_list_is_written_whole_and_read_back(tmp_path, suffix):
    path = tmp_path / f"plan{suffix}"
    done = run("--k", "0,2-3", "--anchors", 12, "--traces", TINY / "traces.parquet", "--seed", 7, "-o", path)
    assert done.exit_code == 0, done.output
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    if suffix == ".csv":
        rows = list(csv.DictReader(path.open()))
    elif suffix == ".jsonl":
        rows = [json.loads(line) for line in path.read_text().splitlines()]
    else:
        table = pq.read_table(path)
        rows = table.to_pylist()
        assert json.loads(table.schema.metadata[b"provenance"])["options"]["seed"] == 7
    assert [int(row["order"]) for row in rows] == list(range(36))
    assert {int(row["draft_length"]) for row in rows} == {0, 2, 3}
    assert list(rows[0]) == [
        "order", "block", "repeat", "draft_length", "anchor",
        "generation", "position", "context_len", "category", "cluster",
    ]  # fmt: skip
    lengths = {
        t.generation[g]: int(np.diff(t.offsets)[g])
        for t in TraceFiles(TINY / "traces.parquet")
        for g in range(t.generations)
    }
    assert all(int(row["position"]) + 3 < lengths[row["generation"]] for row in rows)


def test_tables_as_json():
    done = run("--pilot", TINY / "rounds.parquet", "--precision", "10%", "--json")
    assert done.exit_code == 0, done.output
    whole = json.loads(done.output)
    assert list(whole["tables"]) == ["sweep", "precision", "balance", "rehearsal"]
    facts = {row["fact"]: row["value"] for row in whole["tables"]["sweep"]["rows"]}
    assert facts["rounds"] == 11 * facts["anchors"]
    assert facts["seed"] == 0
    precision = whole["tables"]["precision"]["rows"]
    assert precision[0]["half_width"] is None
    assert all(row["half_width"] <= 0.1 * row["alpha_ms_per_expert"] * 1.001 for row in precision[1:])
    assert whole["tables"]["balance"]["notes"][0].startswith("correlation of k with the order: ")
    assert whole["provenance"]["inputs"][0]["name"] == "rounds.parquet"


def test_tables_as_text():
    done = run("--k", "1-2", "--anchors", 40, "--residual-sd", 0.3, "--experts-sd", 1.5, "--repeats", 2)
    assert done.exit_code == 0, done.output
    for line in ("rounds                    160", "times each round is timed 2", "seed                      0"):
        assert line in done.output
    assert "two repeats of a round are at least" in done.output
    assert (
        "intervals hold the truth (95 % are meant to); 60 % of the residual variance drifts over the run" in done.output
    )


def test_lever_runs(tmp_path):
    path = tmp_path / "runs.csv"
    done = run("--levers", "--level", "concurrency=1,8", "--k", "0,4", "--repeats", 2, "-o", path)
    assert done.exit_code == 0, done.output
    assert len(list(csv.DictReader(path.open()))) == 3 * 2 * 2 * (2 * 4 * 3) * 2
    assert "sessions (starts of the engine) 24" in done.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--k", "3-1", "--anchors", 5), "--k '3-1': 3-1 runs backwards; give draft lengths in rising order"),
        (("--k", "a", "--anchors", 5), "--k 'a': draft lengths are whole numbers or ranges, such as 0-10 or 1,2,4-6"),
        (("--k", "9999", "--anchors", 5), "--k '9999': 9999 goes beyond 1024; give draft lengths in rising order"),
        (("--precision", "x"), "--precision 'x': is neither ms per expert (0.01) nor percent (5%)"),
        (("--precision", "-1"), "--precision '-1': must be above 0"),
        (("--residual-sd", "1"), "--residual-sd and --experts-sd go together: alpha's error needs both"),
        (("--level", "cache=on"), "--level gives values of the serving levers; it goes with --levers"),
        (("--levers", "--anchors", 4), "--levers lists serving runs, to which --anchors do not apply; leave them out"),
        (
            ("--anchors", 4, "-o", "plan.txt"),
            "plan.txt: a plan is written as .csv, .parquet, .jsonl; choose one of these",
        ),
    ],
)
def test_refusals(words, said):
    done = run(*words)
    assert isinstance(done.exception, InputError)
    assert said in str(done.exception)
