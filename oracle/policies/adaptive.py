"""Policies that draft token by token and stop by themselves.

Each looks at one more draft token and decides whether it is verified. The *online* forms see what an engine sees
then: the draft's own confidence in the tokens drafted so far, the one at which it stops included (see
`Inputs.confidence`), the context length, the latency model and constants from training generations. The token at
which they stop has been drafted, so its draft step is paid (`PolicySet.drafted`) although it is not verified.
The *informed* forms (written with !) see the true match probabilities and unique experts of the text, its end
included, before they draft: a bound on the idea, nothing that can be deployed.
"""

import math
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from oracle.errors import InputError
from oracle.policies.chosen import Steps, Stopping
from oracle.policies.inputs import Inputs
from oracle.policies.policy import Policy


class TokenByToken(Policy):
    """What rules that draft token by token have in common; text form ``form[!][:number][@keep]``.

    Attributes
    ----------
    form
        Head of the text form.
    number
        Field that holds the number of the text form; empty if there is none.
    prices
        Whether it compares costs of rounds; online, it learns the mean U by m for them.
    informed, keep
        Whether it looks at true probabilities, and whether it verifies the token at which it stops; fields of the
        rules that know both forms.
    """

    form: ClassVar[str]
    number: ClassVar[str] = ""
    prices: ClassVar[bool] = False
    informed: bool = False
    keep: bool = False

    def __str__(self) -> str:
        value = f":{self.parameter!r}" if self.number else ""
        return f"{self.form}{'!' if self.informed else ''}{value}{'@keep' if self.keep else ''}"

    @property
    def parameter(self) -> float:
        """The number of the text form."""
        return float(getattr(self, self.number)) if self.number else 0.0

    @property
    def family(self) -> Policy:
        """With the number 0."""
        return self.at(0.0) if self.number else self

    def at(self, parameter: float) -> Policy:
        """With another number."""
        return replace(self, **{self.number: parameter}) if self.number else super().at(parameter)  # type: ignore[type-var]

    @property
    def columns(self) -> frozenset[str]:
        """The draft's confidences, unless informed."""
        return frozenset() if self.informed else frozenset({"draft_prob"})

    @property
    def learns(self) -> bool:
        """Mean U by m, unless informed or no cost is looked at."""
        return self.prices and not self.informed

    @property
    def online(self) -> bool:
        """Unless informed."""
        return not self.informed

    def choose(self, inputs: Inputs, parameters: NDArray[np.float64]) -> Stopping:
        """Go through the lengths step by step."""
        return Stopping.along(
            inputs.costs.lengths if self.prices else range(inputs.problem.k_max + 1),
            partial(self.steps, inputs),
            parameters if self.prices else -parameters,
            keep=self.keep,
            looks=not self.informed,
        )

    @abstractmethod
    def steps(self, inputs: Inputs, rows: slice) -> Steps:
        """Cost and gain of each step from some positions; drafting goes on while cost <= number * gain.

        Thresholds are met with turned signs, -worth <= -T.
        """

    def _lengths(self, inputs: Inputs, rows: slice) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]:
        """From the shortest length on: expected tokens it adds to the one before (or to none), and C(t, k)."""
        survival, last = inputs.survival(self.informed, rows), 0
        for k in inputs.costs.lengths:
            gain = survival[last:k].sum(axis=0)
            yield gain, inputs.round_ms(k, self.informed, rows)
            last = k


def _thresholds(worth: NDArray[np.float64]) -> Steps:
    """Steps that go on while the worth of a token, (K, rows), is at least T."""
    return np.negative(worth, order="C"), np.ones((len(worth), 1))


def _check_threshold(threshold: float) -> None:
    if not 0 <= threshold <= 1:  # NaN too
        raise InputError(f"the threshold is {threshold}; a probability lies in [0, 1]")


@dataclass(frozen=True)
class Confidence(TokenByToken):
    """Draft on while the draft's own probability of its next token is at least T: ``confidence:T``.

    Where it comes from: llama.cpp ``--spec-draft-p-min`` leaves the token that falls under T out of the draft;
    Hugging Face ``assistant_confidence_threshold`` (and older versions of llama.cpp) verify it too:
    ``confidence:T@keep``. What it may look at: draft_prob at t, t + 1, … up to the token at which it stops.
    """

    form = "confidence"
    number = "threshold"
    threshold: float
    keep: bool = False

    def __post_init__(self) -> None:
        _check_threshold(self.threshold)

    def steps(self, inputs: Inputs, rows: slice) -> Steps:
        """Confidences by depth."""
        return _thresholds(inputs.confidence_by_depth(rows))


@dataclass(frozen=True)
class Survival(TokenByToken):
    """Draft on while the chance that all draft tokens match is at least T: ``survival:T``.

    Where it comes from: SpecDec++ (Huang et al. 2024) stops when the chance of a rejection rises above 1 - T; its
    decision process verifies the token at which it stops: ``survival:T@keep``. What it may look at: online, the
    product of draft_prob at t, t + 1, … up to the token at which it stops (SpecDec++ trains a head for this);
    informed, ``survival!:T``, the true survival S_j.
    """

    form = "survival"
    number = "threshold"
    threshold: float
    informed: bool = False
    keep: bool = False

    def __post_init__(self) -> None:
        _check_threshold(self.threshold)

    def steps(self, inputs: Inputs, rows: slice) -> Steps:
        """Survival by depth."""
        return _thresholds(inputs.survival(self.informed, rows))


@dataclass(frozen=True)
class Goodput(TokenByToken):
    """Draft on while expected tokens a millisecond rise, E[A] / C: ``goodput``.

    Where it comes from: Cascade (utility of speculation for MoE) and vLLM's adaptive verification, greedy in each
    round. Ties stop. What it may look at: online, E[A] = 1 + the products of draft_prob at t, t + 1, … up to the
    token at which it stops, and C with the mean U by m of training generations and the context length; informed,
    ``goodput!``, the true survival and U. Between two measured lengths it looks at all tokens up to the next one.
    """

    form = "goodput"
    prices = True
    informed: bool = False

    def steps(self, inputs: Inputs, rows: slice) -> Steps:
        """A step that does not raise the ratio costs 1, one that does costs nothing, and the number is 0."""
        lengths = self._lengths(inputs, rows)
        gain, cost = next(lengths)
        advance, refused = 1.0 + gain, []
        for gain, dearer in lengths:
            further = advance + gain
            refused.append(~(further * cost > advance * dearer))
            advance, cost = further, dearer
        return _stacked(refused, len(cost)), np.zeros((len(refused), 1))


@dataclass(frozen=True)
class Slope(TokenByToken):
    """Draft on while one more expected token costs at most L milliseconds, dC <= L * dE[A]: ``slope:L``.

    Where it comes from: the necessary condition of "The Limits of Speculation" (arXiv 2609.22156), with one price
    L in ms per token for all decisions. What it may look at: online, dE[A] from the products of draft_prob at t,
    t + 1, … up to the token at which it stops, and dC with the mean U by m of training generations and the
    context length; informed, ``slope!:L``, the true survival and U. Between two measured lengths it looks at all
    tokens up to the next one.
    """

    form = "slope"
    number = "price_ms"
    prices = True
    price_ms: float
    informed: bool = False

    def __post_init__(self) -> None:
        if not (self.price_ms >= 0 and math.isfinite(self.price_ms)):
            raise InputError(f"the slope is {self.price_ms}; it is a price of 0 or more milliseconds a token")

    def steps(self, inputs: Inputs, rows: slice) -> Steps:
        """What the next length costs more, and the expected tokens it adds."""
        gains, costs = zip(*self._lengths(inputs, rows), strict=True)
        more_ms = [dearer - cost for cost, dearer in pairwise(costs)]
        return _stacked(more_ms, len(costs[0])), _stacked(gains[1:], len(costs[0]))


def _stacked(steps: Sequence[NDArray[Any]], positions: int) -> NDArray[np.float64]:
    """One step below the other, (S, positions); S may be 0."""
    return np.array(steps, dtype=np.float64).reshape(len(steps), positions)
