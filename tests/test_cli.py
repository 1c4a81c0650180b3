"""The command line as a user meets it: whole outputs, exit codes, refusals, nothing half-written."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

ROOT = Path(__file__).parent.parent
CASES = ROOT / "cases"
TINY = CASES / "tiny-moe"
HAND = CASES / "hand-one-expert-too-many"
PUBLISHED = CASES / "published-a100" / "model.json"


def oracle(*words: str | Path, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command in the checkout, as ``python -m oracle``."""
    return subprocess.run(
        [sys.executable, "-m", "oracle", *map(str, words)],
        cwd=ROOT,
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "200"},
    )


def succeeded(*words: str | Path, stdin: str | None = None) -> str:
    done = oracle(*words, stdin=stdin)
    assert done.returncode == 0, done.stderr
    return done.stdout


def refused(*words: str | Path, stdin: str | None = None) -> str:
    """What a refusal says; exit code 2, nothing on stdout, no traceback."""
    done = oracle(*words, stdin=stdin)
    assert done.returncode == 2, (done.returncode, done.stdout, done.stderr)
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    return done.stderr


ON_PAPER = """\
What was solved
traces                      cases/hand-one-expert-too-many/trace.parquet
generations                 1
positions                   3
match probabilities         overlap
unique experts              routing ids along the reference path (rejected tokens not seen)
draft lengths               0, 1, 2
latency model               m = 1, 2, 3
expected cost of the oracle 14.000 ms

Cost-optimal draft length k*, 3 decisions

 k*  decisions  % of positions  % of rounds
 ──────────────────────────────────────────
  0          2            66.7         50.0
  1          1            33.3         50.0
  2          0             0.0          0.0

  % of rounds: weighted by the probability that a round of the optimal policy starts at the position

Policies on the same traces (speed-up and % of gain: over k = 0)

                      tokens/s  speed-    regret   % of  tokens/  mean  accep-  wasted/  experts/
 policy    ms/token  a request      up  ms/token   gain    round     k   tance    token     token
 ────────────────────────────────────────────────────────────────────────────────────────────────
 oracle       4.667      214.3   1.286     0.000  100.0    1.500  0.50   1.000     0.00       0.7
 blind        4.833      206.9   1.241     0.167   87.5    2.000  1.33   0.750     0.17       0.8
 static:0     6.000      166.7   1.000     1.333    0.0    1.000  0.00       –     0.00       1.0
 static:1     5.333      187.5   1.125     0.667   50.0    1.500  1.00   0.625     0.25       0.7
 static:2     5.417      184.6   1.108     0.750   43.7    2.000  2.00   0.542     0.46       0.8

  expected scores, in-sample; no intervals: there is one cluster only; regret is paired
  oracle and blind look ahead over the whole text: bounds, not policies an engine can run
  best static length on these traces: static:1 (14.3 % above the oracle)
  up to 50.0 % of a policy's rounds reach past the end of a text, where no experts are known: a lower bound
"""


def test_score_prints_what_was_derived_on_paper() -> None:
    """14, 14.5, 18, 16 and 16.25 ms over 3 tokens, as in the case's README.

    Accepted of drafted tokens: static:1 drafts one at t = 0 (certain) and one at t = 2 (1/4): 1.25 of 2. static:2
    drafts two at t = 0 (1 + 1/2) and, with 1/2, two at t = 2 of which only the first can match (1/4): 1.625 of 3.
    """
    assert succeeded("score", "cases/hand-one-expert-too-many/trace.parquet", "-m", HAND / "model.json") == ON_PAPER


def test_json_holds_the_same_numbers_at_full_precision() -> None:
    answer = json.loads(succeeded("score", HAND / "trace.parquet", "-m", HAND / "model.json", "--json"))
    rows = {row["policy"]: row for row in answer["tables"]["scores"]["rows"]}
    assert rows["oracle"]["ms_per_token"] == 14 / 3
    assert rows["static:0"]["ms_per_token"] == 6
    assert rows["static:0"]["acceptance"] is None
    assert answer["provenance"]["command"] == "score"
    digests = {entry["name"]: entry["sha256"] for entry in answer["provenance"]["inputs"]}
    import hashlib  # noqa: PLC0415

    assert digests["trace.parquet"] == hashlib.sha256((HAND / "trace.parquet").read_bytes()).hexdigest()
    assert digests["model.json"] == hashlib.sha256((HAND / "model.json").read_bytes()).hexdigest()


def test_markdown_is_a_table_of_pipes() -> None:
    page = succeeded("score", HAND / "trace.parquet", "-m", HAND / "model.json", "--markdown")
    assert "## Cost-optimal draft length k*, 3 decisions" in page
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if "|" in line]
    assert ["0", "2", "66.7", "50.0"] in cells


def test_model_from_stdin_and_to_stdout(tmp_path: Path) -> None:
    written = oracle("fit", TINY / "rounds-batched_mm.parquet", "-o", "-")
    assert written.returncode == 0
    assert json.loads(written.stdout)["format"] == "draft-oracle/latency-model"
    assert "Verification time" in written.stderr, "the tables go to stderr when stdout carries the model"
    answer = succeeded("solve", TINY / "traces.parquet", "-m", "-", "-o", tmp_path / "d.parquet", stdin=written.stdout)
    assert "19,746 decisions" in answer
    assert pq.read_table(tmp_path / "d.parquet").num_rows == 78


def test_decisions_file_says_what_it_rests_on(tmp_path: Path) -> None:
    out = tmp_path / "d.parquet"
    succeeded("solve", TINY / "traces.parquet", "-m", PUBLISHED, "-o", out, "--k-max", "4")
    kept = pq.read_metadata(out).metadata
    origin = json.loads(kept[b"draft_oracle.provenance"])
    assert origin["options"] == {"k_max": 4}
    assert [entry["name"] for entry in origin["inputs"]] == ["traces.parquet", "model.json"]
    assert json.loads(kept[b"draft_oracle.latency_model"])["verify"]["beta0_ms"][0] == 7.3
    assert max(max(row) for row in pq.read_table(out)["draft_length"].to_pylist()) == 4


def test_run_on_recorded_traces_writes_everything(tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = oracle("run", TINY, "-o", out)
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("fitting ")
    assert sorted(path.name for path in out.iterdir()) == [
        "decisions.parquet",
        "model.json",
        "scores.parquet",
        "shifts.parquet",
        "tables.json",
        "tables.md",
    ]
    tables = json.loads((out / "tables.json").read_text())["tables"]
    assert [*tables] == [
        "latency_model",
        "latency_separate",
        "draft_times",
        "overview",
        "draft_lengths",
        "scores",
        "changes",
        "boundaries",
        "shifts_by_category",
        "transitions",
        "decomposition",
        "transitions_2",
        "decomposition_2",
        "unique_experts",
    ]
    scores = pq.read_table(out / "scores.parquet").to_pylist()
    assert scores == tables["scores"]["rows"]
    again = refused("run", TINY, "-o", out)
    assert "the folder exists already; choose another name, or give --overwrite" in again
    succeeded("run", TINY, "-o", out, "--overwrite", "--rounds", TINY / "rounds-grouped_mm.parquet")
    assert json.loads((out / "tables.json").read_text())["tables"]["draft_lengths"] != tables["draft_lengths"]


def test_outputs_never_replace_inputs(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    for name in ("traces.parquet", "rounds.parquet"):
        (data / name).write_bytes((TINY / name).read_bytes())
    model = tmp_path / "model.json"
    model.write_bytes(PUBLISHED.read_bytes())
    before = {path: path.read_bytes() for path in (data / "traces.parquet", data / "rounds.parquet", model)}
    assert "would replace the input" in refused("run", data, "-o", data, "--overwrite")
    assert "would replace the input" in refused("run", data, "-o", tmp_path, "--overwrite")
    traces = data / "traces.parquet"
    assert "would replace the input" in refused("ablate", traces, "-m", model, "-o", tmp_path, "--overwrite")
    for command in ("solve", "score"):
        assert "would replace the input" in refused(command, traces, "-m", model, "-o", traces)
        assert "would replace the input" in refused(command, traces, "-m", model, "-o", model)
        assert "give a file name" in refused(command, traces, "-m", model, "-o", "-")
    assert "would replace the input" in refused("fit", data / "rounds.parquet", "-o", data / "rounds.parquet")
    assert {path: path.read_bytes() for path in before} == before


def test_a_folder_may_hold_traces_rounds_and_earlier_results(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    for name in ("traces.parquet", "rounds.parquet"):
        (data / name).write_bytes((TINY / name).read_bytes())
    succeeded("run", data, "-o", data / "out")
    succeeded("run", data, "-o", data / "again")
    assert "19,746" in succeeded("solve", data, "-m", data / "out" / "model.json")
    assert "6,699 rounds" in succeeded("fit", data)
    assert "holds no rounds" in refused("fit", data / "traces.parquet")
    assert "holds no traces" in refused("solve", data / "rounds.parquet", "-m", PUBLISHED)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_stopped_run_leaves_nothing_behind(tmp_path: Path, number: signal.Signals) -> None:
    """A trace that is decoded slowly: many small generations. The signal comes while decisions are written."""
    table = pq.read_table(TINY / "traces.parquet").drop_columns(["draft_text", "draft_token_id", "token_text"])
    pq.write_table(table, tmp_path / "t.parquet")
    copies = [str(tmp_path / "t.parquet")]
    for i in range(40):
        names = pa.array([f"{name}-{i}" for name in table["generation"].to_pylist()])
        copy = tmp_path / f"t{i}.parquet"
        pq.write_table(table.set_column(0, "generation", names), copy)
        copies.append(str(copy))
    before = sorted(tmp_path.iterdir())
    words = [sys.executable, "-m", "oracle", "ablate", *copies, "-m", str(PUBLISHED), "-o", str(tmp_path / "out")]
    running = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while sorted(tmp_path.iterdir()) == before and running.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)  # until the first rows are being written
    running.send_signal(number)
    said = running.communicate(timeout=60)[1]
    assert running.returncode == 128 + number, said
    assert said == f"stopped ({number.name}); files appear only when a command has ended\n"
    assert sorted(tmp_path.iterdir()) == before


def test_validate_says_what_files_hold() -> None:
    said = json.loads(succeeded("validate", TINY, "--json"))["tables"]
    traces = {row["fact"]: row["value"] for row in said["traces"]["rows"]}
    assert traces["generations"] == 78
    assert traces["positions"] == 19_746
    assert traces["target"] == "6 MoE layers, top-4 of 64 experts"
    rounds = {row["fact"]: row["value"] for row in said["rounds"]["rows"]}
    assert rounds["rounds"] == 6699 + 2167 + 539


def trace_with(tmp_path: Path, **columns: Any) -> Path:
    """The recorded traces with some columns replaced."""
    table = pq.read_table(TINY / "traces.parquet")
    for name, values in columns.items():
        column = values if isinstance(values, pa.Array) else pa.array(values, table.schema.field(name).type)
        table = table.set_column(table.column_names.index(name), name, column)
    path = tmp_path / "bad.parquet"
    pq.write_table(table, path)
    return path


def column(name: str) -> Any:
    return pq.read_table(TINY / "traces.parquet")[name].to_pylist()


def test_every_fault_is_named_at_once(tmp_path: Path) -> None:
    p = column("match_prob")
    p[3][7], p[70][0] = float("nan"), -0.5
    said = refused("validate", trace_with(tmp_path, match_prob=p))
    assert said.startswith("error: 2 faults\n1. ")
    assert "generation 'g007', position 7: match_prob is NaN" in said
    assert "position 0: match_prob is -0.5" in said


def test_experts_out_of_range_are_placed(tmp_path: Path) -> None:
    experts = column("experts")
    row = bytearray(experts[5][9])
    row[4] = 64
    experts[5][9] = bytes(row)
    said = refused("solve", trace_with(tmp_path, experts=experts), "-m", PUBLISHED, "-o", tmp_path / "d.parquet")
    assert "position 9" in said
    assert "64" in said
    assert [path.name for path in tmp_path.iterdir()] == ["bad.parquet"]


def test_truncated_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t.parquet").write_bytes((TINY / "traces.parquet").read_bytes()[:50_000])
    assert "is truncated" in refused("validate", tmp_path / "t.parquet")
    (tmp_path / "t.parquet").write_bytes(b"")
    assert "empty" in refused("validate", tmp_path / "t.parquet")
    (tmp_path / "t.parquet").write_bytes(b"generation,match_prob\n")
    assert "is not a Parquet file" in refused("validate", tmp_path / "t.parquet")


def test_missing_files_and_models_are_refused(tmp_path: Path) -> None:
    assert "no such file" in refused("score", tmp_path / "no.parquet", "-m", PUBLISHED)
    assert "model.json" in refused("score", TINY / "traces.parquet", "-m", tmp_path / "model.json")
    assert "has no m = 1 " in refused("score", TINY / "traces.parquet", "-m", PUBLISHED, "--k-min", "0", "--k-max", "0")
    said = refused("score", TINY / "traces.parquet", "-m", PUBLISHED, "--k-max", "12")
    assert "the trace carries draft lengths up to 10; lower --k-max" in said
    assert "give --rounds to fit a model" in refused("run", TINY, "--rounds", "a", "--model", "b")


def test_survival_products_are_noticed_and_converted(tmp_path: Path) -> None:
    """Chains that never rise draw a warning; --match-is settles it; converted, they give the conditional answer."""
    rng = np.random.default_rng(0)
    conditional = rng.uniform(0.3, 0.95, (40, 5)).astype(np.float32)
    survival = np.cumprod(conditional.astype(np.float64), axis=1).astype(np.float32)
    for name, values in (("conditional", conditional), ("survival", survival)):
        lists = pa.ListArray.from_arrays(
            pa.array([0, 40], pa.int32()), pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), 5)
        )
        table = pa.table(
            {
                "generation": ["g"],
                "match_kind": ["empirical"],
                "context_start": pa.array([10], pa.int32()),
                "match_probs": lists,
            }
        )
        pq.write_table(table, tmp_path / f"{name}.parquet")
    silent = oracle("score", tmp_path / "survival.parquet", "-m", PUBLISHED, "--match-is", "conditional")
    assert "warning" not in silent.stderr
    warned = oracle("score", tmp_path / "survival.parquet", "-m", PUBLISHED)
    assert warned.returncode == 0
    assert "warning: " in warned.stderr
    assert "survival" in warned.stderr
    answers = [
        json.loads(succeeded("score", tmp_path / f"{name}.parquet", "-m", PUBLISHED, "--match-is", name, "--json"))
        for name in ("conditional", "survival")
    ]
    ours, theirs = ([row["ms_per_token"] for row in a["tables"]["scores"]["rows"]] for a in answers)
    assert ours == pytest.approx(theirs, rel=1e-5)
    said = refused("score", tmp_path / "conditional.parquet", "-m", PUBLISHED, "--match-is", "survival")
    assert "survival" in said
    assert "generation 'g', position" in said


def test_text_from_traces_cannot_steer_the_terminal(tmp_path: Path) -> None:
    names = column("generation")
    names[0] = names[1] = "\x1b[31mred\nerror: "
    said = refused("validate", trace_with(tmp_path, generation=names))
    assert "\x1b" not in said
    assert "\\x1b[31mred\\nerror: " in said


@pytest.mark.parametrize(("reader", "read"), [("head -1", "What was solved\n"), ("true", "")])
def test_closed_pipe_is_no_error(reader: str, read: str) -> None:
    command = f"{sys.executable} -m oracle score {HAND}/trace.parquet -m {HAND}/model.json | {reader}"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr, done.returncode) == (read, "", 0)


def test_help_lists_commands_in_the_order_of_the_work() -> None:
    page = succeeded("--help")
    commands = [line.split()[0] for line in page.split("Commands:\n")[1].splitlines()]
    assert commands == [
        "convert",
        "record",
        "validate",
        "plan-sweep",
        "fit",
        "solve",
        "score",
        "ablate",
        "explain",
        "policies",
        "recommend",
        "crossover",
        "observe",
        "levers",
        "pool",
        "report",
        "run",
        "bench",
    ]


@pytest.mark.parametrize("module", ["numba", "pyarrow", "pandas", "scipy", "rich"])
def test_help_imports_nothing_heavy(module: str) -> None:
    code = f"import sys, oracle.cli.main; sys.exit({module!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
