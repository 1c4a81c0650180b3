"""Log lines of llama.cpp and SGLang.

llama.cpp prints a line a request. Newer versions give the acceptance rate per position over the rounds that drafted,
which is survival; older ones give totals only. SGLang prints a line every few rounds of the whole batch: the mean
acceptance length (bonus included); its `accept rate` has meant different things and is not read.
"""

import re
from collections import defaultdict

import numpy as np
from numpy.typing import NDArray

from oracle.acceptance.counters import censored
from oracle.acceptance.curves import Acceptance, clustered
from oracle.acceptance.totals import Totals, from_totals
from oracle.engines import SGLANG_PADDED_GRAPHS
from oracle.errors import MOST_DRAFT_TOKENS, Faults, InputError

_NUMBER = r"(\d{1,15}(?:\.\d{1,17})?)(?!\.?\d)"
LLAMA_CPP = re.compile(
    rf"draft acceptance(?: rate)? = {_NUMBER} \(\s*(\d{{1,15}}) accepted /\s*(\d{{1,15}}) generated\)"
    rf"(?:, mean (?:acceptance length|len) =\s*{_NUMBER})?"
    rf"(?:, acceptance rate per position = \(([\d., ]*)\))?"
)
SGLANG = re.compile(
    rf"^\[?\d{{4}}-\d\d-\d\d[^#\n]{{0,200}}Decode [^#\n]{{0,200}}#running-req: (\d{{1,9}})(?!\d).{{0,1000}}?"
    rf"accept len: {_NUMBER}",  # no stretch is without bound: a hostile line would take forever
    re.MULTILINE,
)
_LEAST_LENGTH = 1.1
_Line = tuple[NDArray[np.float64], float, float]  # survival, rounds, tokens drafted
_JSON = re.compile(r"\s*(?:\{|\[\s*[\[{\"])")


def is_log(text: str, line: re.Pattern[str]) -> bool:
    """Whether text that is not JSON holds such a line."""
    return line.search(text) is not None and _JSON.match(text) is None


def from_llama_cpp(text: str, source: str, measured_at: int | None = None) -> Acceptance:
    """Read llama.cpp's lines; each covers one request.

    Raises
    ------
    InputError
        A line that contradicts itself; lines with totals only that do not tell K.
    """
    faults = Faults()
    totals: list[Totals] = []
    by_length: dict[int, list[_Line]] = defaultdict(list)
    for number, line in enumerate(text.splitlines(), 1):
        found = LLAMA_CPP.search(line)
        if found is None:
            continue
        place, accepted, drafted = f"{source}, line {number}", float(found[2]), float(found[3])
        length = float(found[4]) if found[4] else None
        survival = np.array([float(rate) for rate in (found[5] or "").replace(" ", "").split(",") if rate])
        if len(survival) > MOST_DRAFT_TOKENS:
            faults.add(f"{place}: {len(survival)} rates; a draft has at most {MOST_DRAFT_TOKENS} tokens")
        elif survival.sum() > 0:
            _check_line(survival, length, place, faults)
            by_length[len(survival)].append((survival, accepted / float(survival.sum()), drafted))
        else:
            # rounds = accepted / (mean - 1); two digits of the mean do not tell them where hardly anything was accepted
            rounds = accepted / (length - 1) if length is not None and length >= _LEAST_LENGTH else None
            totals.append(Totals(place, accepted, drafted, rounds))
    faults.raise_if_any()
    if not by_length:
        return from_totals(totals, source, measured_at)
    curves, notes = [], []
    for k, lines in by_length.items():
        rounds_of = np.array([rounds for _, rounds, _ in lines])
        hits = np.stack([survival for survival, _, _ in lines]) * rounds_of[:, None]
        curves.append(clustered(np.column_stack([rounds_of, hits[:, :-1]]), hits, k, None))
        notes += censored(sum(drafted for _, _, drafted in lines), float(rounds_of.sum()), k, source)
    if any(each.drafted for each in totals):
        notes.append(f"{source}: {len(totals)} lines hold no rate above 0 by position and are left out")
    return Acceptance(tuple(curves), tuple(notes))


def _check_line(survival: NDArray[np.float64], length: float | None, place: str, faults: Faults) -> None:
    """Note rates that are no survival, or that contradict the mean acceptance length beside them."""
    mean = 1.0 + float(survival.sum())
    if (np.diff(survival) > 0).any() or (survival > 1).any():
        faults.add(f"{place}: the rates rise with the position or exceed 1; they are survival: is the line whole?")
    elif length is not None and abs(length - mean) > 0.01 * mean + 0.005:
        faults.add(f"{place}: the rates make a mean acceptance length of {mean:.2f}, the line says {length:g}")


def from_sglang(text: str, source: str, measured_at: int | None = None) -> Acceptance:
    """Read SGLang's lines; each covers as many rounds of the batch as the others, so it weighs by its requests.

    Raises
    ------
    InputError
        K is not said, which these lines do not tell; a length below 1.
    """
    if measured_at is None:
        raise InputError(
            f"{source}: SGLang's log tells the mean acceptance length and not K; say it with --acceptance-at K (its "
            "--speculative-num-steps), or keep meta_info of the responses, which counts by position"
        )
    faults = Faults()
    totals = []
    for number, line in enumerate(text.splitlines(), 1):
        found = SGLANG.search(line)
        if found is None or found[1] == "0":
            continue
        requests, length = int(found[1]), float(found[2])
        if length < 1:
            faults.add(
                f"{source}, line {number}: accept len is {length:g}; it counts the bonus token, so it is at least 1"
            )
        totals.append(Totals(f"{source}, line {number}", (length - 1) * requests, None, requests))
    faults.raise_if_any()
    whole = from_totals(totals, source, measured_at)
    said = f"{source}: lines weigh by their running requests; errors take each line as an independent sample"
    return Acceptance(whole.curves, (*whole.notes, said, f"{source}: {SGLANG_PADDED_GRAPHS}"))
