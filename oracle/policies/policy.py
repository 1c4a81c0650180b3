"""What every policy is: a frozen rule with a text form that names draft lengths; and caps around any of them."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oracle.errors import MOST_DRAFT_TOKENS, InputError
from oracle.policies.chosen import Chosen
from oracle.policies.inputs import Inputs


class Policy(ABC):
    """A rule that names a draft length at every position.

    Policies of one `family` differ by one number only, and are laid out together in one vectorised call.
    """

    @property
    def parameter(self) -> float:
        """The number that tells policies of one family apart; 0 where there is none."""
        return 0.0

    @property
    def family(self) -> "Policy":
        """The policy without its parameter."""
        return self

    def at(self, parameter: float) -> "Policy":
        """The policy of the same family with another parameter."""
        raise TypeError(f"{self} has no parameter")

    @property
    def columns(self) -> frozenset[str]:
        """Columns of the trace it reads, besides those that every solve reads."""
        return frozenset()

    @property
    def learns(self) -> bool:
        """Whether it carries constants from training generations (besides a tuned parameter)."""
        return False

    @property
    def online(self) -> bool:
        """Whether an engine could run it: it sees nothing that comes after its choice."""
        return not self.claimed

    @property
    def claimed(self) -> bool:
        """Whether only its author can say what it looked at."""
        return False

    @abstractmethod
    def choose(self, inputs: Inputs, parameters: NDArray[np.float64]) -> Chosen:
        """Choose for the family's P members with these parameters.

        Raises
        ------
        InputError
            The batch lacks what the policy looks at; the text begins behind the policy's name.
        """


@dataclass(frozen=True)
class Capped(Policy):
    """Another policy with its draft length held between two bounds: ``confidence:0.6@max=6``.

    The bounds act on the length that the inner policy names. An engine with a maximum drafts no step beyond it.
    A minimum is drafted and verified whatever the inner policy says; llama.cpp's ``--spec-draft-n-min`` is another
    rule (it throws shorter drafts away).

    Attributes
    ----------
    policy
        The inner policy.
    longest, shortest
        Bounds in draft tokens; None: not bounded.
    """

    policy: Policy
    longest: int | None = None
    shortest: int | None = None

    def __post_init__(self) -> None:
        for name, bound in (("max", self.longest), ("min", self.shortest)):
            if bound is not None and not 0 <= bound <= MOST_DRAFT_TOKENS:
                raise InputError(f"@{name} is {bound}; it lies between 0 and {MOST_DRAFT_TOKENS} draft tokens")
        if self.longest is not None and self.shortest is not None and self.shortest > self.longest:
            raise InputError(f"@min is {self.shortest} and @max is {self.longest}; give @min <= @max")
        if self.longest is None and self.shortest is None:
            raise InputError("a cap needs @max or @min")
        if isinstance(self.policy, Capped):
            raise InputError("caps do not nest; give one @max and one @min")

    def __str__(self) -> str:
        bounds = (("max", self.longest), ("min", self.shortest))
        return str(self.policy) + "".join(f"@{name}={bound}" for name, bound in bounds if bound is not None)

    @property
    def parameter(self) -> float:
        """The inner policy's."""
        return self.policy.parameter

    @property
    def family(self) -> Policy:
        """The same caps around the inner policy's family."""
        return Capped(self.policy.family, self.longest, self.shortest)

    def at(self, parameter: float) -> Policy:
        """The same caps around the inner policy with another parameter."""
        return Capped(self.policy.at(parameter), self.longest, self.shortest)

    @property
    def columns(self) -> frozenset[str]:
        """The inner policy's."""
        return self.policy.columns

    @property
    def learns(self) -> bool:
        """The inner policy's."""
        return self.policy.learns

    @property
    def online(self) -> bool:
        """The inner policy's."""
        return self.policy.online

    @property
    def claimed(self) -> bool:
        """The inner policy's."""
        return self.policy.claimed

    def choose(self, inputs: Inputs, parameters: NDArray[np.float64]) -> Chosen:
        """Choose as the inner policy does, within the bounds."""
        return self.policy.choose(inputs, parameters).capped(self.shortest, self.longest)
