"""What `record` does without torch: prompts, settings, prompt lookup, unique experts of rejected tails."""

import importlib.util
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from oracle.cli.main import group
from oracle.errors import InputError
from oracle.recorder.lookup import conditional, proposals
from oracle.recorder.prompts import Prompt, read_prompts
from oracle.recorder.settings import Settings
from oracle.recorder.unique import expected_unique, touched, unique_of_chains


def lines(path: Path, *records: Any) -> Path:
    path.write_text("\n".join(r if isinstance(r, str) else json.dumps(r) for r in records) + "\n", "utf-8")
    return path


def test_prompts_as_people_write_them(tmp_path: Path) -> None:
    path = lines(
        tmp_path / "p.jsonl",
        {"id": "a", "category": "code", "tenant": "t", "cluster": "c", "prompt": "x"},
        "",
        {"messages": [{"role": "user", "content": "hi"}], "extra": 1},
        {"id": 7, "prompt_token_ids": [3, 0]},
    )
    texts = lines(tmp_path / "r.jsonl", {"id": "a", "text": "y"}, {"id": 3, "token_ids": [1]}, {"id": "7", "text": "z"})
    assert read_prompts(path, texts) == (
        Prompt("a", "x", "code", "t", "c", "y"),
        Prompt("3", ({"role": "user", "content": "hi"},), reference=(1,)),
        Prompt("7", (3, 0), reference="z"),
    )


def test_every_fault_of_the_prompts_at_once(tmp_path: Path) -> None:
    path = lines(
        tmp_path / "p.jsonl",
        {"id": "a", "prompt": "x"},
        {"id": "a", "prompt": "y"},
        "{not json",
        "[1]",
        {"prompt": "", "id": "b"},
        {"prompt": "x", "messages": []},
        {"prompts": "x\x1b[31m"},
        {"prompt_token_ids": [1, -2]},
        {"messages": [{"role": "user"}]},
        {"prompt": "x", "category": ["code"]},
    )
    texts = lines(tmp_path / "r.jsonl", {"text": "y"}, {"id": "q", "text": "y"}, {"id": "q", "text": "y"})
    with pytest.raises(InputError) as caught:
        read_prompts(path, texts)
    p, r = path, texts
    rules = [fault.replace(str(p), "P").replace(str(r), "R") for fault in caught.value.faults]
    assert rules == [
        "P, line 2: the id 'a' occurs a second time; ids are unique",
        "P, line 3: is not JSON (Expecting property name enclosed in double quotes: line 1 column 2 (char 1)); write "
        'one object a line, such as {"id": "p1", "category": "code", "prompt": "def main("}',
        "P, line 4: is JSON but no object; write one object a line, such as "
        '{"id": "p1", "category": "code", "prompt": "def main("}',
        "P, line 5: prompt must be a text that is not empty",
        "P, line 6: has prompt, messages; it needs one of prompt, messages, prompt_token_ids",
        "P, line 7: has none of them, but prompts; it needs one of prompt, messages, prompt_token_ids",
        "P, line 8: prompt_token_ids must be a list of whole numbers from 0",
        "P, line 9: messages must be a list of objects with role and content",
        "P, line 10: category is ['code']; it must be a text",
        "R, line 1: has no id; it names the prompt that the text belongs to",
        "R, line 3: the id 'q' occurs a second time; ids are unique",
        "R: has no text for the prompt 'a'; every prompt needs one",
    ]
    with pytest.raises(InputError, match=r"holds no prompts; there is one JSON object a line"):
        read_prompts(lines(tmp_path / "empty.jsonl", ""))
    with pytest.raises(InputError, match=r"nowhere.jsonl: cannot be read \(No such file"):
        read_prompts(tmp_path / "nowhere.jsonl")


def test_without_the_extra_the_way_to_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prompts = lines(tmp_path / "p.jsonl", {"prompt": "x"})
    words = ["record", "--target", "t", "--draft", "d", "--prompts", str(prompts), "-o", str(tmp_path / "out")]
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    result = CliRunner().invoke(group, words)
    assert str(result.exception) == (
        "torch and transformers cannot be imported; recording needs the extra: pip install 'draft-oracle[record]'"
    )
    assert not (tmp_path / "out").exists()


def test_every_fault_of_the_settings_at_once() -> None:
    with pytest.raises(InputError) as caught:
        Settings("t", "ngram:0", k_max=0, temperature=float("nan"), max_new_tokens=1, tails="expected").check()
    assert caught.value.faults == (
        "--k-max is 0; it must lie between 1 and 128",
        "--temperature is nan; it must be above 0 (for argmax: --decoding greedy)",
        "--max-new-tokens is 1; it must be 2 or more: the first one comes from the prefill",
        "--draft 'ngram:0': the length of the n-gram is a number from 1, as in ngram:3",
        "--tails expected needs a draft model, since a lookup has no other continuation; use actual",
        "--tails expected needs --decoding sample: greedy drafts have one continuation, which actual records",
    )
    assert Settings("t", "d", decoding="sample").unique_experts == "expected"
    assert Settings("t", "ngram:4", decoding="sample").unique_experts == "actual"
    assert Settings("t", "ngram:4").ngram == 4
    with pytest.raises(InputError, match=r"--draft ./no-such: there is no such folder; check the path"):
        Settings("t", "./no-such").check()


def test_the_match_follows_the_decoding() -> None:
    assert Settings("t", "d").match_kind == Settings("t", "d").to_dict()["match"] == "greedy"
    assert Settings("t", "d", decoding="sample").match_kind == "overlap"
    assert Settings("t", "d", match="reference").match_kind == "reference"


@given(st.lists(st.integers(0, 2), min_size=1, max_size=12), st.integers(1, 4), st.integers(1, 4))
def test_lookup_from_the_definition(text: list[int], k: int, longest: int) -> None:
    wanted: list[int] = []
    for size in range(min(longest, len(text) - 1), 0, -1):
        places = [i for i in range(len(text) - size) if text[i : i + size] == text[-size:]]
        if places:
            wanted = text[places[0] + size :][:k]
            break
    assert proposals(np.array(text), k, longest).tolist() == wanted


def test_lookup_probabilities_by_depth() -> None:
    first = np.array([0.5, 0.25, 1.0], np.float32)
    chain = np.array([[0.5, 0.75], [0.25, 0.125], [1.0, 0.0]], np.float32)
    own = np.array([[True, True], [True, False], [True, True]])
    # from 1 the chain has left the text after one token: the proposal made from 2 counts
    np.testing.assert_array_equal(conditional(own, first, chain), [[0.5, 0.75], [0.25, 1.0], [1.0, 0.0]])


def routed(shape: tuple[int, ...], experts: int, top_k: int, seed: int) -> np.ndarray:
    scores = np.random.default_rng(seed).random((*shape, experts))
    return np.argsort(scores, axis=-1)[..., :top_k]


def mean_unique(rows: list[np.ndarray]) -> float:
    layers = range(len(rows[0]))
    return float(np.mean([len({int(e) for row in rows for e in row[layer]}) for layer in layers]))


def test_unique_experts_of_chains_with_sets() -> None:
    reference, chain = routed((70, 3), 9, 2, 0), routed((70, 4, 3), 9, 2, 1)
    length = np.arange(70) % 5
    found = unique_of_chains(reference, chain, length, 9)
    for t, k in itertools.product(range(70), range(5)):
        rows = [reference[t], *chain[t, : min(k, length[t])]]
        assert found[t, k] == pytest.approx(mean_unique(rows), rel=1e-6)
    counts = touched(chain[0], 9)
    assert counts[-1].tolist() == [len(set(chain[0, :, layer].ravel().tolist())) for layer in range(3)]


@pytest.mark.parametrize("kind", ["dyadic", "any", "certain"])
def test_expected_unique_experts_by_enumeration(kind: str) -> None:
    count, depth, rng = 7, 3, np.random.default_rng(5)
    reference, tail = routed((count + 1, 2), 8, 2, 2), routed((count + 1, depth, 2), 8, 2, 3)
    p = {"dyadic": rng.integers(0, 3, count) / 2, "any": rng.random(count), "certain": np.ones(count)}[kind]
    found = expected_unique(reference, tail, p.astype(np.float32), 8)
    for t, k in itertools.product(range(count), range(depth + 1)):
        total = weights = 0.0
        for matched in itertools.product([True, False], repeat=k):  # of each drafted token, were it reached
            chance = 1.0
            for j, match in enumerate(matched):
                p_here = float(np.float32(p[t + j])) if t + j < count else 0.0
                chance *= p_here if match else 1 - p_here
            if chance:
                good = len(list(itertools.takewhile(bool, matched)))
                rows = [*reference[t : t + good + 1], *(tail[t + good, : k - good] if good < k else [])]
                total, weights = total + chance * mean_unique(rows), weights + chance
        assert weights == pytest.approx(1, abs=1e-12)
        assert found[t, k] == pytest.approx(total, rel=1e-6)
