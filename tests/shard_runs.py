"""Real traces in several files, and folders of shards compared byte by byte."""

import hashlib
import json
import warnings
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from oracle.errors import InputWarning
from oracle.latency.fit import fit_latency
from oracle.rounds import RoundFiles

CASES = Path(__file__).parent.parent / "cases"
MODEL = CASES / "published-a100" / "model.json"


def write_files(folder: Path, files: int, copies: int = 1) -> Path:
    """The recorded traces, `copies` times under other names, cut into files of two row groups each."""
    table = pq.read_table(CASES / "tiny-moe" / "traces.parquet")
    at = table.column_names.index("generation")
    named = [
        table.set_column(at, "generation", pa.array([f"{name}-{copy}" for name in table["generation"].to_pylist()]))
        for copy in range(copies)
    ]
    whole, folder = pa.concat_tables(named), folder / "traces"
    folder.mkdir()
    for number in range(files):
        begin, end = (len(whole) * i // files for i in (number, number + 1))
        part = whole.slice(begin, end - begin)
        pq.write_table(part, folder / f"part-{number}.parquet", row_group_size=-(-len(part) // 2))
    return folder


def write_model(folder: Path) -> Path:
    """A latency model that tells the errors of its coefficients."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputWarning)
        model = fit_latency(RoundFiles(CASES / "tiny-moe" / "rounds.parquet")).model
    path = folder / "model.json"
    model.save(path)
    return path


def content(folder: Path) -> dict[str, str]:
    """Every file below a folder with its digest."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def check_whole(folder: Path) -> int:
    """Check that whatever has appeared in a folder is whole; give the number of shards committed."""
    seen = [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith(".")]
    inside = [path for path in seen if not any(part.startswith(".") for part in path.relative_to(folder).parts)]
    for path in inside:
        if path.suffix == ".parquet":
            pq.read_table(path)
        elif path.suffix == ".json":
            json.loads(path.read_text("utf-8"))
    records = sorted((folder / "shards").glob("*.json"))
    for record in records:
        for name, sha256 in json.loads(record.read_text("utf-8"))["files"].items():
            assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == sha256
    return len(records)
