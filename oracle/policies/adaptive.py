"""Policies that draft token by token and stop by themselves.

Each looks at one more draft token and decides whether it is verified. The *online* forms see what an engine sees
then: the draft's own confidence in the tokens drafted so far, the one at which it stops included (see
`Inputs.confidence`), the context length, the latency model and constants from training generations. The token at
which they stop has been drafted, so its draft step is paid (`PolicySet.drafted`) although it is not verified.
The *informed* forms (written with !) see the true match probabilities and unique experts of the text, its end
included, before they draft: a bound on the idea, nothing that can be deployed.
"""

import math
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from oracle.errors import InputError
from oracle.policies.inputs import Inputs
from oracle.policies.policy import Chosen, Policy

_DRAFT_PROB = frozenset({"draft_prob"})


def while_at_least(worth: NDArray[np.float64], thresholds: NDArray[np.float64], keep: bool) -> Chosen:
    """Draft on until the worth of a token falls under a threshold.

    Parameters
    ----------
    worth : (N, K) float64
        What is compared, by depth.
    thresholds : (P,) float64
    keep
        Whether the token at which drafting stops is verified too.
    """
    n, K = worth.shape
    going = np.ones((n, len(thresholds)), dtype=bool)
    count = np.zeros(going.shape, dtype=np.int16)
    for j in range(K):
        going &= worth[:, j, None] >= thresholds
        count += going
    drafted = np.minimum(count + np.int16(1), np.int16(K))
    return Chosen(drafted if keep else count, drafted)


def _check_threshold(threshold: float) -> None:
    if not 0 <= threshold <= 1:  # NaN too
        raise InputError(f"the threshold is {threshold}; a probability lies in [0, 1]")


@dataclass(frozen=True)
class Confidence(Policy):
    """Draft on while the draft's own probability of its next token is at least T: ``confidence:T``.

    Where it comes from: llama.cpp ``--spec-draft-p-min`` leaves the token that falls under T out of the draft;
    Hugging Face ``assistant_confidence_threshold`` (and older versions of llama.cpp) verify it too:
    ``confidence:T@keep``. What it may look at: draft_prob at t, t + 1, … up to the token at which it stops.
    """

    threshold: float
    keep: bool = False

    def __post_init__(self) -> None:
        _check_threshold(self.threshold)

    def __str__(self) -> str:
        return f"confidence:{float(self.threshold)!r}{'@keep' if self.keep else ''}"

    @property
    def parameter(self) -> float:
        """T."""
        return self.threshold

    @property
    def family(self) -> Policy:
        """T = 0."""
        return replace(self, threshold=0.0)

    def at(self, parameter: float) -> Policy:
        """With another T."""
        return replace(self, threshold=parameter)

    @property
    def columns(self) -> frozenset[str]:
        """The draft's confidences."""
        return _DRAFT_PROB

    def choose(self, inputs: Inputs, parameters: NDArray[np.float64]) -> Chosen:
        """Count the confidences before the first under T."""
        return while_at_least(inputs.confidence, parameters, self.keep)


@dataclass(frozen=True)
class Survival(Policy):
    """Draft on while the chance that all draft tokens match is at least T: ``survival:T``.

    Where it comes from: SpecDec++ (Huang et al. 2024) stops when the chance of a rejection rises above 1 - T; its
    decision process verifies the token at which it stops: ``survival:T@keep``. What it may look at: online, the
    product of draft_prob at t, t + 1, … up to the token at which it stops (SpecDec++ trains a head for this);
    informed, ``survival!:T``, the true survival S_j.
    """

    threshold: float
    informed: bool = False
    keep: bool = False

    def __post_init__(self) -> None:
        _check_threshold(self.threshold)

    def __str__(self) -> str:
        mark, keep = "!" if self.informed else "", "@keep" if self.keep else ""
        return f"survival{mark}:{float(self.threshold)!r}{keep}"

    @property
    def parameter(self) -> float:
        """T."""
        return self.threshold

    @property
    def family(self) -> Policy:
        """T = 0."""
        return replace(self, threshold=0.0)

    def at(self, parameter: float) -> Policy:
        """With another T."""
        return replace(self, threshold=parameter)

    @property
    def columns(self) -> frozenset[str]:
        """The draft's confidences, unless informed."""
        return frozenset() if self.informed else _DRAFT_PROB

    @property
    def online(self) -> bool:
        """Unless informed."""
        return not self.informed

    def choose(self, inputs: Inputs, parameters: NDArray[np.float64]) -> Chosen:
        """Count the survivals before the first under T."""
        found = while_at_least(inputs.survival(self.informed), parameters, self.keep)
        return Chosen(found.draft_length) if self.informed else found


@dataclass(frozen=True)
class Goodput(Policy):
    """Draft on while expected tokens a millisecond rise, E[A] / C: ``goodput``.

    Where it comes from: Cascade (utility of speculation for MoE) and vLLM's adaptive verification, greedy in each
    round. Ties stop. What it may look at: online, E[A] = 1 + the products of draft_prob at t, t + 1, … up to the
    token at which it stops, and C with the mean U by m of training generations and the context length; informed,
    ``goodput!``, the true survival and U. Between two measured lengths it looks at all tokens up to the next one.
    """

    informed: bool = False

    def __str__(self) -> str:
        return "goodput!" if self.informed else "goodput"

    @property
    def columns(self) -> frozenset[str]:
        """The draft's confidences, unless informed."""
        return frozenset() if self.informed else _DRAFT_PROB

    @property
    def learns(self) -> bool:
        """Mean U by m, unless informed."""
        return not self.informed

    @property
    def online(self) -> bool:
        """Unless informed."""
        return not self.informed

    def choose(self, inputs: Inputs, parameters: NDArray[np.float64]) -> Chosen:
        """Extend while the ratio rises."""
        survival, lengths = inputs.survival(self.informed), inputs.costs.lengths
        going = np.ones((len(survival), 1), dtype=bool)
        k, drafted = _shortest(going, lengths)
        advance = 1.0 + survival[:, : lengths[0]].sum(axis=1)
        cost = inputs.round_ms(lengths[0], self.informed)
        for a, b in pairwise(lengths):
            further = advance + survival[:, a:b].sum(axis=1)
            dearer = inputs.round_ms(b, self.informed)
            np.copyto(drafted, b, where=going)
            going &= (further * cost > advance * dearer)[:, None]
            np.copyto(k, b, where=going)
            advance, cost = further, dearer
        return Chosen(k, None if self.informed else drafted)


@dataclass(frozen=True)
class Slope(Policy):
    """Draft on while one more expected token costs at most L milliseconds, dC <= L * dE[A]: ``slope:L``.

    Where it comes from: the necessary condition of "The Limits of Speculation" (arXiv 2609.22156), with one price
    L in ms per token for all decisions. What it may look at: online, dE[A] from the products of draft_prob at t,
    t + 1, … up to the token at which it stops, and dC with the mean U by m of training generations and the
    context length; informed, ``slope!:L``, the true survival and U. Between two measured lengths it looks at all
    tokens up to the next one.
    """

    price_ms: float
    informed: bool = False

    def __post_init__(self) -> None:
        if not (self.price_ms >= 0 and math.isfinite(self.price_ms)):
            raise InputError(f"the slope is {self.price_ms}; it is a price of 0 or more milliseconds a token")

    def __str__(self) -> str:
        return f"slope{'!' if self.informed else ''}:{float(self.price_ms)!r}"

    @property
    def parameter(self) -> float:
        """L, milliseconds a token."""
        return self.price_ms

    @property
    def family(self) -> Policy:
        """L = 0."""
        return replace(self, price_ms=0.0)

    def at(self, parameter: float) -> Policy:
        """With another L."""
        return replace(self, price_ms=parameter)

    @property
    def columns(self) -> frozenset[str]:
        """The draft's confidences, unless informed."""
        return frozenset() if self.informed else _DRAFT_PROB

    @property
    def learns(self) -> bool:
        """Mean U by m, unless informed."""
        return not self.informed

    @property
    def online(self) -> bool:
        """Unless informed."""
        return not self.informed

    def choose(self, inputs: Inputs, parameters: NDArray[np.float64]) -> Chosen:
        """Extend while the next length is worth its price."""
        survival, lengths = inputs.survival(self.informed), inputs.costs.lengths
        going = np.ones((len(survival), len(parameters)), dtype=bool)
        k, drafted = _shortest(going, lengths)
        for a, b in pairwise(lengths):
            gain = survival[:, a:b].sum(axis=1)
            more_ms = inputs.round_ms(b, self.informed) - inputs.round_ms(a, self.informed)
            np.copyto(drafted, b, where=going)
            going &= more_ms[:, None] <= parameters * gain[:, None]
            np.copyto(k, b, where=going)
        return Chosen(k, None if self.informed else drafted)


def _shortest(like: NDArray[np.bool_], lengths: tuple[int, ...]) -> tuple[NDArray[np.int16], NDArray[np.int16]]:
    """The shortest length everywhere, as draft lengths and as steps made."""
    k = np.full(like.shape, lengths[0], dtype=np.int16)
    return k, k.copy()
