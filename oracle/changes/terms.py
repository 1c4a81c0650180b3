"""One term of a change: a coefficient scaled or replaced, or another latency model in place of this one."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from oracle.changes.record import recorded
from oracle.costs import LengthCosts, length_costs
from oracle.errors import InputError, printable
from oracle.files import shown
from oracle.latency.model import LatencyModel


@dataclass(frozen=True)
class Priced:
    """Costs by draft length together with the model they come from, whose record tells the means of its rounds."""

    costs: LengthCosts
    model: LatencyModel


class Term(ABC):
    """One step of a change; ``str`` gives the text form that reads back to it."""

    @abstractmethod
    def as_is(self, now: Priced) -> Priced:
        """Apply the term; all other coefficients are kept."""

    def refitted(self, now: Priced) -> Priced | None:
        """Apply the term and refit beta0 so that each length keeps its mean cost; None if the means are not known."""
        after = self.as_is(now)
        kept = kept_mean_ms(now, after.costs)
        if kept is None:
            return None
        return replace(after, costs=replace(after.costs, verify_ms=after.costs.verify_ms + kept))

    def moves(self, now: Priced) -> bool:
        """Whether alpha or the context coefficient of an allowed length changes: only then beta0 can be refitted."""
        after = self.as_is(now).costs
        return not (
            np.array_equal(now.costs.alpha_ms, after.alpha_ms)
            and np.array_equal(now.costs.context_ms, after.context_ms)
        )

    def faults(self, model: LatencyModel) -> Iterator[str]:
        """Say what the latency model cannot answer."""
        yield from ()

    def repeats(self, other: "Term") -> bool:
        """Whether two terms of one change say something about the same coefficient."""
        return type(self) is type(other)


@dataclass(frozen=True)
class Quantity:
    """A part of a round's cost that a term can name.

    Attributes
    ----------
    whole, single
        Its name for all lengths, and for the lengths in brackets; None where it is one number for all.
    array
        Where it stands in `LengthCosts`.
    letter
        What brackets count: m verified positions, or k draft tokens (from 1 on).
    least_ms
        The least value it may be given; a fitted coefficient may be negative, a time may not.
    """

    whole: str
    single: str | None
    array: str
    letter: Literal["m", "k"]
    least_ms: float = -np.inf

    def measured(self, model: LatencyModel) -> tuple[int, ...]:
        """Give the m, or the k, that the model knows."""
        return model.m if self.letter == "m" else tuple(k for k in model.draft_lengths if k)


EXPERTS = Quantity("experts", "alpha", "alpha_ms", "m")
BASE = Quantity("base", "beta0", "verify_ms", "m")
CONTEXT = Quantity("context", "context", "context_ms", "m")
DRAFT = Quantity("draft", "draft", "draft_ms", "k", least_ms=0.0)
REJECT = Quantity("reject", None, "reject_ms", "k", least_ms=0.0)
QUANTITIES = (EXPERTS, CONTEXT, DRAFT, BASE, REJECT)


@dataclass(frozen=True)
class Span:
    """The numbers first … last in brackets."""

    first: int
    last: int

    def __str__(self) -> str:
        return f"[{self.first}]" if self.first == self.last else f"[{self.first}-{self.last}]"


@dataclass(frozen=True)
class _Coefficients(Term):
    """Coefficients of one quantity, of all lengths or of those in `span`."""

    quantity: Quantity
    span: Span | None
    number: float

    @property
    def name(self) -> str:
        """What the text form calls the coefficients, brackets included."""
        return self.quantity.whole if self.span is None else f"{self.quantity.single}{self.span}"

    def at(self, costs: LengthCosts) -> NDArray[np.bool_]:
        """Mark the allowed lengths that are meant; (K + 1,)."""
        k = np.arange(costs.k_max + 1)
        meant = costs.allowed if self.quantity.letter == "m" else costs.allowed & (k > 0)
        if self.span is None:
            return meant
        named = k + 1 if self.quantity.letter == "m" else k
        return meant & (self.span.first <= named) & (named <= self.span.last)

    def as_is(self, now: Priced) -> Priced:
        """Change the coefficients that are meant."""
        array = self.quantity.array
        old = getattr(now.costs, array)
        with np.errstate(over="ignore"):  # `Change` refuses what is not finite
            new = np.where(self.at(now.costs), self._changed(old), old)
        return replace(now, costs=replace(now.costs, **{array: new}))

    @abstractmethod
    def _changed(self, old: NDArray[np.float64]) -> NDArray[np.float64] | float:
        """Give the new coefficients."""

    def faults(self, model: LatencyModel) -> Iterator[str]:
        """Name what was not measured."""
        if self.span is None:
            return
        letter, measured = self.quantity.letter, self.quantity.measured(model)
        missing = [i for i in range(self.span.first, self.span.last + 1) if i not in measured]
        if missing:
            known = ", ".join(map(str, measured)) or "none"
            yield (
                f"the latency model has no {letter} = {', '.join(map(str, missing))}; measured: {letter} = {known}; "
                "name measured ones (nothing is interpolated)"
            )

    def repeats(self, other: Term) -> bool:
        """Whether both mean the same coefficient by the same name."""
        if not isinstance(other, _Coefficients) or self.quantity != other.quantity:
            return False
        if self.span is None or other.span is None:
            return self.span is other.span
        return self.span.first <= other.span.last and other.span.first <= self.span.last


@dataclass(frozen=True)
class Scaled(_Coefficients):
    """Coefficients times a factor of 0 or more: ``experts=0.5``, ``alpha[2-4]*0.5``."""

    def __str__(self) -> str:
        return f"{self.name}{'=' if self.span is None else '*'}{number_text(self.number)}"

    def _changed(self, old: NDArray[np.float64]) -> NDArray[np.float64]:
        return self.number * old + 0.0  # 0 · (-alpha) is 0, not -0


@dataclass(frozen=True)
class Replaced(_Coefficients):
    """Coefficients replaced by a value in milliseconds (alpha: per unique expert, context: per token)."""

    def __str__(self) -> str:
        return f"{self.name}={number_text(self.number)}ms"

    def _changed(self, old: NDArray[np.float64]) -> float:
        return self.number


@dataclass(frozen=True)
class OtherModel(Term):
    """All coefficients from another latency model file, of another GPU or precision say: ``model=PATH``."""

    path: str
    model: LatencyModel = field(hash=False, repr=False)

    def __str__(self) -> str:
        plain = self.path.strip() == self.path and not set('",') & set(self.path)
        quoted = self.path if plain else '"' + self.path.replace('"', '""') + '"'
        return f"model={quoted}"

    def as_is(self, now: Priced) -> Priced:
        """Lay the other model out over the same lengths."""
        lengths = now.costs.lengths
        missing = [k for k in lengths if k not in self.model.draft_lengths]
        if missing:
            raise InputError(
                f"{shown(self.path)}: cannot price k = {', '.join(map(str, missing))}: it has no such m = k + 1 or no "
                f"draft time there; it prices k = {', '.join(map(str, self.model.draft_lengths)) or 'none'}; fit it "
                "over the same lengths, or narrow --k-min and --k-max"
            )
        other = length_costs(self.model, lengths[0], now.costs.k_max)
        allowed = now.costs.allowed
        arrays = {
            name: np.where(allowed, getattr(other, name), 0.0)
            for name in ("verify_ms", "alpha_ms", "context_ms", "draft_ms", "reject_ms")
        }
        return Priced(LengthCosts(**arrays, allowed=allowed), self.model)

    def refitted(self, now: Priced) -> Priced:
        """Apply it as it is: its beta0 was fitted to its own rounds."""
        return self.as_is(now)

    def moves(self, now: Priced) -> bool:
        """Never: nothing is left to refit."""
        return False


def kept_mean_ms(before: Priced, after: LengthCosts) -> NDArray[np.float64] | None:
    """What beta0 must take over so that each length keeps its mean cost, by draft length.

    (alpha - alpha') · mean U + (c - c') · mean L, with the means of the rounds the model was fitted on: what least
    squares with a free beta0 for every m gives when alpha' and c' are held.

    Returns
    -------
    (K + 1,) float64, milliseconds
        None if the model's record does not tell a mean that is needed.
    """
    kept = np.zeros(after.k_max + 1)
    for array, mean_of in (("alpha_ms", "mean_unique_experts"), ("context_ms", "mean_context_len")):
        less = getattr(before.costs, array) - getattr(after, array)
        mean = recorded(before.model, mean_of, after.k_max)
        if not np.isfinite(mean[less != 0]).all():
            return None
        with np.errstate(over="ignore"):
            kept += less * np.where(less != 0, mean, 0.0)
    return kept


def number_text(number: float) -> str:
    """Write a number so that it reads back to itself, whole numbers without a point."""
    return str(int(number)) if number.is_integer() and abs(number) < 1e15 else repr(number)


def place(text: str, at: int, term: str) -> str:
    """Name a term's place in the text of a change, for a message."""
    return f"change '{printable(text)}', term {at} '{printable(term, 60)}': "
