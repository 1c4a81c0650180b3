"""Every benchmark at its smallest size: all rows there, all figures usable, all rivals in agreement with us."""

import importlib.util
import json
import math
import platform
import re
import shutil
from importlib import import_module
from pkgutil import iter_modules

import numpy as np
import pytest

import kernels
from benchmarks import compilation, contests, inputs, quantecon_rival, rivals, routing, run, solving, twin
from benchmarks.limits import Limits, Needs
from benchmarks.timing import Timing, interleaved
from oracle.errors import InputError
from oracle.solver import solve

KERNELS = (
    "survival_along",
    "survival_by_depth",
    "new_experts 48 x 8 of 128",
    "new_experts 60 x 8 of 256",
    "new_experts 48 x 10 of 512",
    "unique_experts",
    "windows",
    "solve_one",
    "solve_many",
    "solve_lanes",
    *(f"{name}, {many}" for many in ("12 policies", "1 policy") for name in ("policy_marginal", "expected_rounds")),
    "visit_probability",
    "add_up_discarded, 12 policies",
    "summarise",
    "continuation_credit",
    "scale_path",
    "stop, 100 thresholds",
    "window_masks",
    "batch_unions",
    "batch_unions, 16 left out",
    "stack_positions",
    "look_up",
    "count_rounds",
    "count_matches",
)
IN_NUMPY = (
    "survival_along",
    "survival_by_depth",
    "unique_experts",
    *(name for name in KERNELS if name.partition(",")[0] in ("policy_marginal", "expected_rounds", "batch_unions")),
    "visit_probability",
    "add_up_discarded, 12 policies",
    "summarise",
    "continuation_credit",
    "count_matches",
)
RIVALS = {
    **{name: {"NumPy"} for name in IN_NUMPY},
    "windows": {"Python sets", "NumPy one-hot", "NumPy bit masks"},
    "new_experts 48 x 8 of 128": {"C++"},
    "new_experts 60 x 8 of 256": {"C++"},
    "new_experts 48 x 10 of 512": {"C++"},
    "solve_one": {"NumPy", "C++", "plain Python", "QuantEcon"},
    "solve_many": {"one by one"},
    "solve_lanes": {"C++", "a single solve"},
    "scale_path": {"a sweep"},
    "stop, 100 thresholds": {"one by one", "NumPy"},
    "window_masks": {"NumPy", "C++"},
    "batch_unions": {"NumPy", "C++"},
    "batch_unions, 16 left out": {"NumPy", "C++"},
    "stack_positions": {"an LRU cache in Python", "C++"},
    "look_up": {"Python dictionary", "NumPy"},
    "count_rounds": {"plain Python"},
}
NEEDS = Needs(8.0, 4.0, "floating")
LIMITS = Limits(1.0, {"floating": 1.0, "integer": 1.0})
MACHINE = ("read bandwidth", "peak, floating", "peak, integer")
COMPILED = ("compile, empty cache", "compile, warm cache")
GROUPS = [*run.CONTESTS, compilation.GROUP]  # the others have tests of their own


@pytest.fixture(scope="module")
def told() -> list[str]:
    return []


@pytest.fixture(scope="module")
def report(told: list[str]) -> run.BenchReport:
    return run.measure("smallest", only=GROUPS, progress=told.append)


def test_every_row_is_there_once(report: run.BenchReport) -> None:
    names = [row.name for row in report.rows]
    rivals_named = [f"{kernel} / {rival}" for kernel, found in RIVALS.items() for rival in found]
    assert sorted(names) == sorted([*MACHINE, *KERNELS, *rivals_named, *COMPILED])


def test_every_kernel_is_measured(report: run.BenchReport) -> None:
    modules = (import_module(f"kernels.{module.name}") for module in iter_modules(kernels.__path__))
    public = {name for module in modules for name, thing in vars(module).items() if hasattr(thing, "py_func")}
    public = {name for name in public if not name.startswith("_")}
    assert len(public) > 15
    assert public <= {re.split("[ ,]", row.name)[0] for row in report.rows}


def test_progress_names_the_groups_in_the_order_of_the_work(report: run.BenchReport, told: list[str]) -> None:
    assert [what for what in told if ": " not in what] == ["what this machine can do", *GROUPS]
    assert [what.partition(": ")[2] for what in told if ": " in what] == list(KERNELS)
    assert list(dict.fromkeys(row.group for row in report.rows)) == ["bandwidth", *GROUPS]


def test_figures_are_positive_finite_and_ordered(report: run.BenchReport) -> None:
    missing = {"C++": shutil.which("g++") is None, "QuantEcon": importlib.util.find_spec("quantecon") is None}
    for row in report.rows:
        if row.value is None:
            assert missing[row.name.rpartition(" / ")[2]], row
            assert row.note in ("no compiler", "not installed")
            continue
        assert row.least is not None
        assert row.most is not None
        assert 0 < row.least <= row.value <= row.most < math.inf, row
        assert row.runs >= 1
        figures = (row.per_second, row.ns_per_position, row.gb_per_s, row.bandwidth_share, *row.ratios.values())
        assert all(figure is None or 0 < figure < math.inf for figure in figures), row


def test_kernels_say_what_they_take_and_how_they_compare(report: run.BenchReport) -> None:
    machine = report.machine
    for name in KERNELS:
        row = report.row(name)
        assert row.unit == f"ns/{row.of}"
        assert row.positions is not None
        assert row.ns_per_position == row.value
        assert row.per_second == pytest.approx(1e9 / row.ns_per_position)
        assert row.gb_per_s == pytest.approx(row.bytes_per_position / row.ns_per_position)
        assert row.gop_per_s == pytest.approx(row.operations_per_position / row.ns_per_position)
        assert row.bandwidth_share == pytest.approx(row.gb_per_s / machine.read_bandwidth_gb_per_s)
        shares = {
            "memory": row.bandwidth_share,
            "arithmetic": row.gop_per_s / machine.peak_gop_per_s[row.operations_are],
        }
        assert row.limit_share == pytest.approx(max(shares.values()))
        assert shares[row.bound_by] == max(shares.values())
        assert row.limit_ns_per_position == pytest.approx(row.limit_share * row.value)
        absent = {r for r in RIVALS.get(name, set()) if report.row(f"{name} / {r}").value is None}
        assert set(row.ratios) == RIVALS.get(name, set()) - absent


def test_the_report_is_plain_data(report: run.BenchReport) -> None:
    plain = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert plain["size"] == "smallest"
    assert plain["machine"]["cores"] >= 1
    assert all(plain["machine"][name] for name in ("cpu", "python", "numpy", "numba", "pyarrow"))
    assert [row["name"] for row in plain["rows"]] == [row.name for row in report.rows]


def test_only_some_groups() -> None:
    report = run.measure("smallest", only=["survival"])
    assert [row.name for row in report.rows] == [
        *MACHINE,
        "survival_along",
        "survival_along / NumPy",
        "survival_by_depth",
        "survival_by_depth / NumPy",
    ]
    assert report.checks == ()


def test_unknown_group_and_size_are_refused() -> None:
    with pytest.raises(InputError, match=r"no benchmarks called solving; there are survival, windows, solve, "):
        run.measure("smallest", only=["solving"])
    with pytest.raises(InputError, match="no benchmark size 'huge'; there are smallest, quick, full"):
        run.measure("huge")  # type: ignore[arg-type]


def test_lanes_are_vectorised(report: run.BenchReport) -> None:
    packed = solving.packed_instructions()
    assert (packed is None) == (platform.machine() not in ("x86_64", "AMD64", "aarch64", "arm64"))
    assert packed is None or packed > 0
    figures = report.row("solve_lanes").figures
    assert figures.get("packed instructions") == packed
    assert solving.lanes_vectorised(packed, figures["single solves"])
    assert not report.failed


def test_lanes_are_judged_by_instructions_and_by_the_clock() -> None:
    assert solving.lanes_vectorised(None, 9.0)
    assert solving.lanes_vectorised(42, 9.0)
    assert not solving.lanes_vectorised(0, 9.0)
    assert not solving.lanes_vectorised(None, 21.0)
    assert not solving.lanes_vectorised(42, 21.0)


def test_a_rival_that_disagrees_stops_the_run() -> None:
    def wrong() -> None:
        np.testing.assert_array_equal([1.0], [2.0])

    contest = contests.Contest(
        "ours", "nothing", NEEDS, (contests.Bout(1, int, {"theirs": contests.Rival(int, wrong)}),)
    )
    with pytest.raises(AssertionError):
        list(contests.rows_of(contest, "solve", LIMITS, rounds=1, budget_s=0.0))


def test_plain_python_finds_our_values_and_no_others() -> None:
    few = inputs.problem_of(1)
    model = inputs.costs()
    value, draft_length = rivals.solve_in_python(
        [*few.survival[:-1, 0].tolist(), float(few.to_end[-1])],
        few.unique_experts.tolist(),
        few.context_len.tolist(),
        *(c.tolist() for c in (model.base_ms, model.alpha_ms, model.context_ms)),
    )
    np.testing.assert_allclose(value, solving.values_of(few, model)[0], rtol=1e-11)
    np.testing.assert_array_equal(draft_length, solve(few, model).draft_length)
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(value, solving.values_of(few, inputs.costs(1.001))[0], rtol=1e-11)


def test_quantecon_finds_our_values_at_the_end_of_a_text_too() -> None:
    few = inputs.problem_of(1)
    value = quantecon_rival.solver(few, inputs.costs())()
    np.testing.assert_allclose(value, solving.values_of(few, inputs.costs())[0], rtol=1e-11)


def test_without_a_compiler_the_twin_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(twin, "_COMPILERS", ("no-such-compiler",))
    assert twin.build.__wrapped__() == "no compiler"
    monkeypatch.setattr(twin, "build", lambda: "no compiler")
    contest = next(iter(solving.contests(1, 1)))
    assert contest.absent["C++"] == "no compiler"
    rows = list(contests.rows_of(contest, "solve", LIMITS, rounds=1, budget_s=0.0))
    absent = next(row for row in rows if row.name == "solve_one / C++")
    assert absent.value is None
    assert absent.note == "no compiler"
    assert next(iter(routing.contests(1))).absent == {"C++": "no compiler"}


def test_timing_takes_turns_after_one_uncounted_run() -> None:
    turns: list[str] = []
    timings = interleaved({"a": lambda: turns.append("a"), "b": lambda: turns.append("b")}, rounds=4, budget_s=60.0)
    assert turns == ["a", "b"] * 5
    assert len(timings["a"].seconds) == 4
    short = interleaved({"a": lambda: None}, rounds=50, budget_s=0.0)
    assert len(short["a"].seconds) == 3


def test_timing_ratio_pairs_the_rounds() -> None:
    assert Timing((2.0, 8.0, 3.0)).over(Timing((1.0, 4.0, 1.0))) == 2.0
    assert (Timing((2.0, 8.0, 3.0)).median, Timing((2.0, 8.0, 3.0)).fastest) == (3.0, 2.0)


def test_routing_names_distinct_experts_in_a_layer() -> None:
    for target in inputs.ROUTINGS:
        ids = inputs.routing_ids(np.random.default_rng(0), target, 2, 16)
        assert ids.shape == (32, target.layers, target.top_k)
        assert ids.dtype == target.dtype
        assert ids.max() < target.num_experts
        ordered = np.sort(ids, axis=2)
        assert (ordered[:, :, 1:] != ordered[:, :, :-1]).all()
