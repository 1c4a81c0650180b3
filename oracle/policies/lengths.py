"""Draft lengths of many policies on one batch, laid out for the kernels."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from oracle.columns import frozen
from oracle.costs import LengthCosts
from oracle.errors import Faults, InputError
from oracle.policies.fixed import place_of
from oracle.policies.inputs import Inputs
from oracle.policies.policy import Chosen, Policy
from oracle.policies.sets import PolicySet
from oracle.policies.text import parse_policy


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
        except InputError as error:
            for fault in error.faults:
                faults.add(f"policy '{names[members[0]]}': {fault}")
            continue
        if chosen.exact:
            _check_allowed(chosen, [names[p] for p in members], inputs, faults)
        settled = settle(chosen, inputs.costs)
        length[:, members], drafted[:, members] = settled
        looked |= chosen.drafted is not None
    faults.raise_if_any()
    return PolicySet(names, frozen(length), frozen(drafted) if looked else None)


def settle(chosen: Chosen, costs: LengthCosts) -> tuple[NDArray[np.int16], NDArray[np.int16]]:
    """Turn lengths into ones that may be chosen: the next shorter one, or the shortest; and the steps made."""
    lengths = np.array(costs.lengths, dtype=np.int16)
    at = np.searchsorted(lengths, np.arange(costs.k_max + 1), side="right") - 1
    below = lengths[np.maximum(at, 0)]
    k = below[np.minimum(chosen.draft_length, costs.k_max)]
    if chosen.drafted is None:
        return k, k
    return k, np.maximum(k, np.minimum(chosen.drafted, lengths[-1]).astype(np.int16))


def _check_allowed(chosen: Chosen, names: Sequence[str], inputs: Inputs, faults: Faults) -> None:
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
