"""Names out of files reach terminals and outputs as text: never as a path, never as a control character."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from in_process import printed
from traces_factory import trace_table

from oracle.errors import InputError

NAMES = ("../../escaped", "/tmp/escaped\x1b[31m", "a\x00b\u202e\nc")
MODEL = Path(__file__).parents[1] / "cases" / "published-a100" / "model.json"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    inside = tmp_path / "a" / "b"
    inside.mkdir(parents=True)
    columns = {name: pa.array(NAMES) for name in ("generation", "category", "tenant", "cluster")}
    pq.write_table(trace_table((12, 9, 15), **columns), inside / "t.parquet")
    model = json.loads(MODEL.read_text())
    (inside / "m.json").write_text(json.dumps(model))
    monkeypatch.chdir(inside)
    return inside


@pytest.mark.parametrize(
    ("command", "outputs"),
    [
        (["validate", "t.parquet"], []),
        (["solve", "t.parquet", "-m", "m.json", "-o", "d.parquet"], ["d.parquet"]),
        (["score", "t.parquet", "-m", "m.json", "-o", "s.parquet"], ["s.parquet"]),
        (["ablate", "t.parquet", "-m", "m.json", "-o", "out"], ["out"]),
        (["explain", "t.parquet", "-m", "m.json", "-g", NAMES[0], "-t", "2"], []),
        (["explain", "t.parquet", "-m", "m.json", "-g", NAMES[2].replace("\x00", "?"), "-t", "2"], []),
        (["policies", "t.parquet", "-m", "m.json", "-o", "out"], ["out"]),
    ],
)
def test_names_stay_names(folder, command, outputs, recwarn):
    try:
        shown, refused = printed(*command), False
    except InputError as error:
        shown, refused = str(error), True
    assert refused == any("?" in word for word in command)
    shown += "".join(str(each.message) for each in recwarn.list)
    assert [c for c in shown if not c.isprintable() and c != "\n"] == []
    top = folder.parents[1]
    made = {path.relative_to(top).parts[2] for path in top.rglob("*") if len(path.relative_to(top).parts) > 2}
    assert made - {"t.parquet", "m.json"} == set(outputs)
    assert {path.name for path in top.iterdir()} == {"a"}
    assert {path.name for path in (top / "a").iterdir()} == {"b"}
    assert not list(Path("/tmp").glob("escaped*"))
