"""Log lines of llama.cpp and SGLang.

llama.cpp prints a line for each request that drafted. Some versions give the acceptance rate per position over the
rounds that drafted, which is survival; others give totals, with or without the mean acceptance length. SGLang prints a
line every few rounds of the whole batch: the mean acceptance length (bonus included); its `accept rate` has meant
different things and is not read.
"""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from oracle.acceptance.counters import censored
from oracle.acceptance.curves import Acceptance, Curve, clustered
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
_UNSEEN = 5e-4  # what the three digits of a rate do not show
_APART = 0.01  # of a count
_JSON = re.compile(r"\s*(?:\{|\[\s*[\[{\"])")


@dataclass(frozen=True)
class _Line:
    """A line with rates by position: survival, tokens drafted, and rounds, None where no rate is above 0."""

    survival: NDArray[np.float64]
    drafted: float
    rounds: float | None


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
        elif len(survival):
            _check_line(survival, length, (accepted, drafted), place, faults)
            rounds = accepted / float(survival.sum()) if survival.any() else None
            if drafted:
                by_length[len(survival)].append(_Line(survival, drafted, rounds))
        else:
            # rounds = accepted / (mean - 1); two digits of the mean do not tell them where hardly anything was accepted
            rounds = accepted / (length - 1) if length is not None and length >= _LEAST_LENGTH else None
            totals.append(Totals(place, accepted, drafted, rounds))
    faults.raise_if_any()
    if not by_length:
        return from_totals(totals, source, measured_at)
    curves, notes = [], []
    for k, lines in by_length.items():
        curve = _curve(lines, k)
        curves.append(curve)
        telling = [each for each in lines if each.rounds is not None]
        notes += censored(sum(each.drafted for each in telling), sum(each.rounds or 0.0 for each in telling), k, source)
        notes += _untold(lines, curve, source)
    left_out = sum(each.drafted != 0 for each in totals)
    if left_out:
        lines_hold, are = ("line holds", "is") if left_out == 1 else ("lines hold", "are")
        why = "no rates by position, whatever was accepted"
        notes.append(f"{source}: {left_out} {lines_hold} {why}, and {are} left out")
    return Acceptance(tuple(curves), tuple(notes))


def _fewest(line: _Line) -> float:
    """Rounds of a line that does not tell them: of K tokens each, the last with what is left."""
    return float(np.ceil(line.drafted / len(line.survival)))


def _curve(lines: Sequence[_Line], k: int) -> Curve:
    """Survival of all lines of one draft length, weighed by their rounds; errors from leaving one line out."""
    rounds = np.array([_fewest(each) if each.rounds is None else each.rounds for each in lines])
    hits = np.stack([each.survival for each in lines]) * rounds[:, None]
    curve = clustered(np.column_stack([rounds, hits[:, :-1]]), hits, k, None)
    beyond = k - len(curve.survival)  # positions that no round came to were drafted all the same: a survival of 0
    covariance = None if curve.covariance is None else np.pad(curve.covariance, (0, beyond))
    return replace(curve, survival=np.pad(curve.survival, (0, beyond)), covariance=covariance)


def _untold(lines: Sequence[_Line], curve: Curve, source: str) -> list[str]:
    """Say what was taken for the rounds of lines that accepted nothing, and what they can do to the mean."""
    untold = [each for each in lines if each.rounds is None]
    if not untold:
        return []
    k, taken, most = curve.draft_length, sum(map(_fewest, untold)), sum(each.drafted for each in untold)
    mean, rounds = curve.mean_length(k), curve.rounds or taken
    least = 1 + (mean - 1) * rounds / (rounds - taken + most)
    shown, down = f"{mean:.2f}", f"{least:.2f}"
    lower = "" if down == shown else f" (the mean acceptance length is then down to {down}, not {shown})"
    doubt = f", and up to {most:g} if drafts stopped early{lower}"
    return [
        f"{source}: {len(untold)} of {len(lines)} lines at K = {k} show no rate above 0 and so do not tell their "
        f"rounds: {taken:g} of K tokens are taken{doubt if most > taken else ''}"
    ]


def _check_line(
    survival: NDArray[np.float64], length: float | None, counts: tuple[float, float], place: str, faults: Faults
) -> None:
    """Note rates that are no survival, or that contradict the counts or the mean acceptance length beside them."""
    accepted, drafted = counts
    mean = 1.0 + float(survival.sum())
    if (np.diff(survival) > 0).any() or (survival > 1).any():
        faults.add(f"{place}: the rates rise with the position or exceed 1; they are survival: is the line whole?")
    elif length is not None and abs(length - mean) > 0.01 * mean + 0.005:
        faults.add(f"{place}: the rates make a mean acceptance length of {mean:.2f}, the line says {length:g}")
    elif accepted > drafted or not _agree(survival, accepted, drafted):
        faults.add(
            f"{place}: {accepted:g} accepted of {drafted:g} generated contradict the rates; is the line whole? "
            "(versions that leave out drafts accepted in part, where a model cannot be rolled back, print such lines)"
        )


def _agree(survival: NDArray[np.float64], accepted: float, drafted: float) -> bool:
    """Whether rounds = accepted / ΣS, each of 1 to K drafted tokens, can be, the rates being rounded."""
    k, mean = len(survival), float(survival.sum())
    least, most = max(0.0, mean - _UNSEEN * k), mean + _UNSEEN * k
    return least * drafted <= k * accepted * (1 + _APART) and accepted <= most * drafted * (1 + _APART)


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
