"""The short form of the fuzzer, and that it sees what it looks for.

The long form: ``python tests/fuzzing/run.py --cases 1000000 --seed 1``.
"""

import subprocess
import sys

import pytest
from fuzzing import cases, samples, shards, thrift
from fuzzing.parquet_damage import apart, column_chunks, together, with_page

from oracle.parquet_footer import pages_of, read_footer

CASES = 4000


def test_no_reader_falls():
    found = list(shards.run_all("short", 0, CASES, a_shard=CASES))[-1]
    assert found.faults == []
    assert found.cases == CASES
    assert found.growth_bytes < shards.GROWTH_BYTES
    assert found.slowest_s < shards.HANG_S
    for reader in cases.READERS:
        assert found.outcomes[reader.name, cases.REFUSED] > 0, reader.name
    read = [reader.name for reader in cases.READERS if found.outcomes[reader.name, cases.READ]]
    assert len(read) > len(cases.READERS) // 2


@pytest.mark.parametrize(
    ("reader", "said"),
    [
        ("raise", "KeyError"),
        ("crash", "exit -6"),
        ("hang", "hang: "),
        ("grow", "growth behind a message"),
        ("leave", "left behind: ['left']"),
        ("run_code", "run-by-a-pickle"),
        ("show", "a message holds '\\x1b'"),
    ],
)
def test_what_no_reader_may_do_is_seen(reader, said, monkeypatch):
    monkeypatch.setenv("FUZZ_HANG_S", "1")
    found = list(shards.run_all("1", 0, 3, frozenset({reader})))[-1]
    assert [number for number, _, _ in found.faults] == [0]  # the others of the shard are run all the same
    assert said in found.faults[0][2]
    assert found.cases == 3


def test_a_case_is_the_same_again(tmp_path):
    for number in range(200):
        reader, rng = cases.choice_of("again", number)
        other, again = cases.choice_of("again", number)
        assert reader is other
        assert reader.make(rng) == other.make(again)
        assert rng.random() == again.random()


def test_the_command(tmp_path):
    command = [sys.executable, str(shards.RUN), "--seed", "1"]
    done = subprocess.run([*command, "--cases", "3", "--reader", "raise"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "as case 0: raise: KeyError" in done.stdout
    one = [*command, "--case", "0", "--reader", "raise", "--keep", str(tmp_path)]
    assert subprocess.run(one, capture_output=True, check=False).returncode == 1
    assert (tmp_path / "in.bin").stat().st_size > 0


@pytest.mark.parametrize("raw", samples.traces())
def test_footers_are_read_as_they_were_written(raw, tmp_path):
    body, footer = apart(raw)
    tree, end = thrift.read_struct(footer)
    assert end == len(footer)
    assert together(body, thrift.written(tree)) == raw
    path = tmp_path / "t.parquet"
    path.write_bytes(with_page(body, tree, column_chunks(tree)[0], _pages(raw)))
    with open(path, "rb") as file:
        for _, chunks in read_footer(file):
            for chunk in chunks:
                assert sum(page.values for page in pages_of(file, chunk) if not page.is_dictionary) == chunk.values


def _pages(raw: bytes) -> bytes:
    """The pages of the first column."""
    tree, _ = thrift.read_struct(apart(raw)[1])
    chunk = column_chunks(tree)[0]
    start = thrift.get(chunk, 11) or thrift.get(chunk, 9)
    return raw[start : start + thrift.get(chunk, 7)]
