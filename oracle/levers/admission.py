"""How many requests to admit: with a prefix cache, more than a certain number cost more than they save.

Decoding cheapens with the batch as 1/B and managing the cache grows with B, so their sum is least at

    B_opt = sqrt(tau b (1 + s host/(tau b)) / Abar^s · L_out / (gamma L_ctx)),

limited to what is there and fits; batches are whole, so the better neighbour is taken. Requests beyond wait: this is
about cost per token, not about waiting times. In engines it is the number of sequences a step may hold.
"""

import numpy as np

from oracle.levers.cost import Toggles, batch_size, cost_parts, round_length
from oracle.levers.deployment import Deployment, Precision
from oracle.levers.regime import Numbers, Regime


def best_admission(deployment: Deployment, precision: Precision, regime: Regime, *, speculation_on: bool) -> Numbers:
    """B_opt with the prefix cache on, as a real number without limits; inf where managing it costs nothing."""
    per_step = np.full(regime.shape, deployment.read_ms_per_byte * precision.bytes_per_parameter)
    if speculation_on:
        host = deployment.speculation.round_host_ms
        per_step = (per_step + host) / round_length(deployment, precision, regime)
    managed = deployment.cache_ms_per_token * regime.context_tokens
    with np.errstate(divide="ignore"):
        return np.sqrt(per_step * regime.output_tokens / managed)


def admitted(deployment: Deployment, precision: Precision, regime: Regime, toggles: Toggles) -> Numbers:
    """Requests to admit, at most what there is and fits: whole, unless fewer than the next whole number are there."""
    most = batch_size(deployment, precision, regime, toggles.cache_on)
    if not toggles.cache_on:
        return most
    best = best_admission(deployment, precision, regime, speculation_on=toggles.speculation_on)
    fewer, more = (np.minimum(most, np.maximum(1.0, round_to(best))) for round_to in (np.floor, np.ceil))
    costs = [cost_parts(deployment, precision, regime, toggles, B).total_ms for B in (fewer, more)]
    return np.where(costs[0] <= costs[1], fewer, more)
