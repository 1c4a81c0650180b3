"""How many requests to admit: with a prefix cache, more than a certain number cost more than they save.

Decoding cheapens with the batch as 1/B and managing the cache grows with B, so their sum is least at

    B_opt = sqrt(tau b (1 + s host/(tau b)) / Abar^s · L_out / (gamma L_ctx)),

limited to what is there and fits; batches are whole, so the better neighbour is taken. Requests beyond wait: this is
about cost per token, not about waiting times. Where the experts read grow with the pass, the step is that of the batch
and the cost still falls and then rises, so that its slope has one root, below B_opt. In engines it is the number of
sequences a step may hold.
"""

import numpy as np
from numpy.typing import NDArray

from oracle.levers.cost import Toggles, batch_size, cost_parts, round_length
from oracle.levers.deployment import Deployment, Precision
from oracle.levers.experts import left_out_share, log_missed, missed_share
from oracle.levers.regime import Numbers, Regime

_HALVINGS = 50  # far below one request


def best_admission(deployment: Deployment, precision: Precision, regime: Regime, *, speculation_on: bool) -> Numbers:
    """B_opt with the prefix cache on, as a real number without limits; inf where managing it costs nothing."""
    how = deployment.speculation
    weights = deployment.read_ms_per_byte * precision.bytes_per_parameter
    host, length, positions = 0.0, np.ones(regime.shape), 1
    if speculation_on:
        host, length, positions = how.round_host_ms, round_length(deployment, precision, regime), how.draft_length + 1
    managed = deployment.cache_ms_per_token * regime.context_tokens
    with np.errstate(divide="ignore"):
        best = np.sqrt((weights + host) / length * regime.output_tokens / managed)
    left_out = left_out_share(deployment)
    if not left_out or not np.isfinite(best).all():
        return best
    rising = managed * length / regime.output_tokens

    def falls(B: Numbers) -> NDArray[np.bool_]:
        n = B * positions
        saved = left_out * missed_share(deployment, n) * (1 - n * log_missed(deployment))
        return np.asarray(weights * (1 - saved) + host > rising * B**2)

    low, high = np.zeros(regime.shape), best
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        falling = falls(middle)
        low, high = np.where(falling, middle, low), np.where(falling, high, middle)
    return high


def admitted(deployment: Deployment, precision: Precision, regime: Regime, toggles: Toggles) -> Numbers:
    """Requests to admit, at most what there is and fits: whole, unless fewer than the next whole number are there."""
    most = batch_size(deployment, precision, regime, toggles.cache_on)
    if not toggles.cache_on:
        return most
    best = best_admission(deployment, precision, regime, speculation_on=toggles.speculation_on)
    fewer, more = (np.minimum(most, np.maximum(1.0, round_to(best))) for round_to in (np.floor, np.ceil))
    costs = [cost_parts(deployment, precision, regime, toggles, B).total_ms for B in (fewer, more)]
    return np.where(costs[0] <= costs[1], fewer, more)
