"""Traces for reports: hostile ones, large ones, and the material of a report on the recorded ones."""

import functools
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from oracle.cli.report_material import gather
from oracle.cli.report_stated import NOTHING, Stated
from oracle.cli.traces import trace_files
from oracle.latency.fit import fit_latency
from oracle.latency.model import LatencyModel
from oracle.pages import Material
from oracle.rounds import RoundFiles

CASES = Path(__file__).parent.parent / "cases"
TINY = CASES / "tiny-moe"
ROUNDS = TINY / "rounds-grouped_mm.parquet"
STATED = Stated(
    deployment=str(CASES / "levers" / "deployment.toml"),
    traffic=str(CASES / "levers" / "coding-agent.toml"),
    pool=str(CASES / "pool" / "a100.toml"),
)
READING = {"memory": None, "k_min": None, "k_max": None, "unique_experts": None, "threads": 1}
HOSTILE = (
    '</script><script>document.title="pwned"</script>',
    '<img src=x onerror="document.title=1">',
    '"><svg onload=alert(1)>',
    "' onmouseover='alert(1)",
    "</style><style>*{display:none}",
    "</textarea></title><base href=//evil.example>",
    "<iframe src=https://evil.example></iframe>",
    "javascript:alert(1)",
    "{{ 7 * 7 }}{% raw %}",
    '=HYPERLINK("https://evil.example")',
    "&lt;b&gt;",
    "-->",
    "\u202egnp.exe",
    "\u2066x",
    "\x00nul",
    "\x1b[2J",
)


@functools.cache
def model() -> LatencyModel:
    """The fit of the recorded rounds, as `fit` writes it."""
    return LatencyModel.from_json(fit_latency(RoundFiles(ROUNDS), provenance={}).model.to_json(), source="fit")


def write_model(path: Path) -> Path:
    model().save(path)
    return path


def material(traces: Path, *, rounds: bool = False, stated: Stated = NOTHING) -> Material:
    """Everything that a report on these traces is written from."""
    files = trace_files([traces], None)
    return gather(files, model(), str(ROUNDS) if rounds else None, [], READING, lambda step: None, stated)


@functools.cache
def recorded() -> Material:
    """The material of the recorded traces, with their rounds, and of a deployment and a memory plan."""
    return material(TINY / "traces.parquet", rounds=True, stated=STATED)


def hostile_traces(path: Path, generations: int = 12) -> Path:
    """Recorded traces whose names and tokens are HTML, scripts and control characters."""
    table = pq.read_table(TINY / "traces.parquet").slice(0, generations)
    rng = np.random.default_rng(0)

    def some(count: int) -> list[str]:
        return [HOSTILE[i] for i in rng.integers(len(HOSTILE), size=count)]

    named = {
        name: [f"{name}{i} {HOSTILE[i % len(HOSTILE)]}" for i in range(generations)]
        for name in ("generation", "cluster")
    }
    named["category"] = [HOSTILE[i % 3] for i in range(generations)]
    texts = [some(len(row)) for row in table["token_text"].to_pylist()]
    drafts = [[some(len(chain)) for chain in row] for row in table["draft_text"].to_pylist()]
    for name, values in {**named, "token_text": texts, "draft_text": drafts}.items():
        at = table.column_names.index(name)
        table = table.set_column(at, name, pa.array(values, table.schema.field(name).type))
    pq.write_table(table, path)
    return path


def many_traces(path: Path, decisions: int) -> Path:
    """The recorded traces over and over under other names, until they hold so many decisions."""
    table = pq.read_table(TINY / "traces.parquet")
    each = sum(map(len, table["match_prob"].to_pylist()))
    parts = []
    for i in range(-(-decisions // each)):
        part = table
        for name in ("generation", "cluster"):
            renamed = pa.array([f"{value}-{i}" for value in table[name].to_pylist()])
            part = part.set_column(part.column_names.index(name), name, renamed)
        parts.append(part)
    pq.write_table(pa.concat_tables(parts), path)
    return path


def hostile_stated(folder: Path) -> Stated:
    """A deployment, a series of traffic and a memory plan whose names are HTML, scripts and control characters."""

    def written(text: str) -> str:
        return json.dumps(text, ensure_ascii=True).replace("\\u0000", "\\u0001")  # TOML knows JSON's escapes

    deployment = (CASES / "levers" / "deployment.toml").read_text("utf-8")
    for old, new in zip(("FP16", "FP8", "NVFP4"), (HOSTILE[0], HOSTILE[12], HOSTILE[15]), strict=True):
        deployment = deployment.replace(f'"{old}"', written(new))
    head, *slots = (CASES / "levers" / "day.csv").read_text("utf-8").splitlines()
    named = [{"slot": HOSTILE[i % len(HOSTILE)] + str(i), "tenant": HOSTILE[1]} for i in range(len(slots))]
    values = [dict(zip(head.split(",")[1:], map(float, line.split(",")[1:]), strict=True)) for line in slots]
    plan = (CASES / "pool" / "a100.toml").read_text("utf-8")
    for old, new in zip(("draft model 1.7B", "EAGLE-3 head", "bf16", "chat"), HOSTILE[1:5], strict=True):
        plan = plan.replace(f'"{old}"', written(new))
    for name, text in (
        ("deployment.toml", deployment),
        ("day.json", json.dumps([slot | name for slot, name in zip(values, named, strict=True)])),
        ("pool.toml", plan),
    ):
        (folder / name).write_text(text, "utf-8")
    return Stated(str(folder / "deployment.toml"), str(folder / "day.json"), None, str(folder / "pool.toml"))
