"""What `draft-oracle bench` prints: what must hold, tables that fit a page, and everything in JSON."""

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner

from benchmarks import clustering, path, run, tables
from benchmarks.checks import checks_of
from benchmarks.report import BenchReport, Machine, Row
from oracle.cli import bench
from oracle.cli.main import group
from oracle.tables import render

WIDEST = 150  # characters of a line, as README cuts it
MACHINE = Machine("a processor", 2, "3", "2", "0", "26", 30.0, {"floating": 40.0, "integer": 30.0})


def timed(name: str, group: str = "solve", **more) -> Row:
    return Row(name, group, "what", "ns/position", 12_345.678, 12_000.0, 13_000.0, 9, positions=1000, **more)


ROWS = (
    Row("read bandwidth", "bandwidth", "one core reads", "GB/s", 30.0, 29.0, 30.0, 9),
    Row("peak, floating", "bandwidth", "one core, float64 products and sums", "Gop/s", 40.0, 39.0, 40.0, 9),
    timed("solve_one", ratios={"C++": 0.8, "plain Python": 1234.5}, per_second=81e6, note="a; b"),
    timed("solve_one / C++", note="g++"),
    timed("solve_one / plain Python"),
    Row("solve_one / QuantEcon", "solve", "what", "ns/position", note="not installed"),
    timed("solve_lanes", ratios={"C++": 0.7}, figures={"single solves": 5.5, "packed instructions": 42.0}, note="b"),
    timed("solve_lanes / C++"),
    timed("path, 1,000 positions", "path", figures={"seconds": 0.1, "peak_mb": 300.0, "loaded_mb": 250.0}),
    replace(timed("path, 9,000 positions", "path", figures={"peak_mb": 600.5}), positions=9000),
    Row(
        path.LINE,
        "path",
        "line",
        "ns/position",
        5.0,
        5.0,
        5.0,
        3,
        figures={"r_squared": 0.98, "largest_deviation": 0.2},
    ),
    timed(clustering.LOCAL, "cluster", ratios={"Ray": 2.5}, figures={"same_bytes": 0.0}),
    timed(f"{clustering.LOCAL} / Ray", "cluster", note="2 workers; OTHER BYTES than one process"),
)


def judged(rows=ROWS, clock_counts=True):
    return {check.name: check for check in checks_of(rows, clock_counts)}


def report_of(rows=ROWS) -> BenchReport:
    return BenchReport("quick", MACHINE, tuple(rows), checks_of(rows, clock_counts=True))


def test_what_must_hold_is_judged_from_the_rows():
    found = {name: (check.passed, check.found, check.fails_the_run) for name, check in judged().items()}
    assert found == {
        "the loop over cost models is vectorised": (True, "5.5 single solves; 42 packed instructions", True),
        "solve_one beside g++ -O3 -march=native": (True, "1.25 times", False),
        "solve_lanes beside g++ -O3 -march=native": (False, "1.43 times", False),
        "time is linear in positions": (False, "R² 0.98000; no size off by more than 20.0%", False),
        "memory does not grow with the trace": (False, "600 MB: path, 9,000 positions", True),
        "Ray beside one process": (False, "other bytes", True),
    }


def test_times_that_mean_nothing_are_not_judged():
    found = judged(clock_counts=False)
    unjudged = [name for name, check in found.items() if check.passed is None]
    assert unjudged == [
        "solve_one beside g++ -O3 -march=native",
        "solve_lanes beside g++ -O3 -march=native",
        "time is linear in positions",
    ]
    assert {found[name].found for name in unjudged} == {"not judged: times of this size mean nothing"}


def test_without_a_twin_or_a_measurement_nothing_is_judged():
    assert judged([replace(ROWS[2], ratios={})])["solve_one beside g++ -O3 -march=native"].passed is None
    assert judged(ROWS[:2]) == {}


@pytest.mark.parametrize(
    "figures",
    [{"single solves": 21.0, "packed instructions": 42.0}, {"single solves": 5.0, "packed instructions": 0.0}],
)
def test_a_scalar_loop_over_cost_models_fails_the_run(figures):
    lanes = replace(ROWS[6], figures=figures)
    assert report_of([lanes]).failed
    assert not report_of([ROWS[6]]).failed  # slower than the twin, which only the clock says


@pytest.mark.parametrize(("rows", "code"), [(ROWS[:8], 0), (ROWS, 1)])
def test_the_command_fails_where_something_does_not_hold(monkeypatch, rows, code):
    monkeypatch.setattr(run, "measure", lambda *_: report_of(rows))
    monkeypatch.setattr(bench, "_benchmarks", lambda: run)
    done = CliRunner().invoke(group, ["bench"])
    assert done.exit_code == code
    assert "What must hold" in done.output
    assert "NO" in done.output.split()  # of the clock's verdicts one at least in both


def test_help_names_all_groups():
    said = " ".join(CliRunner().invoke(group, ["bench", "--help"]).output.split())
    assert f"Some only: {', '.join(run.GROUPS)}." in said


def test_tables_show_numbers_as_people_read_them():
    text = render(tables.tables_of(report_of()))
    line = next(line for line in text.splitlines() if line.strip().startswith("solve_one  "))
    assert "12,350" in line
    assert "12,000 … 13,000" in line
    rivals = [line.split() for line in text.splitlines() if line.strip().startswith("solve_one ")][1:]
    assert ["solve_one", "plain", "Python", "12,350", "ns/position", "1,230"] in rivals
    assert ["solve_one", "QuantEcon", "–", "–", "not", "installed"] in rivals
    assert "e+0" not in text
    assert "0.0 million" not in text


def test_notes_stand_once_beneath_their_table():
    text = render(tables.tables_of(report_of()))
    assert "  solve_one: a\n" in text
    assert "\n  b\n" in text  # said of all kernels


def test_absent_sizes_and_a_line_without_seconds_have_dashes():
    absent = Row("path, 5,000 positions", "path", "", "ns/position", positions=5000, note="not measured: no room")
    text = render(tables.tables_of(report_of([*ROWS, absent])))
    assert "  path, 5,000 positions: not measured: no room\n" in text


@pytest.fixture(scope="module")
def smallest():
    return run.measure("smallest", only=["solve", "evaluation", "path", "fit"])


def test_every_line_fits_the_page(smallest):
    for form in ("text", "markdown"):
        lines = render(tables.tables_of(smallest), form).splitlines()
        assert form == "markdown" or max(map(len, lines)) <= WIDEST
        assert len(lines) > 60


def test_json_keeps_every_row(smallest, monkeypatch):
    monkeypatch.setattr(run, "measure", lambda *_: smallest)
    monkeypatch.setattr(bench, "_benchmarks", lambda: run)
    found = json.loads(CliRunner().invoke(group, ["bench", "--json"]).output)
    rows = [
        row for name, table in found["tables"].items() if name not in ("machine", "checks") for row in table["rows"]
    ]
    rows += found["limits"]
    assert {row["name"]: row["value"] for row in rows} == {row.name: row.value for row in smallest.rows}
    assert found["machine"]["peak_gop_per_s"].keys() == {"floating", "integer"}
    assert len(found["tables"]["checks"]["rows"]) == len(smallest.checks) == 5
