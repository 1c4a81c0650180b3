"""Draft lengths of many policies on one batch, laid out for the kernels."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.columns import frozen
from oracle.costs import LengthCosts
from oracle.errors import Faults, InputError
from oracle.policies.chosen import Named, Stopping
from oracle.policies.fixed import place_of
from oracle.policies.inputs import Inputs
from oracle.policies.policy import Policy
from oracle.policies.sets import PolicySet
from oracle.policies.text import parse_policy

_AT_ONCE = 8192  # positions: what rules compare stays in the cache, and no large arrays come and go


def lengths_of(policies: Sequence[Policy | str], inputs: Inputs) -> PolicySet:
    """Lay the draft lengths of policies out side by side.

    Policies of one family (thresholds of one rule) are one vectorised call, however many there are. A policy that
    is given twice stands there once.

    Parameters
    ----------
    policies
        Policies or their text forms.
    inputs
        The batch.

    Returns
    -------
    PolicySet
        Lengths that the cost model allows: adaptive policies take the next shorter one that may be chosen (or the
        shortest of all), policies that name their lengths exactly may not ask for others.

    Raises
    ------
    InputError
        All policies that cannot be read, lack what they look at, or ask for lengths that may not be chosen.
    """
    faults = Faults()
    wanted: dict[str, Policy] = {}
    for each in policies:
        try:
            policy = parse_policy(each) if isinstance(each, str) else each
            wanted.setdefault(str(policy), policy)
        except InputError as error:
            faults.add(str(error))
    families: dict[Policy, list[int]] = {}
    for p, policy in enumerate(wanted.values()):
        families.setdefault(policy.family, []).append(p)
    names = tuple(wanted)
    shape = (inputs.problem.positions, len(names))
    length, drafted = np.empty(shape, dtype=np.int16), np.empty(shape, dtype=np.int16)
    looked = False
    for family, members in families.items():
        parameters = np.array([wanted[names[p]].parameter for p in members])
        try:
            chosen = family.choose(inputs, parameters)
            if isinstance(chosen, Named):
                _check_allowed(chosen, [names[p] for p in members], inputs, faults)
                for p, k in zip(members, chosen.draft_length.T, strict=True):
                    length[:, p] = drafted[:, p] = k
            else:
                _stop(chosen, members, inputs.costs, length, drafted)
                looked |= chosen.drafted is not None
        except InputError as error:
            for fault in error.faults:
                faults.add(f"policy '{names[members[0]]}': {fault}")
    faults.raise_if_any()
    bounds = frozenset(name for name, policy in wanted.items() if not policy.online)
    return PolicySet(names, frozen(length), frozen(drafted) if looked else None, bounds)


def _allowed(draft_length: NDArray[Any], costs: LengthCosts) -> NDArray[np.int16]:
    """Lengths that may be chosen in place of any: the next shorter one, or the shortest."""
    lengths = np.array(costs.lengths, dtype=np.int16)
    at = np.searchsorted(lengths, np.arange(costs.k_max + 1), side="right") - 1
    return np.asarray(lengths[np.maximum(at, 0)][np.minimum(draft_length, costs.k_max)])


def _stop(
    rules: Stopping,
    members: Sequence[int],
    costs: LengthCosts,
    length: NDArray[np.int16],
    drafted: NDArray[np.int16],
) -> None:
    """Write the lengths at which rules stop, and the steps made, into their columns."""
    from kernels.stopping import stop  # noqa: PLC0415  # numba is slow to import

    verified = _allowed(rules.verified, costs)
    made = verified
    if rules.drafted is not None:
        made = np.maximum(verified, np.minimum(rules.drafted, costs.lengths[-1])).astype(np.int16)
    order = np.argsort(-rules.price, kind="stable")
    price, column = frozen(rules.price[order]), frozen(np.array(members)[order])
    for first in range(0, len(length), _AT_ONCE):
        rows = slice(first, first + _AT_ONCE)
        cost, gain = rules.steps(rows)
        stop(frozen(cost), frozen(gain), price, column, frozen(verified), frozen(made), length[rows], drafted[rows])


def _check_allowed(chosen: Named, names: Sequence[str], inputs: Inputs, faults: Faults) -> None:
    """Note every policy that asks for a length which may not be chosen, with the first such length and place."""
    costs = inputs.costs
    known = np.append(costs.allowed, False)
    wrong = ~known[np.minimum(chosen.draft_length, costs.k_max + 1)]
    for p in np.flatnonzero(wrong.any(axis=0)).tolist():
        t = int(np.flatnonzero(wrong[:, p])[0])
        k = int(chosen.draft_length[t, p])
        everywhere = (chosen.draft_length[:, p] == k).all()
        place = "" if everywhere else f"{place_of(t, inputs)}: "
        faults.add(
            f"policy '{names[p]}': {place}asks for k = {k}, that is m = {k + 1}; lengths that may be chosen: "
            f"k = {', '.join(map(str, costs.lengths))} (what the latency model has measured, between k_min and k_max); "
            f"choose one of them, or measure m = {k + 1}"
        )
