"""A draft length for every batch size: what is asked of an engine, before it is written in the engine's own way."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from oracle.errors import MOST_DRAFT_TOKENS, Faults

Ranges = Sequence[tuple[tuple[int, int | None], int]]


@dataclass(frozen=True)
class Step:
    """One draft length over a range of batch sizes, both ends included; `last` is None where the range has no end."""

    first: int
    last: int | None
    draft_length: int


@dataclass(frozen=True)
class Schedule:
    """Draft lengths by batch size.

    Attributes
    ----------
    steps
        Contiguous from batch size 1 on; neighbours differ in their draft length. Only the last may have no end.
    """

    steps: tuple[Step, ...]

    @property
    def fixed(self) -> int | None:
        """The draft length if it is one for all batch sizes without end; None for a real schedule."""
        only = self.steps[0]
        return only.draft_length if len(self.steps) == 1 and only.last is None else None

    @property
    def longest(self) -> int:
        """The largest draft length, 0 where drafting is off everywhere."""
        return max(step.draft_length for step in self.steps)


def schedule_of(setting: "int | Literal['off'] | Ranges | Schedule") -> Schedule:
    """Turn a request into a schedule.

    Parameters
    ----------
    setting
        A draft length for all batch sizes; ``off``; or a list of ((first, last), K) with both ends included, where
        the end of the last may be None. Gaps between ranges carry the K of the range before.

    Raises
    ------
    InputError
        Ranges that overlap, do not rise or do not start at batch size 1, and draft lengths out of range.
    """
    if isinstance(setting, Schedule):
        return setting
    faults = Faults()
    if isinstance(setting, int | str):
        length = 0 if setting == "off" else setting
        _check_length(length, "the draft length", faults)
        faults.raise_if_any()
        return Schedule((Step(1, None, int(length)),))
    ranges = list(setting)
    if not ranges:
        faults.add("the schedule is empty; give at least one range of batch sizes, from 1 on")
    elif ranges[0][0][0] != 1:
        faults.add(
            f"the schedule starts at batch size {ranges[0][0][0]}; smaller batches would have no draft length: let the "
            "first range start at 1"
        )
    for i, ((first, last), length) in enumerate(ranges):
        place = f"range {i + 1} of the schedule ({first}–{'' if last is None else last})"
        _check_length(length, f"{place}: the draft length", faults)
        if not _whole(first) or first < 1 or (last is not None and (not _whole(last) or last < first)):
            faults.add(f"{place}: batch sizes are whole numbers, from 1 on, and the last is not below the first")
        elif i and (ranges[i - 1][0][1] is None or ranges[i - 1][0][1] >= first):  # type: ignore[operator]
            faults.add(f"{place}: overlaps the range before it, or comes before it; let every batch size stand in one")
    faults.raise_if_any()
    return Schedule(_contiguous(ranges))


def _contiguous(ranges: Ranges) -> tuple[Step, ...]:
    """Close the gaps with the draft length before them and join neighbours that draft the same."""
    steps: list[Step] = []
    for i, ((first, last), length) in enumerate(ranges):
        end = ranges[i + 1][0][0] - 1 if i + 1 < len(ranges) else last
        if steps and steps[-1].draft_length == length:
            steps[-1] = Step(steps[-1].first, end, length)
        else:
            steps.append(Step(first, end, length))
    return tuple(steps)


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _check_length(length: object, place: str, faults: Faults) -> None:
    if not isinstance(length, int) or isinstance(length, bool) or not 0 <= length <= MOST_DRAFT_TOKENS:
        faults.add(f"{place} is {length!r}; it is a whole number from 0 (off) to {MOST_DRAFT_TOKENS}")
