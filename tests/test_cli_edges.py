"""Edges of the command line: closed streams, readers that go away, files by URI, answers while something lasts."""

import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from benchmarks import run
from benchmarks.report import BenchReport, Check, Machine, Row
from oracle.cli import bench
from oracle.cli.main import group
from oracle.cluster import ray_engine
from oracle.errors import InputError

ROOT = Path(__file__).parent.parent
TINY = ROOT / "cases" / "tiny-moe" / "traces.parquet"
HAND = ROOT / "cases" / "hand-one-expert-too-many"
PUBLISHED = ROOT / "cases" / "published-a100" / "model.json"
SCORE = f"{sys.executable} -m oracle score {HAND}/trace.parquet -m {HAND}/model.json"


def shell(command: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command of bash."""
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout, done.stderr


def test_closed_streams_are_no_obstacle(tmp_path: Path) -> None:
    whole = shell(SCORE)[1]
    assert whole.startswith("What was solved\n")
    assert shell(f"{SCORE} 2>&-") == (0, whole, "")
    assert shell(f"{SCORE} <&-") == (0, whole, "")
    assert shell(f"{SCORE} -o {tmp_path}/all.parquet <&- >&- 2>&-") == (0, "", "")
    assert shell(f"{SCORE} -o {tmp_path}/none.parquet") == (0, whole, "")
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["all.parquet", "none.parquet"]
    assert (tmp_path / "all.parquet").read_bytes()[:4] == b"PAR1", "nothing was written into it by way of a stream"


def test_a_closed_stdin_is_named() -> None:
    said = "error: standard input: is closed, so that nothing can be read from it; name a file instead of -\n"
    assert shell(f"{SCORE.rpartition(' ')[0]} - <&-") == (2, "", said)


@pytest.mark.parametrize("words", ["--help", "--version", "solve --help", "fit cases/tiny-moe/rounds.parquet -o -"])
def test_readers_that_go_away_are_no_error(words: str) -> None:
    code, _, said = shell(f"{sys.executable} -m oracle {words} | true")
    assert code == 0, said
    assert "rror" not in said


def test_threads_beyond_reason_are_refused() -> None:
    done = CliRunner().invoke(group, ["score", str(TINY), "-m", str(PUBLISHED), "--threads", "100000"])
    assert done.exit_code == 2
    assert "'--threads': 100,000 is more than 1,024; each takes memory of its own, and those beyond" in done.stderr
    done = CliRunner().invoke(group, [*SCORE.split()[3:], "--threads", "64"])
    assert done.exit_code == 0, done.output


def test_a_model_is_read_by_a_uri_of_this_machine_only() -> None:
    trace, model = str(HAND / "trace.parquet"), (HAND / "model.json").as_uri()
    for words in (["score", trace, "-m", model], ["explain", trace, "-m", model, "--generation", "paper"]):
        by_path = [word.removeprefix("file://") for word in words]
        asked, usual = (CliRunner().invoke(group, each) for each in (words, by_path))
        assert (asked.output, asked.exit_code) == (usual.output, usual.exit_code)
    with pytest.raises(
        InputError, match=r"--model s3://bucket/model\.json: a model is read from this machine, only tr"
    ):
        group.main(["score", trace, "-m", "s3://key:secret@bucket/model.json"], standalone_mode=False)


def test_traces_in_several_files_are_counted(tmp_path: Path) -> None:
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    table = pq.read_table(HAND / "trace.parquet")
    at = table.column_names.index("generation")
    for i in range(13):
        pq.write_table(table.set_column(at, "generation", pa.array([f"g{i}"])), tmp_path / f"t{i:02}.parquet")
    said = CliRunner().invoke(group, ["score", str(tmp_path), "-m", str(HAND / "model.json")]).output
    assert f"\ntraces                      13 files (first {tmp_path}/t00.parquet)\n" in said


@pytest.mark.parametrize("again", [True, False])
def test_a_signal_that_must_wait_for_ray_is_answered_at_once(again: bool) -> None:
    happened: list[str] = []
    former = signal.signal(signal.SIGTERM, lambda *_: happened.append("raised"))
    try:
        with ray_engine._undisturbed(lambda number: happened.append(signal.Signals(number).name) or again):
            signal.raise_signal(signal.SIGTERM)
            happened.append("Ray has started")
    finally:
        signal.signal(signal.SIGTERM, former)
    assert happened == ["SIGTERM", "Ray has started", *(["raised"] if again else [])]


MACHINE = Machine("a processor", 2, "3", "2", "0", "26", 30.0, {"floating": 40.0})


def one(group: str) -> Row:
    return Row(f"of {group}", group, f"what; {group}", "ns/position", 1.0, 1.0, 1.0, 9, positions=1000)


@pytest.fixture
def measuring(monkeypatch: pytest.MonkeyPatch) -> None:
    """Benchmarks that take no time, and say on stdout when they begin."""

    def rows(group: str, *_: object) -> list[Row]:
        click.echo(f"measuring {group}")
        if group == "threads":
            raise KeyboardInterrupt
        return [one(group)]

    monkeypatch.setattr(run, "_rows", rows)
    monkeypatch.setattr(run, "checks_of", lambda *_: (Check("a check", "asked", "found", True, False),))
    monkeypatch.setattr(bench, "_benchmarks", lambda: run)


def in_order_of(*words: str) -> list[str]:
    """What bench measures, and the titles of what it prints, in the order in which it does."""
    titles = ("measuring", "Where", "Kernels", "Compile", "The latency fit", "Scaling", "What must", "{")
    lines = CliRunner().invoke(group, ["bench", "--smallest", *words]).output.splitlines()
    return [" ".join(line.split()[:2]) for line in lines if line.startswith(titles)]


def test_bench_prints_each_table_as_soon_as_it_is_measured(measuring: None) -> None:
    words = [f"--only={name}" for name in ("solve", "evaluation", "compile", "fit")]
    assert in_order_of(*words) == [
        "Where this",
        "measuring solve",
        "measuring evaluation",
        "Kernels on",
        "measuring compile",
        "Compile time",
        "measuring fit",
        "The latency",
        "What must",
    ]
    at_once = ["measuring solve", "measuring evaluation", "measuring compile", "measuring fit", "{"]
    assert in_order_of(*words, "--json") == at_once


def test_bench_loses_nothing_that_was_measured_before_it_was_stopped(measuring: None) -> None:
    begun = ["Where this", "measuring evaluation", "Kernels on", "measuring threads"]
    assert in_order_of("--only=evaluation", "--only=threads") == begun


def test_bench_prints_the_same_page_in_parts_as_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from oracle.tables import render  # noqa: PLC0415

    rows = tuple(one(group) for group in ("solve", "compile", "fit"))
    reports = [BenchReport("smallest", MACHINE, rows[:count]) for count in range(4)]

    def measure(_size: str, _only: object, _progress: object, measured: object = None) -> BenchReport:
        for report in reports if callable(measured) else ():
            measured(report)  # type: ignore[operator]
        return reports[-1]

    monkeypatch.setattr(run, "measure", measure)
    monkeypatch.setattr(bench, "_benchmarks", lambda: run)
    for words, form in (([], "text"), (["--markdown"], "markdown")):
        said = CliRunner().invoke(group, ["bench", *words]).output
        assert said == render(run.tables_of(reports[-1]), form)  # type: ignore[arg-type]
