"""Chosen decisions against a search through all of them, whatever the batches; what is said where none is found."""

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import naive
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from traces_factory import lists, rows, trace_table

from oracle.errors import InputError
from oracle.illustrations import COLUMNS, Chosen, Search, choose_cases, choose_gallery
from oracle.illustrations.candidates import Candidate, shortened
from oracle.illustrations.cases import pick_cases
from oracle.illustrations.gallery import pick_gallery
from oracle.illustrations.gallery_rules import RULES
from oracle.illustrations.texts import dedents, script_changes, sentence_starts, tags
from oracle.latency.model import LatencyModel
from oracle.traces import TraceFiles

K = 6
LENGTHS = (40, 0, 60, 33, 1, 50, 45, 38, 52, 41)
VOCABULARY = (
    " the",
    " word",
    ".",
    " The",
    "\n",
    "\n    ",
    "    ",
    "<",
    "a",
    "</",
    "слово",
    " и",
    "=",
    "()",
    ". So",
    ">",
)
TESTS = {"dedent": dedents, "sentence": sentence_starts, "tag": tags, "script": script_changes}
MODEL = {
    "format": "draft-oracle/latency-model",
    "version": 1,
    "verify": {
        "m": list(range(1, K + 2)),
        "beta0_ms": [4.0, 4.5, 5.0, 5.5, 6.0, 6.4, 6.8],
        "alpha_ms_per_expert": [0.3] * (K + 1),
        "context_ms_per_token": 0.001,
    },
    "draft": {"ms_per_token": 0.4, "base_ms": 0.1},
    "reject_ms": 0.0,
}
COSTS = naive.Costs(
    beta0=MODEL["verify"]["beta0_ms"],  # type: ignore[index]
    draft=[0.0, *(0.4 * k + 0.1 for k in range(1, K + 1))],
    reject=[0.0] * (K + 1),
    alpha=[0.3] * (K + 1),
    context=[0.001] * (K + 1),
    lengths=list(range(K + 1)),
)


def random_table(seed: int, **columns: Any) -> pa.Table:
    """Traces whose drafts mostly match, with texts from a small vocabulary."""
    rng, n = np.random.default_rng(seed), sum(LENGTHS)
    ids = rng.integers(0, len(VOCABULARY), n).astype(np.int32)
    after = np.concatenate([ids, np.zeros(K, np.int32)])[np.arange(n)[:, None] + np.arange(K)]
    proposed = np.where(rng.random((n, K)) < 0.9, after, (after + 1) % len(VOCABULARY)).astype(np.int32)
    unique = np.cumsum(np.concatenate([np.full((n, 1), 2.0), rng.uniform(0.0, 2.0, (n, K))], axis=1), axis=1)
    return trace_table(
        LENGTHS,
        K=K,
        seed=seed,
        num_experts=16,
        layers=2,
        drop=("experts", "new_experts", "draft_text"),
        category=[("code", "prose", None)[g % 3] for g in range(len(LENGTHS))],
        cluster=[f"p{g // 2}" for g in range(len(LENGTHS))],
        match_prob=lists(LENGTHS, np.where(rng.random(n) < 0.85, rng.uniform(0.75, 1.0, n), 0.3).astype(np.float32)),
        token_id=lists(LENGTHS, ids),
        token_text=lists(LENGTHS, pa.array([VOCABULARY[i] for i in ids])),
        draft_token_id=rows(LENGTHS, proposed),
        unique_experts=rows(LENGTHS, unique.astype(np.float32)),
        **columns,
    )


@cache
def decisions(seed: int) -> list[dict[str, Any]]:
    """Every decision from the definitions, in the order of the traces."""
    found = []
    for g, row in enumerate(random_table(seed).to_pylist()):
        tokens, N = row["token_text"], len(row["token_text"])
        one = naive.Generation(naive.by_depth(row["match_prob"], K), row["unique_experts"], row["context_start"])
        answer = naive.ablate(one, COSTS)
        visit = naive.visit_probs(one, answer.full.draft_length) if N else []
        boundary = {name: set(test(tokens)) for name, test in TESTS.items()}
        for t in range(N):
            k, q = answer.full.draft_length[t], answer.full.q[t]
            pairs = zip(row["draft_token_id"][t], row["token_id"][t : t + K], strict=False)
            agree = [proposed == emitted for proposed, emitted in pairs]
            found.append(
                {
                    "order": g, "generation": row["generation"], "cluster": row["cluster"], "position": t,
                    "category": row["category"] or "", "k": k, "boundary": k, "shift": answer.shift[t],
                    "next_q": answer.next_q_ms[t], "step": q[k + 1] - q[k] if k < K else None, "visit": visit[t],
                    "p": row["match_prob"][t + k] if k < K and t + k < N else None, "settled": t + K < N,
                    "matches": agree.index(False) if False in agree else len(agree), "drafted": tokens[t : t + k],
                    "at": {name: {i - t for i in places} for name, places in boundary.items()},
                    "U": row["unique_experts"][t],
                }
            )  # fmt: skip
    return found


def search_of(tmp_path: Path, table: pa.Table, batch_bytes: int = 8 << 20, threads: int = 1) -> Search:
    path = tmp_path / "traces.parquet"
    pq.write_table(table, path, row_group_size=4)
    there = [name for name in COLUMNS if name in table.column_names]
    files = TraceFiles(path, columns=there, batch_bytes=batch_bytes)
    return Search(files, LatencyModel.from_json(json.dumps(MODEL)), 0, K, threads=threads)


def chosen(found: Chosen) -> list[tuple[Any, ...]]:
    return [
        (one.candidate.rule, one.candidate.generation, one.candidate.position, one.candidate.draft_length)
        for one in found.illustrations
    ]


def cases_by_definition(seed: int, count: int) -> list[tuple[Any, ...]]:
    good = [
        d for d in decisions(seed)
        if d["shift"] > 0 and d["p"] is not None and d["p"] >= 0.8 and d["next_q"] < 0 and d["visit"] >= 0.05
        and d["settled"]
    ]  # fmt: skip
    good.sort(key=lambda d: (round(d["next_q"] * d["visit"], 9), d["order"], d["position"]))
    picked: list[dict[str, Any]] = []
    for new in (("boundary", "category", "cluster"), ("boundary", "cluster"), ("boundary",), ("cluster",), ()):
        for d in good:
            apart = all(d[name] not in {other[name] for other in picked} for name in (*new, "generation"))
            if apart and len(picked) < count:
                picked.append(d)
    return [("case", d["generation"], d["position"], d["k"]) for d in picked]


def satisfied(rule: str, d: dict[str, Any]) -> float | None:
    """The effect of a decision that satisfies a rule of the gallery; None for one that does not."""
    k, text, at, step = d["k"], "".join(d["drafted"]), d["at"], d["step"]
    tokens, cost, full = k * d["visit"], (step or 0.0) * d["visit"], k >= 4 and d["matches"] >= k
    markup, symbol = bool(set(text) & set("<>")), bool(set(text) & set("(){}[]=;_#\\"))
    latin = sum(any("a" <= c.lower() <= "z" for c in token) for token in d["drafted"])
    cyrillic = any("а" <= c.lower() <= "я" for c in text)
    short = k <= 1 and step is not None and step > 0
    new = np.diff(d["U"])
    fall = float(new[d["matches"] - 2] - new[d["matches"] - 1]) if 2 <= d["matches"] < K else 0.0
    answers = {
        "markup": (full and markup, tokens),
        "code": (full and symbol and not markup, tokens),
        "Latin words": (full and not markup and not symbol and latin >= 2 and not cyrillic, tokens),
        "another script": (full and not markup and not symbol and cyrillic, tokens),
        "dedent": (short and k in at["dedent"], cost),
        "sentence": (short and k in at["sentence"], cost),
        "tag": (short and k in at["tag"], cost),
        "script change": (short and k in at["script"], cost),
        "long over a boundary": (k >= 4 and bool((at["dedent"] | at["sentence"]) & set(range(k))), tokens),
        "past a mismatch": (d["matches"] + 1 < k and fall > 0, fall * d["visit"]),
        "short though likely": (short and d["p"] is not None and d["p"] >= 0.8, cost),
        "longest over a script change": (k == K and bool(at["script"] & set(range(k))), tokens),
    }
    holds, effect = answers[rule]
    return effect if holds and d["visit"] >= 0.05 and d["settled"] else None


def gallery_by_definition(seed: int, taken: Sequence[str]) -> tuple[list[tuple[Any, ...]], dict[str, int]]:
    """What the rules pick, in their order, and how many decisions satisfy each."""
    everything, names = decisions(seed), [rule.name for rule in RULES]
    ranked: dict[str, list[dict[str, Any]]] = {}
    for name in names:
        good = [(effect, d) for d in everything if (effect := satisfied(name, d)) is not None]
        ranked[name] = [d for _, d in sorted(good, key=lambda e: (-round(e[0], 9), e[1]["order"], e[1]["position"]))]
    cluster = {d["generation"]: d["cluster"] for d in everything}
    generations, clusters = set(taken), {cluster[name] for name in taken}
    picked = {}
    for name in sorted(names, key=lambda name: len({d["generation"] for d in ranked[name]})):
        free = [d for d in ranked[name] if d["generation"] not in generations]
        apart = [d for d in free if d["cluster"] not in clusters]
        for d in (apart or free)[:1]:
            picked[name] = (name, d["generation"], d["position"], d["k"])
            generations.add(d["generation"])
            clusters.add(d["cluster"])
    return [picked[name] for name in names if name in picked], {name: len(ranked[name]) for name in names}


@pytest.mark.parametrize("seed", range(6))
def test_cases_are_those_of_a_search_through_all_decisions(seed: int, tmp_path: Path) -> None:
    search = search_of(tmp_path, random_table(seed))
    for count in (1, 4, 8):
        expected = cases_by_definition(seed, count)
        found = choose_cases(search, count)
        assert chosen(found) == expected
        assert bool(found.missing) == (len(expected) < count)
    assert len(cases_by_definition(seed, 4)) > 1


@pytest.mark.parametrize("seed", range(6))
def test_the_gallery_is_that_of_a_search_through_all_decisions(seed: int, tmp_path: Path) -> None:
    search = search_of(tmp_path, random_table(seed))
    cases = choose_cases(search, 2)
    for besides, taken in ((None, []), (cases, sorted(cases.generations))):
        found = choose_gallery(search, besides)
        expected, counts = gallery_by_definition(seed, taken)
        assert chosen(found) == expected
        assert len(found.illustrations) + len(found.missing) == len(RULES)
        said = "; ".join(f"{name} {count:,}" for name, count in counts.items())
        assert found.found == (f"decisions that satisfy each rule: {said}",)
    shown = [name for _, name, *_ in chosen(found)]
    assert len(set(shown)) == len(shown) > 1
    assert not set(shown) & cases.generations


def test_every_rule_is_satisfied_somewhere() -> None:
    """Else the comparison above would say nothing of it."""
    for rule in RULES:
        assert any(satisfied(rule.name, d) is not None for seed in range(6) for d in decisions(seed)), rule.name


def test_the_choice_depends_neither_on_batches_nor_on_threads(tmp_path: Path) -> None:
    answers = []
    for batch_bytes, threads in ((8 << 20, 1), (1, 1), (20_000, 3)):
        search = search_of(tmp_path, random_table(3), batch_bytes, threads)
        counted: list[int] = []
        cases = choose_cases(search, 4, on_batch=counted.append)
        assert sum(counted) == len(LENGTHS)
        assert len(counted) == (len(LENGTHS) if batch_bytes == 1 else len(counted))
        gallery = choose_gallery(search, cases)
        both = [one.candidate for found in (cases, gallery) for one in found.illustrations]
        answers.append((both, cases.found, gallery.found, gallery.missing))
    assert answers[0] == answers[1] == answers[2]


CANDIDATES = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 2), st.integers(0, 3), st.integers(0, 4)), max_size=30
)  # cluster, category, k*, effect: one generation each, with few different effects, so that ties occur


@settings(max_examples=200, deadline=None)
@given(CANDIDATES, st.integers(1, 6))
def test_a_shortlist_loses_nothing_that_would_be_chosen(drawn: list[tuple[int, ...]], count: int) -> None:
    candidates = [
        Candidate(str(k), g, f"g{g}", f"p{cluster}", str(category), g % 7, k, float(effect))
        for g, (cluster, category, k, effect) in enumerate(drawn)
    ]
    strata: dict[tuple[str, str], list[Candidate]] = {}
    for one in candidates:
        stratum = (one.boundary, one.category)
        strata[stratum] = shortened([*strata.get(stratum, []), one], count)
    kept = [one for several in strata.values() for one in several]
    assert pick_cases(kept, count) == pick_cases(candidates, count)
    by_rule = {str(k): sorted((c for c in candidates if c.draft_length == k), key=lambda c: c.rank) for k in range(4)}
    choices = {name: len(several) for name, several in by_rule.items()}
    short = {name: shortened(several, len(by_rule)) for name, several in by_rule.items()}
    assert pick_gallery(short, choices, []) == pick_gallery(by_rule, choices, [])


def test_what_is_not_found_is_said(tmp_path: Path) -> None:
    nothing = random_table(0, decoding=["greedy"] * len(LENGTHS))
    index = nothing.column_names.index("match_prob")
    never = lists(LENGTHS, np.zeros(sum(LENGTHS), np.float32))
    search = search_of(tmp_path, nothing.set_column(index, "match_prob", never))
    cases = choose_cases(search, 3)
    assert cases.illustrations == ()
    assert cases.missing == ("3 cases were asked for; no other generation holds a decision that satisfies the rule",)
    assert cases.found[0].startswith("360 decisions; 0 get longer under the changed cost (k0* > k*); 0 and")
    gallery = choose_gallery(search, cases)
    assert "regular continuation, markup: no decision of these traces satisfies the rule" in gallery.missing


def test_a_rule_whose_generations_are_all_shown_says_so() -> None:
    one = Candidate("a", 0, "g0", "p0", "", 3, 1, 1.0)
    found = pick_gallery({"a": [one], "b": [one], "c": []}, {"a": 1, "b": 1, "c": 0}, [])
    assert found == {
        "a": (one, ("cluster", "generation")),
        "b": "all generations with a decision that satisfies the rule are shown already",
        "c": "no decision of these traces satisfies the rule",
    }


def test_a_gallery_without_texts_is_refused_and_cases_are_not(tmp_path: Path) -> None:
    search = search_of(tmp_path, random_table(1).drop_columns(["token_text", "draft_token_id"]))
    assert len(choose_cases(search, 2).illustrations) == 2
    with pytest.raises(InputError) as refusal:
        choose_gallery(search)
    assert str(refusal.value) == (
        f"{tmp_path}/traces.parquet: the gallery is chosen by texts and recorded proposals, and needs the columns "
        "token_text, token_id, draft_token_id; the trace lacks token_text, draft_token_id: record them, or ask for "
        "cases only"
    )
