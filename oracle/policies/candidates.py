"""The members of a family of policies that tuning tries."""

import numpy as np

from oracle.costs import LengthCosts
from oracle.errors import InputError
from oracle.policies.policy import Policy
from oracle.policies.text import parse_policy

BEST_STATIC = "static"
POINTS = 100  # parameters tried of a rule with a threshold
_LEAST_SURVIVAL = 1e-3
_LEAST_SLOPE, _MOST_SLOPE = 0.02, 10.0  # of the base cost of the shortest round


def candidates(family: str, costs: LengthCosts, points: int = POINTS) -> tuple[Policy, ...]:
    """List the policies of a family that tuning tries, the shortest drafts first.

    Parameters
    ----------
    family
        A text form without its parameter (``static``, ``confidence@max=6``, ``slope!``); one with its parameter
        or without any (``goodput``) is tried alone.
    costs
        Cost coefficients by draft length.
    points
        How many parameters: thresholds of `confidence` evenly from 1 to 0; of `survival` by equal factors from 1
        to 0.001, and 0; slopes by equal factors from 0.02 to 10 times the base cost of the shortest round.
    """
    name, at, options = family.partition("@")
    if points < 2:
        raise InputError(f"points is {points}; a parameter is tried at 2 points or more")
    if name == BEST_STATIC:
        return tuple(parse_policy(f"static:{k}{at}{options}") for k in costs.lengths)
    if name == "confidence":
        grid = np.linspace(1.0, 0.0, points)
    elif name in ("survival", "survival!"):
        grid = np.append(np.geomspace(1.0, _LEAST_SURVIVAL, points - 1), 0.0)
    elif name in ("slope", "slope!"):
        base = float(costs.base_ms[costs.lengths[0]])
        grid = np.geomspace(_LEAST_SLOPE, _MOST_SLOPE, points) * (base if base > 0 else 1.0)
    else:
        return (parse_policy(family),)
    member = parse_policy(f"{name}:0{at}{options}")
    return tuple(member.at(float(f"{value:.4g}")) for value in grid)
