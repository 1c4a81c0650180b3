"""Step times by draft length: typed, taken from measured throughput, or priced by a latency model at a given U."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from oracle.acceptance.rows import csv_rows, json_rows, number_of, text_of
from oracle.errors import MOST_DRAFT_TOKENS, Faults, InputError, InputWarning
from oracle.files import read_text, shown
from oracle.latency.model import LatencyModel

COLUMNS = ("draft_length", "m", "step_ms", "tokens_per_second", "batch_size", "setting")
_LEAST, _MOST = 1e-6, 1e9  # of a step time in ms and of tokens per second: beyond, the unit is another one
_MOST_REQUESTS = 1_000_000  # in a batch
_NO_NUMBERS = "no step time; give step_ms (a whole round, drafting included) or tokens_per_second"


@dataclass(frozen=True)
class StepTimes:
    """What a round takes, by draft length, in one setting. Exactly one of the two mappings is filled.

    Attributes
    ----------
    step_ms
        Milliseconds of a whole round: drafting, verification and what lies between.
    tokens_per_second
        Measured throughput of all requests together.
    batch_size
        Requests in a round.
    setting
        What else was the same (context, prompt set), in the user's words.
    notes
        How the numbers came about.
    excluded
        Draft lengths that were measured and are not asked for.
    """

    step_ms: Mapping[int, float] = field(default_factory=dict)
    tokens_per_second: Mapping[int, float] = field(default_factory=dict)
    batch_size: int = 1
    setting: str | None = None
    notes: tuple[str, ...] = ()
    excluded: tuple[int, ...] = ()

    @property
    def lengths(self) -> tuple[int, ...]:
        """Draft lengths that were measured, rising."""
        return tuple(sorted(self.step_ms or self.tokens_per_second))

    def within(self, k_min: int | None, k_max: int | None) -> "StepTimes":
        """Keep the draft lengths from k_min to k_max.

        Raises
        ------
        InputError
            None is left, or K = 0 alone of several.
        """
        kept = [k for k in self.lengths if (k_min is None or k >= k_min) and (k_max is None or k <= k_max)]
        if not kept:
            raise InputError(
                f"no step time between --k-min and --k-max; measured: K = {', '.join(map(str, self.lengths))}"
            )
        if kept == [0] and len(self.lengths) > 1:
            raise InputError(f"--k-max {k_max} leaves K = 0 only, so there is nothing to compare; raise --k-max")
        ms, rate = ({k: table[k] for k in kept if k in table} for table in (self.step_ms, self.tokens_per_second))
        excluded = tuple(k for k in self.lengths if k not in kept)
        notes = self.notes
        if excluded:
            notes = (*notes, f"left out by --k-min and --k-max: K = {', '.join(map(str, excluded))}")
        return StepTimes(ms, rate, self.batch_size, self.setting, notes, excluded)


def read_step_times(path: str | Path) -> tuple[StepTimes, ...]:
    """Read a file; see `step_times_from_text`."""
    return step_times_from_text(read_text(path), shown(path))


def step_times_from_text(text: str, source: str) -> tuple[StepTimes, ...]:
    """Read step times, one table for each setting and batch size, in order of appearance.

    Parameters
    ----------
    text
        CSV, or a JSON list of objects, with draft_length (or m = K + 1), step_ms or tokens_per_second, and where
        there are several, batch_size and setting.

    Raises
    ------
    InputError
        Unknown columns, missing or non-positive numbers, a draft length given twice, both kinds mixed.
    """
    is_json = text.lstrip("\ufeff \t\r\n").startswith(("{", "["))
    rows = json_rows(text, source, "step_times", COLUMNS) if is_json else csv_rows(text, source, COLUMNS)
    faults = Faults()
    tables: dict[tuple[str | None, int], dict[str, dict[int, float]]] = {}
    for place, row in rows:
        _add_row(place, row, tables, faults)
    faults.raise_if_any()
    for (setting, size), table in tables.items():
        if table["step_ms"] and table["tokens_per_second"]:
            named = "" if setting is None else f", {setting}"
            faults.add(f"{source}: batch size {size}{named}: holds step_ms and tokens_per_second; give one kind")
    faults.raise_if_any()
    return tuple(
        StepTimes(table["step_ms"], table["tokens_per_second"], size, setting)
        for (setting, size), table in tables.items()
    )


def _add_row(
    place: str, row: dict[str, Any], tables: dict[tuple[str | None, int], dict[str, dict[int, float]]], faults: Faults
) -> None:
    length = number_of(row, "draft_length", place, faults, whole=True, least=0)
    m = number_of(row, "m", place, faults, whole=True, least=1)
    size = number_of(row, "batch_size", place, faults, whole=True, least=1, most=_MOST_REQUESTS)
    values = {name: number_of(row, name, place, faults, least=0) for name in ("step_ms", "tokens_per_second")}
    setting = text_of(row, "setting", place, faults)
    given = [(name, value) for name, value in values.items() if value is not None]
    if (length is None) == (m is None):
        faults.add(f"{place}: give either draft_length (K) or m (K + 1 verified positions)")
        return
    k = int(m - 1 if m is not None else length or 0)
    if len(given) != 1 or given[0][1] <= 0:
        faults.add(f"{place}: K = {k} has {_NO_NUMBERS if not given else 'not one positive step time; give one'}")
        return
    if not _LEAST <= given[0][1] <= _MOST:
        faults.add(f"{place}: {given[0][0]} is {given[0][1]:g}; at least {_LEAST:g} and at most {_MOST:g}: which unit?")
        return
    if k > MOST_DRAFT_TOKENS:
        faults.add(f"{place}: K = {k} is beyond {MOST_DRAFT_TOKENS}")
        return
    name, value = given[0]
    table = tables.setdefault((setting, int(size or 1)), {"step_ms": {}, "tokens_per_second": {}})
    if k in table[name]:
        faults.add(f"{place}: K = {k} is there twice in one setting and batch size; keep one, or name settings")
    table[name][k] = value


def step_times_from_model(
    model: LatencyModel, unique_experts: float | Mapping[int, float], context_len: float
) -> StepTimes:
    """Price rounds with a latency model.

    Parameters
    ----------
    unique_experts
        Mean unique experts per MoE layer: by verified positions m, or one number for all m (a dense target: 0).
    context_len
        Tokens in context when the round starts.

    Raises
    ------
    InputError
        An m the model does not hold, U that falls as m grows, or a step that does not take time.
    """
    given = (
        unique_experts if isinstance(unique_experts, Mapping) else {k + 1: unique_experts for k in model.draft_lengths}
    )
    faults = Faults()
    notes = []
    step_ms = {}
    rising = sorted(given)
    for m in rising:
        if not model.has(m - 1):
            known = ", ".join(str(k + 1) for k in model.draft_lengths)
            faults.add(f"--unique-experts names m = {m}, which the latency model cannot price; it knows m = {known}")
            continue
        beta, alpha, context = model.coefficients(m)
        reject = model.reject_ms if m > 1 else 0.0
        step_ms[m - 1] = beta + alpha * given[m] + context * context_len + model.draft_ms(m - 1) + reject
        if not _LEAST <= step_ms[m - 1] <= _MOST:
            faults.add(
                f"the latency model prices a round over m = {m} at {step_ms[m - 1]:g} ms; check U and the context"
            )
    for a, b in pairwise(rising):
        if given[b] < given[a]:
            faults.add(f"--unique-experts falls from {given[a]:g} at m = {a} to {given[b]:g} at m = {b}; it cannot")
    faults.raise_if_any()
    left_out = [k for k in model.draft_lengths if k + 1 not in given]
    if left_out:
        notes.append(f"no U is given for K = {', '.join(map(str, left_out))}: left out")
    if not isinstance(unique_experts, Mapping) and unique_experts > 0 and any(model.alpha_ms_per_expert):
        warnings.warn(
            f"one U = {unique_experts:g} for every m: more positions touch more experts, so longer drafts come out too "
            "cheap; give U by m, as 1:8,2:13.1,…",
            InputWarning,
            stacklevel=2,
        )
    notes.append("passes timed alone cost less than served rounds (scheduler, launches), by up to 3 times at batch 64")
    notes.append(
        f"step times are the latency model's at L = {context_len:g} tokens and U = "
        + ", ".join(f"{given[m]:g} (m = {m})" for m in rising)
    )
    return StepTimes(step_ms, {}, model.batch_size or 1, None, tuple(notes))
