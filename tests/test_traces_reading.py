"""Trace files: walking, batches, datasets of several files."""

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from test_traces_arrow import assert_same
from traces_factory import lists, trace_table

from oracle.errors import InputError
from oracle.traces import TraceFiles, Traces, load_traces
from oracle.traces.dataset import SeenIds

CASE = Path(__file__).parent.parent / "cases" / "tiny-moe" / "traces.parquet"


def save(path: Path, table: pa.Table, **kwargs) -> Path:
    path.parent.mkdir(exist_ok=True)
    pq.write_table(table, path, **kwargs)
    return path


def refusal(call, *args, **kwargs) -> str:
    with pytest.raises(InputError) as error:
        call(*args, **kwargs)
    return str(error.value)


def walk(*args, **kwargs) -> list[Traces]:
    return list(TraceFiles(*args, **kwargs))


def test_real_traces():
    files = TraceFiles(CASE)
    assert files.generations == 78
    assert files.metadata["engine"] == "transformers"
    assert files.metadata["version"] == "1"
    (traces,) = files
    assert traces.positions == 19746
    assert traces.experts.shape == (19746, 6, 4)
    assert traces.unique_experts.shape == (19746, 11)
    assert traces.max_draft_length == 10
    assert len(set(traces.cluster_of)) == 39
    ids = pq.read_table(CASE, columns=["experts"])["experts"][5].as_py()
    begin, end = traces.offsets[5:7]
    assert traces.experts[begin:end].tobytes() == b"".join(ids)
    unique = [len(set(row)) for row in traces.experts[0]]
    assert np.mean(unique) == traces.unique_experts[0, 0]


def test_batches_make_up_the_whole_and_can_be_walked_again():
    files = TraceFiles(CASE, batch_bytes=100_000)
    first, again = list(files), list(files)
    assert 5 < len(first) == len(again)
    whole = load_traces(CASE)
    for parts in (first, again):
        assert [g for part in parts for g in part.generation] == list(whole.generation)
        assert np.array_equal(np.concatenate([part.experts for part in parts]), whole.experts)
        assert np.array_equal(np.concatenate([part.match_prob for part in parts]), whole.match_prob)
    assert sum(part.positions for part in first) == 19746


def test_a_batch_holds_at_least_one_generation(tmp_path):
    path = save(tmp_path / "t.parquet", trace_table((2, 0, 3, 4)))
    assert [part.generations for part in walk(path, batch_bytes=1)] == [1, 1, 1, 1]
    assert refusal(TraceFiles, path, batch_bytes=0) == "batch_bytes is 0; it must be at least 1"


def test_batches_are_about_as_large_as_asked_for(tmp_path):
    path = save(tmp_path / "t.parquet", trace_table([20] * 200, drop=("draft_text", "token_text")))
    parts = walk(path, batch_bytes=10_000)
    sizes = [part.table.nbytes for part in parts]
    assert 4_000 < np.mean(sizes[:-1]) < 20_000


@pytest.mark.parametrize("row_group_size", [1, 2, 100])
@pytest.mark.parametrize("use_dictionary", [True, False])
def test_row_groups_and_encodings_do_not_matter(tmp_path, row_group_size, use_dictionary):
    table = trace_table((2, 0, 3, 4, 1))
    path = save(tmp_path / "t.parquet", table, row_group_size=row_group_size, use_dictionary=use_dictionary)
    assert_same(load_traces(path), Traces.from_arrow(table))


def test_several_files_are_one_dataset(tmp_path):
    one, other = trace_table((2, 3), prefix="a", seed=1), trace_table((0, 4), prefix="b", seed=2)
    save(tmp_path / "d" / "1.parquet", one)
    save(tmp_path / "d" / "2.parquet", other)
    files = TraceFiles(tmp_path / "d")
    assert files.generations == 4
    assert [p.name for p in files.paths] == ["1.parquet", "2.parquet"]
    found = load_traces(tmp_path / "d")
    assert_same(found, Traces.from_arrow(pa.concat_tables([one, other])))
    assert found.source == f"{tmp_path}/d/1.parquet, {tmp_path}/d/2.parquet"
    assert found.table.num_rows == 4


def test_files_of_different_layouts_are_one_dataset(tmp_path):
    one, other = trace_table((2, 3), prefix="a"), trace_table((0, 4), prefix="b")
    ids = [[list(cell) for cell in row] for row in other["experts"].to_pylist()]
    changed = other.set_column(
        other.column_names.index("experts"), "experts", pa.array(ids, pa.list_(pa.list_(pa.int64())))
    )
    paths = [save(tmp_path / "1.parquet", one), save(tmp_path / "2.parquet", changed)]
    assert_same(load_traces(paths), Traces.from_arrow(pa.concat_tables([one, other])))
    assert_same(Traces.from_arrow(load_traces(paths).table), Traces.from_arrow(pa.concat_tables([one, other])))


def test_an_empty_shard_beside_others_is_fine_but_not_alone(tmp_path):
    table = trace_table()
    empty = save(tmp_path / "0.parquet", table.slice(0, 0))
    full = save(tmp_path / "1.parquet", table)
    assert_same(load_traces([empty, full]), Traces.from_arrow(table))
    assert refusal(TraceFiles, empty) == f"{empty}: holds no generations; a trace has one row a generation"


def test_only_the_columns_asked_for_are_read(tmp_path):
    path = save(tmp_path / "t.parquet", trace_table())
    needed = ["generation", "layers", "top_k", "num_experts", "match_kind", "context_start", "match_prob", "decoding"]
    (traces,) = files = TraceFiles(path, columns=())
    assert sorted(files.column_names) == sorted(traces.table.column_names) == sorted(needed)
    assert traces.experts is traces.category is traces.draft_prob is None
    assert traces.layers == 2
    (traces,) = TraceFiles(path, columns={"category", "unique_experts", "decoding"})
    assert traces.experts is None
    assert traces.unique_experts is not None
    assert traces.table["decoding"].to_pylist() == ["greedy"] * 3
    (traces,) = TraceFiles(path, columns=["logged_advance"])
    assert traces.logged_draft_length.tolist() == [2, 2]  # a logged round needs both columns
    assert "decoding" in TraceFiles(path).column_names


def test_a_known_column_that_is_missing_reads_as_missing_an_unknown_one_is_refused(tmp_path):
    path = save(tmp_path / "t.parquet", trace_table(drop=("draft_prob",)))
    (traces,) = TraceFiles(path, columns=["draft_prob"])
    assert traces.draft_prob is None
    assert refusal(TraceFiles, path, columns=["draft_probs\n"]).startswith(
        f"{path}: has no column 'draft_probs\\n'; the columns there: generation, category, tenant"
    )


def test_opening_names_the_faults_of_all_files(tmp_path):
    save(tmp_path / "1.parquet", trace_table(drop=("match_kind",)))
    save(tmp_path / "2.parquet", trace_table(drop=("draft_prob", "context_start"), prefix="x"))
    text = refusal(TraceFiles, tmp_path)
    assert f"1. {tmp_path}/1.parquet: the required column match_kind" in text
    assert f"2. {tmp_path}/2.parquet: the required column context_start" in text
    assert (
        f"{tmp_path}/2.parquet: lacks the column draft_prob, which {tmp_path}/1.parquet has; give these files apart"
        in text
    )
    assert f"{tmp_path}/1.parquet: lacks the column match_kind, which {tmp_path}/2.parquet has" in text


def test_a_newer_format_is_refused(tmp_path):
    path = save(tmp_path / "t.parquet", trace_table().replace_schema_metadata({"draft_oracle.version": "2"}))
    assert refusal(TraceFiles, path) == (
        f"{path}: the format version is '2'; this program reads version 1. Use a newer program"
    )


def test_metadata_of_several_files(tmp_path):
    for i, device in enumerate(("A100", "H100", "A100")):
        said = {"draft_oracle.device": device, "draft_oracle.target": "T", "pandas": "{}"}
        save(tmp_path / f"{i}.parquet", trace_table(prefix=str(i)).replace_schema_metadata(said))
    assert TraceFiles(tmp_path).metadata == {"device": "A100; H100", "target": "T"}


def test_ids_are_unique_over_batches_and_files(tmp_path):
    one = save(tmp_path / "1.parquet", trace_table((1, 1, 1), generation=["a", "b", "a"]))
    text = refusal(walk, one, batch_bytes=1)
    assert text == f"{one}, generation 'a': the id occurs already in {one}; ids are unique across files, rename one"
    one = save(tmp_path / "1.parquet", trace_table((1, 1, 1), generation=["a", "b", "c"]))
    two = save(tmp_path / "2.parquet", trace_table((1, 1, 1), generation=["d", "b", "a"]))
    assert refusal(walk, [one, two]).splitlines() == [
        f"1. {two}, generation 'b': the id occurs already in {one}; ids are unique across files, rename one",
        f"2. {two}, generation 'a': the id occurs already in {one}; ids are unique across files, rename one",
    ]


def test_seen_ids_against_a_dictionary():
    rnd = random.Random(4)
    seen, first = SeenIds(), {}
    for file in "abcb":
        for _ in range(20):
            ids = [str(i) for i in rnd.sample(range(2000), rnd.randrange(1, 40))]
            wanted = [(name, first[name]) for name in ids if name in first]
            assert sorted(seen.add(ids, file)) == sorted(wanted)
            first |= {name: file for name in ids if name not in first}
    assert seen.add([], "d") == []


def test_one_dataset_holds_one_target(tmp_path):
    one = save(tmp_path / "1.parquet", trace_table(prefix="a"))
    two = save(tmp_path / "2.parquet", trace_table(prefix="b", num_experts=16, K=2))
    rule = "one dataset holds one target and one layout: give these files apart"
    assert refusal(walk, [one, two]).splitlines() == [
        f"1. {two}: num_experts is 16, but 8 in {one}; {rule}",
        f"2. {two}: the width of new_experts is 3, but 4 in {one}; {rule}",
        f"3. {two}: the width of unique_experts is 3, but 4 in {one}; {rule}",
    ]


def test_faults_name_rows_of_the_file_not_of_the_batch(tmp_path):
    path = save(tmp_path / "t.parquet", trace_table((1, 1, 1, 1), generation=["a", "b", "c", None]))
    assert refusal(walk, path, batch_bytes=1) == f"{path}, row 3: generation is null; each generation needs an id"


def test_check_gathers_the_faults_of_all_batches(tmp_path):
    probs = lists((1, 1, 1, 1), np.array([2, 0.5, -1, 0.5]))
    path = save(tmp_path / "t.parquet", trace_table((1, 1, 1, 1), match_prob=probs, generation=["a", "b", "c", "b"]))
    files = TraceFiles(path, batch_bytes=1)
    assert len(refusal(lambda: list(files)).splitlines()) == 1
    lines = refusal(files.check).splitlines()
    assert [line.split(":")[0] for line in lines] == [
        f"1. {path}, generation 'a', position 0",
        f"2. {path}, generation 'c', position 0",
        f"3. {path}, generation 'b'",
    ]
    assert TraceFiles(CASE).check() is None
