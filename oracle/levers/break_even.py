"""Where each lever begins to pay: closed forms, in the terms of the traffic that an operator can observe.

Speculation pays iff Abar > 1 + w, hence from a repetitiveness r* on; the prefix cache pays iff what it saves of the
prefill is more than what it costs to manage, hence from a share rho* = gamma L_ctx B / (c_pre L_in) on (the output
length cancels). Both are inf or above 1 where the lever never pays. Between the knees of two precisions the gain of the
lower one grows with the concurrency; below and above it is constant (without KV reads).
"""

import numpy as np
from numpy.typing import NDArray

from oracle.errors import InputError
from oracle.levers.cost import (
    batch_size,
    capacity,
    chain,
    kv_read_ms,
    overhead,
    prefill_ms_per_token,
    round_length,
    step_ms,
    verify_ms,
)
from oracle.levers.deployment import Deployment, Precision
from oracle.levers.experts import left_out_share, log_missed
from oracle.levers.matches import accept_needed
from oracle.levers.regime import Numbers, Regime

_HALVINGS = 60
_ALL_READ = 37.0  # e^-37 is below the spacing of float64


def repetitiveness_needed(
    deployment: Deployment, precision: Precision, regime: Regime, batch: Numbers | None = None
) -> Numbers:
    """r*, repetitiveness above which speculation pays; inf where it never does, 0 where it does on any text."""
    B = batch_size(deployment, precision, regime) if batch is None else batch
    how = deployment.speculation
    w = overhead(deployment, precision, regime, B)
    a = accept_needed(w, how.draft_length, how.reading, chain(deployment, regime))
    needed = (a / precision.eta - how.base_match) / (1 - how.base_match)
    # a rounding error above 1 at eta = 1 is not "never"
    return np.where(needed > 1, np.inf, np.maximum(needed, 0.0))


def prefix_share_needed(
    deployment: Deployment, precision: Precision, regime: Regime, batch: Numbers | None = None
) -> Numbers:
    """rho*, share of cached prompt tokens above which the prefix cache pays; above 1 it never does."""
    B = batch_size(deployment, precision, regime) if batch is None else batch
    saved = prefill_ms_per_token(deployment, precision) * regime.prompt_tokens
    return deployment.cache_ms_per_token * regime.context_tokens * B / saved


def speculation_batches(deployment: Deployment, precision: Precision, regime: Regime) -> tuple[Numbers, Numbers]:
    """Batch sizes between which speculation pays, both ends excluded.

    Returns
    -------
    low, high : (…,) float64
        high <= low where there are none. Without KV reads low is 0: it pays below a batch size. With them it may pay
        above one only, since the step that host work adds to then grows with the batch. Where the experts read grow
        with the pass it may pay in more than one range: the last, as the largest batches are those of a full server.
    """
    found = _batches_of_full_reads(deployment, precision, regime)
    return found if not left_out_share(deployment) else _last_range(deployment, precision, regime, *found)


def _last_range(
    deployment: Deployment, precision: Precision, regime: Regime, low: Numbers, high: Numbers
) -> tuple[Numbers, Numbers]:
    """Last range of batches at which speculation pays; `low` and `high` are its ends where all experts are read."""

    def pays(batch: Numbers, at: Regime) -> NDArray[np.bool_]:
        return round_length(deployment, precision, at) > 1 + overhead(deployment, precision, at, batch)

    B = np.arange(1.0, _ALL_READ / -log_missed(deployment) + 1)
    last = B[-1]
    paying = np.broadcast_to(pays(B, regime.at((..., None))), (*regime.shape, len(B)))
    beyond = high > np.maximum(low, last)
    end = np.where(beyond, last, np.where(paying, B, 0.0).max(axis=-1))
    start = np.where(~paying & (end[..., None] > B), B, 0.0).max(axis=-1)
    edges = []
    for edge in (start, end):
        a = np.maximum(edge, 1.0)
        b, first = a + 1, pays(a, regime)
        for _ in range(_HALVINGS):
            middle = (a + b) / 2
            same = pays(middle, regime) == first
            a, b = np.where(same, middle, a), np.where(same, b, middle)
        edges.append(np.where(edge > 0, b, 0.0))
    return np.where(beyond & (low > last), low, edges[0]), np.where(beyond, high, edges[1])


def _batches_of_full_reads(deployment: Deployment, precision: Precision, regime: Regime) -> tuple[Numbers, Numbers]:
    """Both ends where every pass reads all experts, a line in the batch."""
    gain = round_length(deployment, precision, regime) - 1
    weights_ms = deployment.read_ms_per_byte * precision.bytes_per_parameter
    room = gain * weights_ms - deployment.speculation.round_host_ms
    slope = verify_ms(deployment, precision) - gain * kv_read_ms(deployment, regime)
    with np.errstate(divide="ignore", invalid="ignore"):
        edge = room / slope
    low = np.where((slope < 0) & (room < 0), edge, 0.0)
    high = np.where(slope > 0, np.maximum(edge, 0.0), np.where((slope < 0) | (room > 0), np.inf, 0.0))
    return low, high


def prefix_batch(deployment: Deployment, precision: Precision, regime: Regime) -> Numbers:
    """Batch size below which the prefix cache pays; inf where managing it costs nothing."""
    saved = regime.prefix_share * prefill_ms_per_token(deployment, precision) * regime.prompt_tokens
    managed = deployment.cache_ms_per_token * regime.context_tokens
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(managed > 0, saved / managed, np.where(saved > 0, np.inf, 0.0))


def critical_concurrency(deployment: Deployment, precision: Precision, regime: Regime) -> tuple[Numbers, Numbers]:
    """Concurrency from which speculation, and the prefix cache, no longer pay.

    Returns
    -------
    speculation, prefix : (…,) float64
        inf where the KV cache is full before: more requests then wait and change nothing.
    """
    K = capacity(deployment, precision, regime)
    _, spec = speculation_batches(deployment, precision, regime)
    prefix = prefix_batch(deployment, precision, regime)
    return np.where(spec > K, np.inf, spec), np.where(prefix > K, np.inf, prefix)


def precision_ratio(deployment: Deployment, lower: Precision, higher: Precision, regime: Regime) -> Numbers:
    """Decode cost of the lower precision over that of the higher, without speculation."""
    costs = []
    for precision in (lower, higher):
        B = batch_size(deployment, precision, regime)
        with np.errstate(divide="ignore", invalid="ignore"):
            costs.append(np.where(B >= 1, step_ms(deployment, precision, regime, B) / B, np.inf))
    with np.errstate(invalid="ignore"):
        return costs[0] / costs[1]


def phase(deployment: Deployment, lower: Precision, higher: Precision, regime: Regime) -> NDArray[np.int64]:
    """Which phase of the gain a concurrency is in: 0 below both knees, 1 between them, 2 above both."""
    knees = [capacity(deployment, precision, regime) for precision in (lower, higher)]
    return (regime.concurrency > np.minimum(*knees)).astype(np.int64) + (regime.concurrency > np.maximum(*knees))


def repetitiveness_for_higher(
    deployment: Deployment, higher: Precision, lower: Precision, regime: Regime
) -> NDArray[np.float64]:
    """Repetitiveness above which the higher precision decodes cheaper than the lower, both with speculation.

    inf where it never does. Only for independent matches: there Abar(eta' u) / Abar(eta u) rises with u for eta' > eta,
    so that there is one crossing.

    Raises
    ------
    InputError
        The deployment reads matches as a chain.
    """
    if deployment.speculation.reading != "independent":
        raise InputError("this break-even holds for independent matches; set speculation.reading to independent")

    def gain(r: Numbers) -> Numbers:
        at = regime.having(repetitiveness=r)
        ms = []
        for p in (higher, lower):
            B = batch_size(deployment, p, at)
            ms.append(step_ms(deployment, p, at, B) / B * (1 + overhead(deployment, p, at, B)))
            ms[-1] = ms[-1] / round_length(deployment, p, at)
        return ms[1] - ms[0]

    low, high = np.zeros(regime.shape), np.ones(regime.shape)
    never, always = gain(high) <= 0, gain(low) > 0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        pays = gain(middle) > 0
        low, high = np.where(pays, low, middle), np.where(pays, middle, high)
    return np.where(never, np.inf, np.where(always, 0.0, high))
