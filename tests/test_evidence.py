"""Gathering rounds for diagnostics: files, factors, columns to compare."""

import numpy as np
import pytest
from latency_simulation import simulated

from oracle.errors import InputError
from oracle.latency.evidence import gather_evidence
from oracle.rounds import Rounds


def rounds(source="a.parquet", seed=0, **columns):
    frame = simulated(rounds_per_k=40, questions=8, ks=(1, 2), seed=seed)
    return Rounds.from_pandas(frame.assign(round_index=np.arange(len(frame)), **columns), source)


def test_files_that_count_anew_are_put_one_behind_the_other():
    parts = [rounds("a.parquet"), rounds("b.parquet", seed=1), rounds("c.parquet", seed=2)]
    evidence = gather_evidence(parts)
    assert evidence.columns["round_index"].tolist() == list(range(240))
    (note,) = evidence.notes
    assert note.startswith("round_index begins anew in some of 3 files: rounds are put in order by file")
    assert note.endswith("a.parquet, b.parquet, c.parquet")


def test_batches_of_one_file_and_files_of_one_recording_keep_their_order():
    whole = simulated(rounds_per_k=40, questions=8, ks=(1, 2)).assign(round_index=np.arange(80)[::-1])
    halves = [whole.iloc[:40], whole.iloc[40:]]
    for sources in (("a", "a"), ("a", "b")):
        parts = [Rounds.from_pandas(half, source) for half, source in zip(halves, sources, strict=True)]
        evidence = gather_evidence(parts)
        assert evidence.columns["round_index"].tolist() == list(range(80))[::-1]
        assert evidence.notes == ()
    interleaved = [Rounds.from_pandas(whole.iloc[i::2], str(i)) for i in (0, 1)]
    assert gather_evidence(interleaved).notes == ()


def test_other_columns_of_unique_experts_are_compared_and_no_factors():
    rng = np.random.default_rng(0)
    more = {"unique_experts_b": rng.normal(size=80), "unique_experts_name": "x", "other": 1.0}
    evidence = gather_evidence(rounds(**more))
    assert evidence.compared == ("unique_experts_b",)
    assert evidence.factors == ("unique_experts", "verified_positions", "context_len")
    assert evidence.moments.names == (*evidence.factors, "target_ms")
    assert evidence.columns["unique_experts_b"].tolist() == more["unique_experts_b"].tolist()
    assert "unique_experts_name" not in evidence.columns
    named = gather_evidence(rounds(**more), further=("unique_experts_b",))
    assert named.factors[-1] == "unique_experts_b"
    assert named.compared == ("unique_experts_b",)


def test_factors_named_twice_or_gathered_anyway():
    for further in (("other", "other"), ("position",), ("round_index",), ("context_len",), ("round_index", "position")):
        given = rounds(other=np.arange(80.0) % 7, position=np.arange(80) % 9)
        evidence = gather_evidence(given, further=further)
        assert set(further) < set(evidence.factors)
        assert all(len(values) == 80 for values in evidence.columns.values())


@pytest.mark.parametrize("name", ["target_ms", "draft_ms"])
def test_times_are_no_factors(name):
    with pytest.raises(InputError, match=f"{name} is what the factors explain and none itself"):
        gather_evidence(rounds(), further=(name,))


def test_factors_left_out_and_why():
    odd = np.where(np.arange(80) < 3, np.inf, np.arange(80.0))
    evidence = gather_evidence(rounds(odd=odd, same=1.0), further=("odd", "same"))
    assert evidence.left_out["odd"] == "3 rounds have no finite value"
    assert evidence.left_out["same"] == "does not vary"
    assert evidence.left_out["kv_usage"] == "not recorded"
