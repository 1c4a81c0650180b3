"""Acceptance of tenants whose requests share batches, calculated from the acceptance of each alone."""

from collections.abc import Mapping
from typing import Literal

import numpy as np

from oracle.acceptance.curves import Acceptance, Curve
from oracle.errors import Faults, printable


def mixed(acceptance: Acceptance, weights: Mapping[str | None, float] | None = None) -> Acceptance:
    """Acceptance of tenants' requests that share batches.

    In a batch every request does one round a step, so the mean over rounds weighs tenants by their share of the
    requests in flight, whatever they emit.

    Parameters
    ----------
    weights
        Share of the requests in flight by tenant; rescaled to sum to 1. None: equal.

    Raises
    ------
    InputError
        Weights that do not name exactly the tenants, or are not positive.
    """
    tenants = acceptance.tenants
    if len(tenants) == 1 and weights is None:
        return acceptance
    notes = list(acceptance.notes)
    if weights is None:
        weights = dict.fromkeys(tenants, 1.0)
        notes.append("tenants have equal shares of the requests in flight (--tenant-weights says others)")
    faults = Faults()
    if set(weights) != set(tenants):
        named, known = (", ".join(sorted(map(_name, each))) for each in (weights, tenants))
        faults.add(
            f"tenant weights name {named}, and the acceptance names no tenants; name them, as --acceptance TENANT=FILE"
            if tenants == (None,)
            else f"tenant weights name {named}; the acceptance is of {known}: give one weight for each"
        )
    for tenant, weight in weights.items():
        if not (np.isfinite(weight) and weight > 0):
            faults.add(f"the weight of tenant {_name(tenant)} is {weight:g}; weights are positive and finite")
    faults.raise_if_any()
    largest = max(weights.values())
    weights = {tenant: weight / largest for tenant, weight in weights.items()}  # their sum stays finite
    total = sum(weights.values())
    curves = []
    for k in sorted({curve.draft_length for curve in acceptance.curves}):
        each = {tenant: acceptance.of(tenant).at(k) for tenant in tenants}
        found = {tenant: curve for tenant, curve in each.items() if curve is not None}
        if len(found) < len(tenants):
            lacking = ", ".join(_name(tenant) for tenant in tenants if tenant not in found)
            notes.append(f"K = {k} is left out of the mix: no acceptance at that depth for {lacking}")
            continue
        curves.append(_mix(found, {tenant: weights[tenant] / total for tenant in tenants}, k))
        borrowed = [_name(t) for t, curve in found.items() if curve.draft_length != k]
        if borrowed:
            notes.append(f"K = {k} of the mix: measured at a longer draft for {', '.join(borrowed)}")
    return Acceptance(tuple(curves), tuple(notes))


def _name(tenant: str | None) -> str:
    return "(none named)" if tenant is None else printable(tenant)


def _mix(curves: Mapping[str | None, Curve], shares: Mapping[str | None, float], k: int) -> Curve:
    """Average the curves of tenants at one draft length; their errors are independent."""
    survival = sum((shares[t] * curve.survival[:k] for t, curve in curves.items()), np.zeros(k))
    rounds = [curve.rounds for curve in curves.values()]
    known = [curve.covariance for curve in curves.values()]
    total = None if any(r is None for r in rounds) else float(sum(r for r in rounds if r is not None))
    by_position = all(curve.by_position for curve in curves.values())
    requests = min((curve.requests for curve in curves.values() if curve.requests is not None), default=None)
    if any(covariance is None for covariance in known):
        return Curve(survival, k, None, total, by_position=by_position, requests=requests)
    covariance = np.zeros((k, k))
    for tenant, curve in curves.items():
        assert curve.covariance is not None
        covariance += shares[tenant] ** 2 * curve.covariance[:k, :k]
    by_requests = any(curve.interval_from == "requests" for curve in curves.values())
    quantile = max(curve.quantile for curve in curves.values())
    origin: Literal["requests", "rounds"] = "requests" if by_requests else "rounds"
    return Curve(survival, k, None, total, covariance, quantile, origin, by_position, requests)
