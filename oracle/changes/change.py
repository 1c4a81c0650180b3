"""A change of the cost model, its two readings, and the cost lanes of several changes."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from oracle.changes.notes import notes_of
from oracle.changes.terms import OtherModel, Priced, Term, place
from oracle.costs import LengthCosts
from oracle.errors import Faults, InputError, printable
from oracle.files import shown
from oracle.latency.model import LatencyModel


@dataclass(frozen=True)
class Change:
    """Terms applied one after the other; ``str`` gives the canonical text, which reads back to the same change.

    Two readings: *as is* keeps all other coefficients. *Refitted* follows each term that changes alpha or c by a refit
    of beta0, so that each length keeps the mean cost it had before that term; a later `base` or `beta0` term acts on
    the refitted beta0.
    """

    terms: tuple[Term, ...]

    def __str__(self) -> str:
        return ", ".join(map(str, self.terms))

    def faults(self, model: LatencyModel) -> list[str]:
        """Say what the latency model cannot answer, with the place in the text; empty if all is well."""
        found = []
        for at, term in enumerate(self.terms, 1):
            found += [place(str(self), at, str(term)) + fault for fault in term.faults(model)]
            model = term.model if isinstance(term, OtherModel) else model
        return found

    def as_is(self, costs: LengthCosts, model: LatencyModel) -> LengthCosts:
        """Change what is named and keep all other coefficients.

        Parameters
        ----------
        costs, model
            The costs by draft length, and the model they come from.

        Raises
        ------
        InputError
            A length that was not measured, or costs that are no longer finite.
        """
        result = self._follow(costs, model, lambda term, now: term.as_is(now))
        assert result is not None
        return result

    def refitted(self, costs: LengthCosts, model: LatencyModel) -> LengthCosts | None:
        """Change what is named and refit beta0.

        Returns
        -------
        LengthCosts
            None if no term changes alpha or c at an allowed length, or the model file does not tell the means.

        Raises
        ------
        InputError
            As `as_is`.
        """
        moved = []

        def refit(term: Term, now: Priced) -> Priced | None:
            moved.append(term.moves(now))
            return term.refitted(now)

        result = self._follow(costs, model, refit)
        return result if any(moved) else None

    def notes(self, costs: LengthCosts, model: LatencyModel, *, refitted: bool = True) -> tuple[str, ...]:
        """What a reader of the results must know, one sentence each; `refitted`: whether that reading is shown too."""
        self._raise_faults(model)
        return tuple(dict.fromkeys(notes_of(self.terms, Priced(costs, model), refitted=refitted)))

    def _raise_faults(self, model: LatencyModel) -> None:
        faults = Faults()
        for fault in self.faults(model):
            faults.add(fault)
        faults.raise_if_any()

    def _follow(
        self, costs: LengthCosts, model: LatencyModel, step: Callable[[Term, Priced], Priced | None]
    ) -> LengthCosts | None:
        """Apply one term after the other; None as soon as a step has no answer."""
        self._raise_faults(model)
        now = Priced(costs, model)
        for at, term in enumerate(self.terms, 1):
            where = place(str(self), at, str(term))
            try:
                after = step(term, now)
            except InputError as error:
                raise InputError([where + fault for fault in error.faults]) from error
            if after is None:
                return None
            arrays = (after.costs.base_ms[costs.allowed], after.costs.alpha_ms, after.costs.context_ms)
            if not all(np.isfinite(array).all() for array in arrays):
                raise InputError(f"{where}gives a cost that is not a finite number; give smaller numbers")
            now = after
        return now.costs


@dataclass(frozen=True)
class Lane:
    """Costs to solve for beside the full ones, what was changed in them, and whether beta0 was refitted."""

    name: str
    costs: LengthCosts
    refitted: bool = False


def lanes_of(changes: Sequence[Change], costs: LengthCosts, model: LatencyModel) -> tuple[Lane, ...]:
    """Lay changes out as cost lanes, each as is and, where it exists, refitted.

    Returns
    -------
    tuple of Lane
        Named by the canonical text, made safe for a terminal, and the same followed by ``, beta0 refitted``.

    Raises
    ------
    InputError
        All faults of all changes at once: lengths not measured, a change given twice.
    """
    faults = Faults()
    lanes = []
    for change, times in Counter(changes).items():
        if times > 1:
            faults.add(f"change '{printable(str(change))}' is given {times} times; give it once")
        try:
            as_is, refitted = change.as_is(costs, model), change.refitted(costs, model)
        except InputError as error:
            for fault in error.faults:
                faults.add(fault)
            continue
        name = shown(str(change))
        lanes.append(Lane(name, as_is))
        if refitted is not None:
            lanes.append(Lane(f"{name}, beta0 refitted", refitted, True))
    faults.raise_if_any()
    return tuple(lanes)
