"""The chain that the README shows: what `observe` measures of a log is what `levers` decides with."""

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import naive_observe as naive
import numpy as np
import pytest
from in_process import printed
from naive_observe import Logged
from observe_logs import gathered, trees
from test_cli import CASES

from oracle.levers.matches import READINGS
from oracle.observe import repetitiveness as lookup
from oracle.observe.regimes import ObservedRegime
from oracle.observe.study import Wanted, study
from oracle.observe.traffic_csv import as_csv
from oracle.summaries.observe import slots_table

LOG = CASES / "observe" / "requests.jsonl"
DEPLOYMENT = CASES / "levers" / "deployment.toml"
ASKED = ("observe", LOG, "--slot-minutes", "60", "--cache-tokens", "4096")
INTERVALS = ("autocorrelation_low", "autocorrelation_high")


def tables_of(*arguments: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(printed(*arguments, "--json"))["tables"]
    return found


def rows_of(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text("utf-8").splitlines()))


def written(path: Path, rows: list[dict[str, str]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


@pytest.mark.parametrize("reading", READINGS)
def test_the_chain_decides_as_values_typed_by_hand(reading: str, tmp_path: Path) -> None:
    seen = tables_of(*ASKED, "--reading", reading, "-o", tmp_path / "traffic.csv")
    (row,) = rows_of(tmp_path / "traffic.csv")
    (measured,) = (each for each in seen["readings"]["rows"] if each["reading"] == reading)
    assert row["reading"] == reading
    assert row.get("autocorrelation", "None") == str(measured["autocorrelation"])
    exact = {name: value for name, value in row.items() if name not in INTERVALS}
    chained = tables_of("levers", DEPLOYMENT, "--traffic", written(tmp_path / "exact.csv", [exact]))
    x = row.get("autocorrelation", "0")
    typed = DEPLOYMENT.read_text("utf-8").replace(
        "[speculation]\n", f'[speculation]\nreading = "{reading}"\nautocorrelation = {x}\n'
    )
    (tmp_path / "typed.toml").write_text(typed, "utf-8")
    bare = {name: value for name, value in exact.items() if name not in ("reading", "autocorrelation")}
    by_hand = tables_of("levers", tmp_path / "typed.toml", "--traffic", written(tmp_path / "bare.csv", [bare]))
    said = [each["value"] for each in chained["levers"]["rows"] if each["value"].startswith("matches follow")]
    assert len(said) == (reading != "independent")
    chained["levers"]["rows"] = [each for each in chained["levers"]["rows"] if each["value"] not in said]
    assert chained == by_hand
    whole = next(each for each in chained["levers_break_even"]["rows"] if each["precision"] == "FP16")  # eta is 1
    inside = measured["observed_low"] <= whole["round_length"] <= measured["observed_high"]
    assert inside == (reading != "independent"), "as played, the matches of this log follow one another"


def test_every_slot_of_the_series_goes_with_its_own(tmp_path: Path) -> None:
    printed("observe", LOG, "--slot-minutes", "10", "--cache-tokens", "4096", "-o", tmp_path / "traffic.csv")
    rows = rows_of(tmp_path / "traffic.csv")
    found = tables_of("levers", DEPLOYMENT, "--traffic", tmp_path / "traffic.csv")
    slots = found["levers_slots"]["rows"]
    assert [str(each["autocorrelation"]) for each in slots] == [row["autocorrelation"] for row in rows]
    assert all(each["speculation_on"] for each in slots)
    bare = [{name: row[name] for name in row if not name.startswith(("autocorrelation", "reading"))} for row in rows]
    independent = tables_of("levers", DEPLOYMENT, "--traffic", written(tmp_path / "bare.csv", bare))
    assert [each["speculation_on"] for each in independent["levers_slots"]["rows"]] == [
        True,
        False,
        True,
        True,
        True,
        False,
    ]
    values = {each["parameter"]: each["value"] for each in found["levers_parameters"]["rows"]}
    stated = sorted(float(row["autocorrelation"]) for row in rows)
    assert values["speculation.autocorrelation"] == [stated[0], stated[-1]]


def copies(n: int, breaks: int = 0) -> list[Logged]:
    """Outputs of new tokens and one copied run to the end: after a match nothing ever fails, but in some requests."""
    found = []
    for i in range(n):
        prompt = tuple(range(1000 * i, 1000 * i + 60))
        copied = (*prompt[20:25], 7_000_000 + i) if i < breaks else prompt[50:60]
        output = (*range(5_000_000 + 100 * i, 5_000_000 + 100 * i + 8), *copied)
        found.append(Logged(10 * i, 10 * i + 1, 10 * i + 9, prompt, output, ""))
    return found


@pytest.mark.parametrize("reading", ["stationary", "gated", "renewal"])
def test_a_chain_that_never_ends_is_bounded_by_what_the_log_carries(reading: Any, tmp_path: Path) -> None:
    log = copies(12)
    found = study(gathered(log), Wanted(unit="request", reading=reading)).whole
    total = [
        sum(column) for column in zip(*(naive.lookup_counts(r.prompt, r.output, 1, 3, 8) for r in log), strict=True)
    ]
    tried, passed = (sum(total[1:8]), sum(total[9:16])) if reading == "stationary" else (total[24], total[25])
    assert tried == passed > 0
    r = total[8] / total[16] if reading == "stationary" else total[23] / total[22]
    assert found.never_ends
    assert found.autocorrelation == pytest.approx((tried / (tried + 1) - r) / (1 - r), rel=1e-12)
    assert found.autocorrelation is not None
    assert found.autocorrelation < 1
    assert found.autocorrelation_interval is not None
    assert found.autocorrelation_interval.low == pytest.approx((0.025 ** (1 / 12) - r) / (1 - r), rel=1e-9)
    assert found.autocorrelation <= found.autocorrelation_interval.high < 1
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in trees(log)))
    said = printed("observe", path, "--reading", reading, "-o", tmp_path / "s.csv")
    assert "every match was followed by a match (00:00, all): x is at most what the log carries" in said
    assert f"{reading} with x = 0.9" in printed("levers", DEPLOYMENT, "--traffic", tmp_path / "s.csv")
    ended = study(gathered(copies(12, breaks=1)), Wanted(unit="request", reading=reading)).whole
    assert not ended.never_ends


def test_what_a_slot_does_not_tell_is_between_none_and_that_of_all_requests() -> None:
    log = copies(12, breaks=4)
    apart = [
        Logged(7200 + i, 7201 + i, 7209 + i, tuple(range(9 * 10**6, 9 * 10**6 + 9)), (1, 2, 3), "") for i in range(3)
    ]
    found = study(gathered([*log, *apart]), Wanted(unit="request"))
    told, silent = found.by_slot
    assert told.autocorrelation is not None
    assert (silent.repetitiveness, silent.autocorrelation) == (0.0, None)
    first, second = csv.DictReader(as_csv(found.by_slot, "stationary", found.whole).splitlines())
    assert float(first["autocorrelation"]) == told.autocorrelation
    assert float(second["autocorrelation"]) == pytest.approx(told.autocorrelation, rel=1e-12)
    assert found.whole.autocorrelation_interval is not None
    assert float(second["autocorrelation_low"]) == 0
    assert float(second["autocorrelation_high"]) == found.whole.autocorrelation_interval.high
    other = replace(told, slot="another", autocorrelation=0.2, tried=3 * told.tried)
    *_, third = csv.DictReader(as_csv([told, other, silent], "stationary", found.whole).splitlines())
    assert float(third["autocorrelation"]) == pytest.approx((told.autocorrelation + 3 * 0.2) / 4, rel=1e-12)
    assert (
        "1 of 2 rows tell no x: the series has the mean of the others', weighted by their tokens after a match there, "
        "in an interval from 0 to the upper end of that of all requests"
    ) in slots_table(found).notes


def test_nothing_matches_and_matches_that_alternate() -> None:
    apart = [
        Logged(i, i + 1, i + 9, tuple(range(99 * i, 99 * i + 9)), (10**6 + i, 2 * 10**6 + i), "") for i in range(9)
    ]
    nothing = study(gathered(apart), Wanted(unit="request"))
    assert nothing.whole.autocorrelation is None
    (row,) = csv.DictReader(as_csv(nothing.by_slot, "stationary", nothing.whole).splitlines())
    assert (row["autocorrelation"], "autocorrelation_low" in row) == ("0.0", False)
    totals = np.zeros(2 * 2 + 12)
    totals[:5] = (100, 80, 80, 40, 100)  # first tokens: 80 of 100; after a match: 40 of 80
    assert float(lookup.autocorrelation(totals, "stationary")) == pytest.approx((0.5 - 0.8) / 0.2)
    independent = study(gathered(copies(12)), Wanted(unit="request", reading="independent")).whole
    assert (independent.autocorrelation, independent.autocorrelation_interval) == (None, None)


def test_the_interval_of_x_holds_what_was_measured() -> None:
    found: ObservedRegime = study(gathered(copies(20, breaks=6)), Wanted(unit="request")).whole
    assert found.autocorrelation is not None
    assert found.autocorrelation_interval is not None
    assert 0 < found.autocorrelation_interval.low <= found.autocorrelation <= found.autocorrelation_interval.high < 1
    doubled = study(gathered([begun(r, i) for i, r in enumerate(copies(20, breaks=6) * 4)]), Wanted(unit="request"))
    narrower = doubled.whole.autocorrelation_interval
    assert narrower is not None
    assert narrower.high - narrower.low < found.autocorrelation_interval.high - found.autocorrelation_interval.low


def begun(logged: Logged, i: int) -> Logged:
    return logged._replace(arrival=10 * i, first_token=10 * i + 1, end=10 * i + 9)


def test_levers_that_ran_before_go_with_the_chain_too(tmp_path: Path) -> None:
    """Without [traffic] of its own the earlier deployment is asked about the traffic as it is now, x included."""
    printed(*ASKED, "-o", tmp_path / "traffic.csv")
    found = tables_of("levers", DEPLOYMENT, "--traffic", tmp_path / "traffic.csv", "--earlier", DEPLOYMENT)
    row = next(each for each in found["levers_change"]["rows"] if each["lever"] == "speculation")
    assert (row["needed_before"], row["gain_before"]) == (row["needed_after"], row["gain_after"])
    assert not row["invalidated"]
