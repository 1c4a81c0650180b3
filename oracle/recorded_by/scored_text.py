"""A text scored by a server: log-probabilities of given tokens, from vLLM, SGLang or OpenAI-compatible servers.

The text is the target's prompt and everything it emitted, sent as a prompt: one entry a token, null for the first.
Layouts: vLLM's ``prompt_logprobs`` (a list of objects by token id, with ``logprob`` and ``rank``), SGLang's
``meta_info.input_token_logprobs`` (lists [logprob, id, text]) with ``input_top_logprobs``, OpenAI's completions with
echo (``choices[0].logprobs.token_logprobs``, which hold no ids and so no bounds). Records are found by their id, so
they may come in any order; of a file, only where each record begins is held in memory.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.empirical.standalone import overlap_bounds, probabilities_of
from oracle.errors import InputError, printable
from oracle.files import shown
from oracle.latency.strict_json import LONGEST, read_strictly
from oracle.recorded_by.alignment import emitting_logprobs

REFERENCE, GREEDY, LOWER, UPPER = "reference", "greedy", "overlap_lower", "overlap_upper"
KINDS = (REFERENCE, GREEDY, LOWER, UPPER)


@dataclass(frozen=True, eq=False)
class Scored:
    """One scored text, one entry a token of it.

    Attributes
    ----------
    place
        For messages.
    logprob : (tokens,) float64
        Of the token itself; NaN for the first.
    first : (tokens,) bool or None
        Whether no other token was more probable; None where the layout does not tell.
    top
        Probabilities of the most probable tokens by id; None where the layout has no ids.
    """

    place: str
    logprob: NDArray[np.float64]
    first: NDArray[np.bool_] | None
    top: Sequence[Mapping[int, float]] | None


class ScoredTexts:
    """Scored texts of a JSON lines file, found by id.

    Raises
    ------
    InputError
        The file cannot be read; a record without an id, or an id that is there twice.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._begins: dict[str, tuple[int, int]] = {}
        try:
            with open(path, "rb") as file:
                begin = 0
                for number, raw in enumerate(iter(lambda: file.readline(LONGEST + 1), b""), 1):
                    if raw.strip():
                        place = f"{shown(path)}, line {number}"
                        name = _name_of(_tree(raw, place), place)
                        if name in self._begins:
                            raise InputError(
                                f"{place}: the id '{printable(name)}' is there twice; keep one record of it"
                            )
                        self._begins[name] = (begin, number)
                    begin += len(raw)
        except OSError as error:
            raise InputError(f"{shown(path)}: cannot be read ({error.strerror}); check the path") from error
        if not self._begins:
            raise InputError(f"{shown(path)}: the file is empty; was its writer interrupted?")

    def __contains__(self, name: str) -> bool:
        return name in self._begins

    def of(self, name: str, token_id: Sequence[int]) -> Scored:
        """Read the record of a request.

        Parameters
        ----------
        token_id
            Ids of the emitted tokens; vLLM's layout names the token itself only among others.
        """
        begin, number = self._begins[name]
        place = f"{shown(self.path)}, line {number}"
        with open(self.path, "rb") as file:
            file.seek(begin)
            return scored(_tree(file.readline(), place), token_id, place)


def _tree(raw: bytes, place: str) -> Mapping[str, Any]:
    if len(raw) > LONGEST:
        raise InputError(f"{place}: more than {LONGEST >> 20} MiB in one line")
    try:
        tree = read_strictly(raw.decode("utf-8-sig"), place)
    except UnicodeDecodeError as error:
        raise InputError(f"{place}: is not UTF-8 text (byte {error.start}); give JSON lines") from error
    if not isinstance(tree, dict):
        raise InputError(f"{place}: is no object; give one scored text a line")
    return tree


def _name_of(tree: Mapping[str, Any], place: str) -> str:
    meta = tree.get("meta_info")
    name = tree.get("id", meta.get("id") if isinstance(meta, Mapping) else None)
    if not isinstance(name, str) or not name:
        raise InputError(f"{place}: has no id; give each scored text the id of the request it is of")
    return name


def scored(tree: Mapping[str, Any], token_id: Sequence[int], place: str) -> Scored:
    """Read one scored text of any of the layouts.

    Raises
    ------
    InputError
        None of them; an entry that is not as documented.
    """
    choices = tree.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], Mapping) else {}
    meta = tree.get("meta_info")
    by_id = tree.get("prompt_logprobs", choice.get("prompt_logprobs"))
    try:
        if isinstance(by_id, list):
            return _from_vllm(by_id, token_id, place)
        if isinstance(meta, Mapping) and isinstance(meta.get("input_token_logprobs"), list):
            return _from_sglang(meta, token_id, place)
        echoed = choice.get("logprobs")
        if isinstance(echoed, Mapping) and isinstance(echoed.get("token_logprobs"), list):
            values = [np.nan if value is None else float(value) for value in echoed["token_logprobs"]]
            return Scored(place, np.array(values), None, None)
    except InputError:
        raise
    except (TypeError, ValueError, KeyError, IndexError, AttributeError) as error:
        raise InputError(
            f"{place}: an entry of the log-probabilities is not as documented ({type(error).__name__}: "
            f"{printable(str(error), 60)})"
        ) from error
    raise InputError(
        f"{place}: holds no prompt_logprobs (vLLM), meta_info.input_token_logprobs (SGLang) or "
        "logprobs.token_logprobs (an OpenAI-compatible server, with echo)"
    )


def _from_vllm(entries: list[Any], token_id: Sequence[int], place: str) -> Scored:
    """Entries by token id; the emitted tokens are the last ones of the text."""
    logprob = np.full(len(entries), np.nan)
    first = np.zeros(len(entries), np.bool_)
    top: list[Mapping[int, float]] = []
    before = len(entries) - len(token_id)
    for i, entry in enumerate(entries):
        by_token = {} if entry is None else {int(key): float(value["logprob"]) for key, value in entry.items()}
        # The text's own token is listed whatever its rank; only the most probable ones bound what is not listed.
        ranked = [int(key) for key, value in (entry or {}).items() if int(value["rank"]) <= len(by_token)]
        top.append({token: _probability(by_token[token]) for token in ranked})
        if i >= before >= 0 and token_id[i - before] in by_token:
            logprob[i] = by_token[token_id[i - before]]
            first[i] = logprob[i] >= max(by_token.values())
    return Scored(place, logprob, first, top)


def _from_sglang(meta: Mapping[str, Any], token_id: Sequence[int], place: str) -> Scored:
    triples = meta["input_token_logprobs"]
    said = [int(triple[1]) for triple in triples[max(len(triples) - len(token_id), 0) :]]
    odd = next((i for i, (own, other) in enumerate(zip(said, token_id, strict=False)) if own != other), None)
    if odd is not None and len(said) == len(token_id):
        raise InputError(
            f"{place}: the scored text is not that of the request: its token {odd} after the prompt is {said[odd]}, "
            f"and {token_id[odd]} was emitted; score the very ids that were emitted"
        )
    logprob = np.array([np.nan if triple[0] is None else float(triple[0]) for triple in triples])
    tops = meta.get("input_top_logprobs")
    if not isinstance(tops, list) or len(tops) != len(triples):
        return Scored(place, logprob, None, None)
    listed = [{int(t[1]): float(t[0]) for t in entry or ()} for entry in tops]
    first = np.array(
        [bool(entry) and value >= max(entry.values()) for value, entry in zip(logprob, listed, strict=True)], np.bool_
    )
    top = [{token: _probability(value) for token, value in entry.items()} for entry in listed]
    return Scored(place, logprob, first, top)


def _probability(logprob: float) -> float:
    """Give e to the power of a log-probability.

    Raises
    ------
    ValueError
        It is far above 0, or not a number.
    """
    if not logprob <= 1:
        raise ValueError(f"a log-probability is {logprob:g}")
    return math.exp(logprob)


def match_of(kind: str, draft: Scored, target: Scored | None, prompt_tokens: int, emitted: int) -> NDArray[np.float32]:
    """Match probability of each position of a trace, (N,).

    Parameters
    ----------
    kind
        `reference`, `greedy`, `overlap_lower` or `overlap_upper`; the last two need the target's scores too.

    Raises
    ------
    InputError
        The scores are not of this text, or do not tell what is asked for.
    """
    own = emitting_logprobs(draft.logprob, prompt_tokens, emitted, draft.place)
    if kind == REFERENCE:
        return probabilities_of(own, draft.place)
    if kind == GREEDY:
        if draft.first is None:
            raise InputError(
                f"{draft.place}: does not tell which token was the most probable; record the top log-probabilities "
                "(vLLM: prompt_logprobs, SGLang: top_logprobs_num), or take --match reference"
            )
        return draft.first[prompt_tokens + 1 :].astype(np.float32)
    if target is None or draft.top is None or target.top is None:
        raise InputError(
            f"{draft.place}: bounds of the overlap need the top log-probabilities by token id of draft and target "
            "(--draft-logprobs and --target-logprobs, recorded with prompt_logprobs or top_logprobs_num)"
        )
    emitting_logprobs(target.logprob, prompt_tokens, emitted, target.place)
    pairs = zip(target.top[prompt_tokens + 1 :], draft.top[prompt_tokens + 1 :], strict=True)
    bounds = np.array([overlap_bounds(p, q) for p, q in pairs]).reshape(-1, 2)
    return bounds[:, 0 if kind == LOWER else 1].astype(np.float32)
