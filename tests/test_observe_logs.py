"""Request logs as files: what is read, and every fault in words, all at once."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from observe_logs import read

from oracle.errors import InputError
from oracle.observe.request_log import LogForm
from oracle.observe.study import Wanted, study
from oracle.observe.times import named, zone_of

ONE = {
    "request": "q1",
    "arrival": "2026-01-05T08:00:00Z",
    "first_token": "2026-01-05T09:00:01+01:00",
    "end": "2026-01-05T08:00:03.5Z",
    "prompt_ids": [1, 2, 3],
    "output_ids": [4, 5],
}


def written(tmp_path: Path, *rows: Any, name: str = "log.jsonl") -> Path:
    path = tmp_path / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def faults_of(path: Path, **form: Any) -> tuple[str, ...]:
    with pytest.raises(InputError) as refusal:
        read(path, LogForm(**form))
    return tuple(fault.replace(str(path), "log") for fault in refusal.value.faults)


def test_dates_numbers_and_units_are_the_same_moment(tmp_path: Path) -> None:
    begin = datetime(2026, 1, 5, 8, tzinfo=UTC).timestamp()
    numbers = ONE | {"arrival": begin * 1e3, "first_token": begin * 1e3 + 1e3, "end": begin * 1e3 + 3500}
    naive = {"arrival": "2026-01-05T09:00", "first_token": "2026-01-05 09:00:01", "end": "2026-01-05T09:00:03.500"}
    dated = read(written(tmp_path, ONE))
    counted = read(written(tmp_path, numbers), LogForm(time_unit="ms"))
    local = read(written(tmp_path, ONE | naive), LogForm(time_zone=zone_of("Europe/Berlin")))
    for log in (dated, counted, local):
        assert (log.arrival[0], log.first_token[0], log.end[0]) == (begin, begin + 1, begin + 3.5)


@pytest.mark.parametrize("zone", [None, "UTC"])
def test_parquet_holds_the_same_as_json_lines(tmp_path: Path, zone: str | None) -> None:
    rows = [ONE | {"request": str(i), "tenant": "t", "output_ids": [7] * i} for i in range(5)]
    table = pa.Table.from_pylist(rows)
    for name in ("arrival", "first_token", "end"):
        moments = pa.array(
            [datetime.fromisoformat(row[name]).astimezone(UTC) for row in rows], pa.timestamp("ns", "UTC")
        )
        moments = moments if zone else moments.cast(pa.timestamp("ns"))
        table = table.set_column(table.schema.get_field_index(name), name, moments)
    table = table.set_column(4, "prompt_ids", table["prompt_ids"].cast(pa.large_list(pa.uint16())))
    pq.write_table(table.append_column("other", pa.array([{"x": 1}] * 5)), tmp_path / "log.parquet", row_group_size=2)
    found = read(tmp_path / "log.parquet", LogForm(time_zone=None if zone else UTC))
    expected = read(written(tmp_path, *rows))
    for name in ("arrival", "first_token", "end", "prompt_tokens", "output_tokens", "blocks", "rounds"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


def test_the_order_of_a_log_means_nothing(tmp_path: Path) -> None:
    rows = [
        ONE | {"request": i, "arrival": 9 - i, "first_token": 9, "end": 10, "prompt_ids": [1, 2] * i} for i in range(8)
    ]
    forth, back = (study(read(written(tmp_path, *each)), Wanted()) for each in (rows, rows[::-1]))
    assert forth.whole == back.whole
    assert forth.log.blocks.tolist() == back.log.blocks.tolist()


def test_words_bytes_and_counts(tmp_path: Path) -> None:
    row = {"arrival": 0, "end": 2, "prompt": "a été\n a  b", "output": "a été a"}
    path = written(tmp_path, row, row | {"prompt": "", "output": ""})
    words = read(path, LogForm(tokens="words"))
    assert (words.prompt_tokens.tolist(), words.output_tokens.tolist()) == ([4, 0], [3, 0])
    assert words.rounds[0, 0] == 1, "after `a` the lookup proposes `été`"
    assert read(path, LogForm(tokens="bytes")).prompt_tokens.tolist() == [len("a été\n a  b".encode()), 0]
    counts = written(tmp_path, row | {"prompt_tokens": 9, "output_tokens": 0})
    only = read(counts, LogForm(tokens="counts"))
    assert (only.has_tokens, only.prompt_tokens.tolist(), only.output_tokens.tolist()) == (False, [9], [0])
    both = read(counts, LogForm(tokens="words"))
    assert (both.prompt_tokens[0], both.text_tokens[0], both.counts_differ) == (9, 4, 1)


def test_columns_go_by_the_names_of_the_log(tmp_path: Path) -> None:
    theirs = {("created" if key == "arrival" else "end" if key == "request" else key): v for key, v in ONE.items()}
    path = written(tmp_path, {**theirs, "end": ONE["end"], "id": "q1"})
    log = read(path, LogForm(renamed={"arrival": "created", "request": "id"}))
    assert log.end[0] - log.arrival[0] == 3.5


def without(*names: str, **changes: Any) -> dict[str, Any]:
    return {key: value for key, value in ONE.items() if key not in names} | changes


FAULTS: list[tuple[Any, str]] = [
    ([1], "log, line 1[0]: is no object; give one request a line"),
    (without("arrival"), "log, line 1: arrival is missing; add it, or name your column with --column arrival=…"),
    (
        without(arrival="2026-01-05T08:00:00"),
        "log, line 1: arrival is 2026-01-05T08:00:00 without a time zone; add Z or an offset, or give --time-zone",
    ),
    (without(end="soon"), "log, line 1: end is 'soon'; write 2026-01-31T12:00:00Z, or a number"),
    (without(end=True), "log, line 1: end is True; it is a date with a time zone, or a number"),
    (
        without(end=1767600000000),
        "log, line 1: end is 1.7676e+12 s; it lies from 0 up to the year 3058; if these are ms, give --time-unit ms",
    ),
    (without(end=-1), "log, line 1: end is -1 s; it lies from 0 up to the year 3058"),
    (
        without(end="2026-01-05T07:59:58Z"),
        "log, line 1: end lies 2 s before arrival; were they swapped, or read off two clocks?",
    ),
    (
        without(first_token="2026-01-05T08:00:04Z"),
        "log, line 1: first_token lies outside arrival … end; take all three off one clock",
    ),
    (without(tenant=" "), "log, line 1: tenant is ' '; it is a text that is not blank"),
    (
        without(output_ids=[1, -1]),
        "log, line 1: output_ids is no list of token ids (whole numbers from 0 on)",
    ),
    (
        without("prompt_ids", prompt="hi"),
        "log, line 1: prompt_ids is missing; take its text with --tokens words or --tokens bytes (prompt is there), or "
        "use --tokens counts, which leaves texts out",
    ),
    (
        without("output_ids", output_tokens=3),
        "log, line 1: output_ids is missing; add them, or use --tokens counts, which leaves texts out",
    ),
    (
        without(prompt_tokens=4),
        "log, line 1: prompt_tokens is 4, but prompt_ids holds 3; take both from the same response, or leave the count "
        "out",
    ),
    (
        without(prompt_tokens=-4),
        "log, line 1: prompt_tokens is -4; it is a number of tokens, 0 … 67108864",
    ),
]


@pytest.mark.parametrize(("row", "fault"), FAULTS)
def test_a_fault_is_said_with_its_place_and_the_way_out(tmp_path: Path, row: Any, fault: str) -> None:
    assert fault in faults_of(written(tmp_path, row))


def test_all_faults_at_once(tmp_path: Path) -> None:
    assert set(faults_of(written(tmp_path, *[row for row, _ in FAULTS[1:]]))) >= {
        fault.replace("line 1", f"line {i}") for i, (_, fault) in enumerate(FAULTS[1:], 1)
    }


def test_faults_of_the_whole_log(tmp_path: Path) -> None:
    again = faults_of(written(tmp_path, ONE, ONE | {"tenant": "t"}, without("request")))
    assert again == (
        "log, line 2: the id 'q1' was there before (log, line 1); each request has its own: is it logged twice?",
        "tenant is given in 1 of 3 requests; give it in all of them or in none",
    )
    assert faults_of(written(tmp_path, without(prompt="x")), tokens="words") == (
        "log, line 1: output is missing; --tokens words needs it as a text ('' if it is empty)",
    )
    assert faults_of(written(tmp_path, ONE), tokens="counts") == (
        "log, line 1: prompt_tokens is missing; --tokens counts needs it",
        "log, line 1: output_tokens is missing; --tokens counts needs it",
    )
    many = written(tmp_path, *[{"request": i} for i in range(900)])
    assert len(faults_of(many)) == 1000, "a log of another kind is not read to its end"


def test_an_hour_that_clocks_show_twice(tmp_path: Path) -> None:
    twice = {name: f"2026-10-25T02:30:0{i}" for i, name in enumerate(("arrival", "first_token", "end"))}
    zone = zone_of("Europe/Berlin")
    said = faults_of(written(tmp_path, ONE | twice), time_zone=zone)
    assert said[0] == (
        "log, line 1: arrival is 2026-10-25T02:30:00, which the clocks of the time zone show twice or never that day; "
        "give an offset"
    )
    hours = [datetime(2026, 10, 25, h, tzinfo=UTC).timestamp() for h in (0, 1)]
    assert [named(h, zone, True) for h in hours] == ["2026-10-25 02:00 +0200", "2026-10-25 02:00 +0100"]


def test_files_that_are_no_logs(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1]}), tmp_path / "other.parquet")
    assert "has none of the columns of a request log (arrival, end, " in faults_of(tmp_path / "other.parquet")[0]
    (tmp_path / "text").write_text("hello")
    assert "is not a Parquet file" in faults_of(tmp_path / "text")[0]
    (tmp_path / "nothing").write_text("")
    assert "the file is empty" in faults_of(tmp_path / "nothing")[0]
    assert "is no file; give request logs" in faults_of(tmp_path)[0]
    (tmp_path / "none.json").write_text("[]")
    assert faults_of(tmp_path / "none.json") == ("the logs hold no requests; give files with at least one",)
    with pytest.raises(InputError, match="'Nowhere/Town' is no time zone; name one as UTC or Europe/Berlin"):
        zone_of("Nowhere/Town")


def test_logs_in_which_no_time_passes_or_too_much(tmp_path: Path) -> None:
    still = ONE | {"arrival": 5, "first_token": 5, "end": 5}
    with pytest.raises(InputError, match="every request begins and ends at one moment"):
        study(read(written(tmp_path, still)), Wanted())
    long = read(written(tmp_path, still, ONE | {"request": "other"}))
    with pytest.raises(InputError, match=r"span 491,\d{3} hours, 491,\d{3} slots, of which 10,000 are the most"):
        study(long, Wanted())
    with pytest.raises(InputError, match="--interval-by cluster: the logs have no column cluster"):
        study(read(written(tmp_path, ONE)), Wanted(unit="cluster"))
