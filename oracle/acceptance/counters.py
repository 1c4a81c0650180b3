"""What vLLM counts by itself: Prometheus text and log lines. Both are survival, and both see whole rounds only.

A round that drafted fewer tokens than K counts there as one that did not accept the rest. Where the number of drafted
tokens tells that this happened, the rates are lower bounds, and the notes say so.
"""

import re
from collections import defaultdict

import numpy as np

from oracle.acceptance.curves import Acceptance, Curve, counted
from oracle.errors import MOST_DRAFT_TOKENS, Faults, InputError, printable

PER_POSITION = "vllm:spec_decode_num_accepted_tokens_per_pos"
LOG_LINE = "SpecDecoding metrics:"
_SAMPLE = re.compile(r"^([A-Za-z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+\d+)?\s*$")
_LABEL = re.compile(r'\b(\w+)="((?:[^"\\]|\\.)*)"')
_RATES = re.compile(r"Per-position acceptance rate:\s*(\d*\.?\d+(?:\s*,\s*\d*\.?\d+)*)")
_APART = 0.01  # of a count
_LEAST_DRAFTED = 0.99  # of K tokens a round; the log rounds its rates to three digits


def from_prometheus(text: str, source: str) -> Acceptance:
    """Read the counters of a vLLM server, summed over its engines; a label ``tenant`` keeps tenants apart.

    Raises
    ------
    InputError
        Counters that are missing, contradict one another, belong to several models, or count nothing yet.
    """
    accepted: dict[str | None, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    totals: dict[str | None, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    models = set()
    for number, line in enumerate(text.splitlines(), 1):
        found = _SAMPLE.match(line)
        if found is None or not found[1].startswith("vllm:spec_decode_num_"):
            continue
        labels = dict(_LABEL.findall(found[2] or ""))
        name = found[1].removesuffix("_total")
        value = _counter(found[3], f"{source}, line {number}")
        tenant = labels.get("tenant")
        models.add(labels.get("model_name"))
        if name == PER_POSITION:
            position = labels.get("position", "")
            # a label is checked before anything is laid out by it; its length first, since int() refuses long digits
            if not position.isdecimal() or len(position) > 9 or int(position) >= MOST_DRAFT_TOKENS:
                raise InputError(
                    f"{source}, line {number}: the label position is {printable(position)!r}; it is a number from 0 to "
                    f"{MOST_DRAFT_TOKENS - 1}"
                )
            accepted[tenant][int(position)] += value
        elif not name.endswith("_created"):
            totals[tenant][name.removeprefix("vllm:spec_decode_num_")] += value
    if len(models) > 1:
        names = ", ".join(sorted(printable(str(model)) for model in models))
        raise InputError(f"{source}: holds counters of several models ({names}); keep the lines of one")
    if not accepted:
        raise InputError(f"{source}: holds no {PER_POSITION}_total; is speculative decoding on?")
    curves, notes = [], []
    for tenant, by_position in accepted.items():
        curve, note = _counted(by_position, totals[tenant], tenant, source)
        curves.append(curve)
        notes += note
    return Acceptance(tuple(curves), tuple(notes))


def _counter(text: str, place: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = np.nan
    if not np.isfinite(value) or value < 0:
        raise InputError(f"{place}: the counter is {printable(text)!r}; counters are numbers from 0 on")
    return value


def _counted(
    by_position: dict[int, float], totals: dict[str, float], tenant: str | None, source: str
) -> tuple[Curve, list[str]]:
    faults = Faults()
    depth = max(by_position) + 1
    rounds = totals.get("drafts", 0.0)
    hits = [by_position.get(j, np.nan) for j in range(depth)]
    whose = "" if tenant is None else f", tenant {printable(tenant)}"
    if rounds <= 0:
        faults.add(f"{source}{whose}: vllm:spec_decode_num_drafts_total is missing or 0; nothing was drafted yet")
    if np.isnan(hits).any():
        lacking = [j for j in range(depth) if j not in by_position]
        faults.add(f"{source}{whose}: position {lacking[0]} is missing from {PER_POSITION}_total; keep all its lines")
    elif any(b > a for a, b in zip([rounds, *hits], hits, strict=False)):
        faults.add(f"{source}{whose}: the counters rise with the position, or above the drafts; they count survival")
    else:
        _check_totals(totals, rounds, sum(hits), depth, f"{source}{whose}", faults)
    faults.raise_if_any()
    notes = censored(totals.get("draft_tokens"), rounds, depth, f"{source}{whose}")
    return counted(np.array(hits) / rounds, depth, tenant, rounds), notes


def agree(one: float, other: float) -> bool:
    """Whether two counts of the same can be so: counters are read one after another while rounds go on."""
    return abs(one - other) <= max(1.0, _APART * max(one, other))


def _check_totals(
    totals: dict[str, float], rounds: float, accepted: float, depth: int, place: str, faults: Faults
) -> None:
    """Note counters of the whole that contradict those by position."""
    whole, drafted = totals.get("accepted_tokens"), totals.get("draft_tokens")
    if whole is not None and not agree(whole, accepted):
        faults.add(
            f"{place}: vllm:spec_decode_num_accepted_tokens_total is {whole:g}, and the positions sum to {accepted:g}; "
            "keep all lines of one scrape"
        )
    if drafted is not None and drafted > rounds * depth and not agree(drafted, rounds * depth):
        faults.add(
            f"{place}: {drafted:g} tokens drafted in {rounds:g} rounds are more than the {depth} positions counted; "
            "keep all lines of one scrape"
        )
    if drafted is not None and accepted > drafted and not agree(accepted, drafted):
        faults.add(f"{place}: {accepted:g} tokens accepted of {drafted:g} drafted; keep all lines of one scrape")


def censored(drafted: float | None, rounds: float, depth: int, place: str) -> list[str]:
    """Note that rounds drafted fewer tokens than K, where the counts tell it."""
    if drafted is None or drafted >= _LEAST_DRAFTED * rounds * depth:
        return []
    return [
        f"{place}: {drafted / rounds:.2f} tokens were drafted a round, not K = {depth}; positions not drafted count "
        "as rejected there, so these rates are lower bounds; per-request metrics (detailed) tell them apart"
    ]


def from_log(text: str, source: str) -> Acceptance:
    """Read vLLM's log lines; each covers one interval, and intervals weigh by their rounds.

    Raises
    ------
    InputError
        No such line with rates, or a line that contradicts itself.
    """
    by_length: dict[int, list[tuple[np.ndarray, float | None, float | None]]] = defaultdict(list)
    faults = Faults()
    for number, line in enumerate(text.splitlines(), 1):
        rates = _RATES.search(line) if LOG_LINE in line else None
        if rates is None:
            continue
        survival = np.array([float(rate) for rate in rates[1].split(",")])
        rounds, drafted = _rounds_of(line, survival, f"{source}, line {number}", faults)
        by_length[len(survival)].append((survival, rounds, drafted))
    faults.raise_if_any()
    if not by_length:
        raise InputError(f"{source}: no line '{LOG_LINE} …' with a per-position acceptance rate")
    curves, notes = [], []
    for depth, lines in by_length.items():
        counts = [rounds for _, rounds, _ in lines if rounds is not None]
        known = len(counts) == len(lines) and sum(counts) > 0
        survival = np.average([rates for rates, _, _ in lines], axis=0, weights=counts if known else None)
        curves.append(counted(survival, depth, None, sum(counts) if known else None))
        if known and all(drafted is not None for _, _, drafted in lines):
            notes += censored(sum(d for _, _, d in lines if d is not None), sum(counts), depth, source)
        if not known and len(lines) > 1:
            notes.append(f"{source}: lines without counts (Accepted, Drafted) weigh the same")
    return Acceptance(tuple(curves), tuple(notes))


def _rounds_of(line: str, survival: np.ndarray, place: str, faults: Faults) -> tuple[float | None, float | None]:
    """Rounds and drafted tokens of the interval a line covers; rounds = accepted / ΣS."""
    if len(survival) > MOST_DRAFT_TOKENS:
        faults.add(f"{place}: {len(survival)} rates; a draft has at most {MOST_DRAFT_TOKENS} tokens")
        return None, None
    if (np.diff(survival) > 0).any() or (survival > 1).any():
        faults.add(f"{place}: the rates rise with the position or exceed 1; vLLM logs survival: is the line whole?")
        return None, None
    length = re.search(r"Mean acceptance length:\s*(\d*\.?\d+)", line)
    mean = 1.0 + float(survival.sum())
    if length and abs(float(length[1]) - mean) > 0.01 * mean + 0.005:
        faults.add(f"{place}: the rates make a mean acceptance length of {mean:.2f}, the line says {length[1]}")
    accepted, drafted = (
        float(found[1]) if (found := re.search(rf"\b{name}:\s*(\d+) tokens", line)) else None
        for name in ("Accepted", "Drafted")
    )
    if accepted is None:
        return None, drafted
    # rates are rounded to three digits, so as many rounds are possible as their sum at its lowest makes
    fewest = max(0.0, float(survival.sum()) - 5e-4 * len(survival))
    if drafted is not None and (accepted > drafted or drafted * fewest > accepted * len(survival) * (1 + _APART)):
        faults.add(
            f"{place}: Accepted: {accepted:g} tokens and Drafted: {drafted:g} tokens contradict the rates; is the line "
            "whole?"
        )
    if accepted > 0 and survival.sum() > 0:
        return accepted / float(survival.sum()), drafted
    return (None if drafted is None else drafted / len(survival)), drafted
