"""What a crossover says against itself: few clusters, exits that the schedule does not reach, prices that turn K."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from test_cli import TINY, succeeded
from test_crossover_token_price import answered, of

from oracle.crossover.readings import Reading, readings
from oracle.summaries.crossover_headline import engine_remarks, headline
from oracle.summaries.crossover_prices import doubts
from oracle.summaries.crossover_texts import as_priced, exits, other_lengths, reservation, unknown

ASKED = ("--max-batch-size", "4", "--paths", "20", "--engine", "vllm", "--method", "mtp")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "model.json"
    succeeded("fit", TINY / "rounds-grouped_mm.parquet", "-o", path)
    return path


def test_drafts_from_one_cluster_are_provisional(model: Path, tmp_path: Path) -> None:
    one = tmp_path / "one.parquet"
    pq.write_table(pq.read_table(TINY / "traces.parquet").slice(0, 1), one)
    said = succeeded("crossover", one, "-m", model, *ASKED)
    few = "not enough data: 1 cluster, fewer than 10: provisional"
    assert f"  {few}\n" in said
    assert f"\n# {few}\n" in said
    assert " of 1 generation, 1 cluster; starts are" in said
    assert "holds a cluster twice (1 cluster): what it" in said
    assert "not enough data:" not in succeeded("crossover", TINY / "traces.parquet", "-m", model, *ASKED)


def test_a_reservation_is_of_traces_only() -> None:
    found = answered(of((3.0, 3.2, 3.3)), off_ms=2.0, token_ms=0.05)
    assert not reservation(found)  # by formula: no clusters, no intervals
    nine, ten = (replace(found, traffic=replace(found.traffic, clusters=n)) for n in (9, 10))
    assert headline(nine)[0] == "not enough data: 9 clusters, fewer than 10: provisional"
    assert reservation(ten) == f"not enough data: no intervals at batch sizes 1 … {found.most}: provisional"
    sure = replace(ten, half_width=np.where(np.isnan(found.speed_up), np.nan, 0.01))
    assert not reservation(sure)
    assert not engine_remarks(sure, []).startswith("# not enough data")


def test_exits_stand_beside_the_ranges_that_are_set() -> None:
    model = of((3.0, 3.2, 3.3, 3.7, 3.75, 4.1))
    found = answered(model, 0.45, 256)
    again = readings(found, model)
    assert as_priced(found) == f"as priced, {exits(found)}"  # nothing counts as noise: the ranges end at the exit
    last = found.crossings.intervals[-1][1]
    early = replace(found, ranges=(((1, last - 1), 1), ((last, found.most), 0)), noise=0.02)
    said = f"# as priced, {exits(found)} (K = 0 set from {last} on: not faster by more than 2 % there)\n# if a "
    assert said in engine_remarks(early, again)
    never = replace(found, ranges=(((1, found.most), 0),))
    assert as_priced(never) == f"as priced, {exits(found)} (K = 0 set from 1 on: not faster at all there)"
    assert "as priced" not in engine_remarks(early, [])


def test_prices_that_turn_the_length_alone_are_said() -> None:
    found = answered(of((3.0, 3.2, 3.3)), 0.8, 8, token_ms=0.01)
    turned = replace(found, ranges=(((1, 3), found.ranges[0][1] + 1), ((4, 8), int(found.scheduled[-1]))))
    at = np.flatnonzero(turned.scheduled != found.scheduled) + 1
    assert exits(turned) == exits(found)
    end = Reading("token", "1 ms", True, turned)
    said = f"if a further token takes 1 ms, another K would be set at batch sizes {at[0]} … {at[-1]}"
    assert other_lengths(found, [end]) == [said]
    assert f"the draft lengths rest on prices that were not timed: {said}" in headline(found, [end])
    assert f"# {said}\n" in engine_remarks(found, [end])
    for other in (replace(end, answer=found), replace(end, end=False), replace(end, answer=None)):
        assert not other_lengths(found, [other])


def test_base_times_of_nothing_are_doubted() -> None:
    assert not doubts(of((0.1, 3.2)))
    (said,) = doubts(of((-0.363, 0.0, 3.2)))
    assert said.startswith("beta0 is 0 or less at m = 1, 2 (down to -0.363 ms): no pass has such a base time, and ")


def test_where_a_round_without_drafts_has_no_price_its_option_is_named() -> None:
    model = of((3.0,), first_m=2)
    (said, *_) = unknown(answered(model))
    assert said.endswith(
        "state it with --token-ms, and the base time of K = 0, which has no price at batch size 1, with --off-ms"
    )
    assert "--off-ms" not in unknown(answered(of((1.0, 2.0))))[0]
