"""llama.cpp: ``timings`` of responses, ``llama-batched-bench`` JSON lines, a fork's JSON line a round.

Can give
    From a round's line {round_id, prompt_pos, draft {n, tokens [{pos, id, p, entropy}]}, verify {n_accepted, rej_pos,
    target_id}, timing {t_draft_us, t_verify_us}}: the engine's rounds, token ids, times of draft and verification; a
    trace of a dense target (--dense) and rounds. From ``llama-batched-bench --output-format jsonl``: times of a pass
    over several sequences. ik_llama.cpp: ``draft_by_depth``.
Cannot give
    Routing: unique experts must be told by m (--unique-experts), so no alpha can be fitted from it. ``timings`` hold
    totals, nothing by position, so they make no trace: ``recommend --acceptance`` reads them. The prompt is
    ``prompt_n`` and ``cache_n``; ik_llama.cpp sends no ``cache_n``: there a prompt partly in the cache is refused.
Layout
    Round lines come from a fork and are not documented upstream. Assumed: ``prompt_pos`` counts the tokens in the KV
    cache when the round starts, so the context is one more; a ``round_id`` that does not rise begins another request;
    ``target_id`` is the token after the accepted ones (correction or bonus); ``n`` is the number of tokens drafted.
    batched-bench: https://github.com/ggml-org/llama.cpp/tree/master/tools/batched-bench .
"""

from collections.abc import Iterator, Mapping
from typing import Any

from oracle.errors import MOST_DRAFT_TOKENS, Faults
from oracle.recorded_by.request import MOST_TOKENS, Request, count_of, emitted_of, ids_of, labels_of

Round = Mapping[str, Any]


def is_response(tree: Mapping[str, Any]) -> bool:
    """Whether a record looks like llama.cpp's."""
    return "timings" in tree or is_round(tree) or is_batched_bench(tree)


def is_round(tree: Mapping[str, Any]) -> bool:
    """Whether a record is one round."""
    return "round_id" in tree and "verify" in tree


def is_batched_bench(tree: Mapping[str, Any]) -> bool:
    """Whether a record is a line of llama-batched-bench."""
    return {"pp", "tg", "pl"} <= tree.keys()


def requests_in(tree: Mapping[str, Any], place: str, faults: Faults) -> Iterator[Request]:
    """Read the timings of one response."""
    timings = tree.get("timings")
    if not isinstance(timings, Mapping):
        faults.add(f"{place}: holds no timings; give responses of llama-server, or lines of rounds")
        return
    name = tree.get("id")
    ids = ids_of(tree.get("tokens") or None, "tokens", place, faults)
    yield Request(
        place=place,
        name=name if isinstance(name, str) and name else None,
        prompt_tokens=_prompt_of(timings, f"{place}.timings", faults),
        emitted=emitted_of(count_of(timings, "predicted_n", f"{place}.timings", faults), ids, place, faults),
        labels=labels_of(tree),
        token_id=ids,
        metrics=timings,
    )


def _prompt_of(timings: Mapping[str, Any], place: str, faults: Faults) -> int | None:
    """Tokens of the prompt: those processed (``prompt_n``) and those that were in the cache (``cache_n``)."""
    names = "prompt_n", "cache_n", "predicted_n", "n_past"
    processed, cached, predicted, past = (count_of(timings, name, place, faults) for name in names)
    if processed is None or cached is not None:
        return None if processed is None else processed + (cached or 0)
    if past is not None and past > processed + (predicted or 0):
        faults.add(
            f"{place}: n_past is {past}, more than prompt_n + predicted_n = {processed + (predicted or 0)}: part of "
            "the prompt came from a cache, and these timings do not say how much; send cache_prompt false"
        )
        return None
    return processed


def round_in(tree: Mapping[str, Any], place: str, faults: Faults) -> Round | None:
    """Check one line of a round; give its numbers flat, or None if a fault was noted."""
    draft, verify, timing = (tree.get(name) for name in ("draft", "verify", "timing"))
    if not all(isinstance(part, Mapping) for part in (draft, verify, timing)):
        faults.add(f"{place}: a round has draft, verify and timing; was the line cut?")
        return None
    assert isinstance(draft, Mapping)
    assert isinstance(verify, Mapping)
    assert isinstance(timing, Mapping)
    counts = {
        "round_id": tree.get("round_id"),
        "prompt_pos": tree.get("prompt_pos"),
        "n": draft.get("n"),
        "n_accepted": verify.get("n_accepted"),
        "target_id": verify.get("target_id"),
    }
    for name, value in counts.items():
        if type(value) is not int or not 0 <= value < 1 << 31:
            faults.add(f"{place}: {name} is {value!r:.40}; it is a whole number from 0 on")
            return None
    times = {name: timing.get(name) for name in ("t_draft_us", "t_verify_us")}
    for name, value in times.items():
        if not isinstance(value, int | float) or isinstance(value, bool):
            faults.add(f"{place}: {name} is {value!r:.40}; it is a number of microseconds")
            return None
    n, accepted = counts["n"], counts["n_accepted"]
    assert n is not None
    assert accepted is not None
    if accepted > n or n > MOST_DRAFT_TOKENS:
        faults.add(f"{place}: {accepted} tokens accepted of {n} drafted; at most n, and n at most {MOST_DRAFT_TOKENS}")
        return None
    tokens = draft.get("tokens") or []
    ids = [token.get("id") for token in tokens if isinstance(token, Mapping)] if isinstance(tokens, list) else []
    whole = len(ids) == n and all(type(item) is int and 0 <= item < 1 << 31 for item in ids)
    return {**counts, **times, "ids": ids if whole else None, **labels_of(tree)}


def joined(rounds: list[Round], name: str, place: str, faults: Faults) -> Request | None:
    """One request from its rounds; the token that prefill emits is not among what they emit.

    Parameters
    ----------
    rounds
        As `round_in` gives them, in order.
    name
        What to call the request.
    """
    expected = rounds[0]["prompt_pos"]
    for number, each in enumerate(rounds):
        if each["prompt_pos"] != expected:
            faults.add(
                f"{place}, round {number}: prompt_pos is {each['prompt_pos']} where the rounds before it lead to "
                f"{expected}; are lines missing, or requests mixed?"
            )
            return None
        expected += each["n_accepted"] + 1
    ids: list[int] | None = [0]  # stands for the prefill token, which is dropped again
    for each in rounds:
        if each["ids"] is None or ids is None:
            ids = None
            break
        ids += [*each["ids"][: each["n_accepted"]], each["target_id"]]
    advance = sum(each["n_accepted"] + 1 for each in rounds)
    if advance >= MOST_TOKENS:
        faults.add(f"{place}: {advance} tokens in one request; at most {MOST_TOKENS}")
        return None
    return Request(
        place=place,
        name=name,
        prompt_tokens=rounds[0]["prompt_pos"],
        emitted=advance + 1,
        labels=labels_of(rounds[0]),
        token_id=ids,
        metrics={
            "per_step_accepted": [each["n_accepted"] for each in rounds],
            "per_step_drafted": [each["n"] for each in rounds],
        },
    )
