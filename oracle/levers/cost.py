r"""Cost per token of one configuration: precision p, speculation s and prefix cache k, each on or off.

    B       = min(C, K(p)),                     K(p) = floor((HBM - b N) / (kv_bytes L_ctx))
    step    = tau b f(B) + KV reads,            tau  = N_read / bandwidth
    w       = (host + tau b kappa (g/g0) B/B_v + tau b (f(B (g+1)) - f(B))) / step
    decode  = step/B · (1 + s w) / Abar^s
    prefill = c_pre L_in (1 - k rho) / L_out
    cache   = k gamma L_ctx B / L_out

A round with speculation does w of a step more and emits Abar tokens instead of one. Host work does not shrink with the
precision, so it weighs more where the step is short; verification compute is not shared by the batch, so it grows with
B. f = 1, unless the experts read grow with the pass: see `oracle.levers.experts`. With a prefix cache that shares
blocks, K(p) counts L_ctx - rho L_in tokens a request. Milliseconds everywhere.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from oracle.levers.deployment import Deployment, Precision
from oracle.levers.experts import read_share
from oracle.levers.matches import mean_length
from oracle.levers.regime import Numbers, Regime


class Toggles(NamedTuple):
    """Which of the two levers that can be switched in a running engine are on."""

    speculation_on: bool
    cache_on: bool


# in the order in which ties are broken
TOGGLES = (Toggles(False, False), Toggles(False, True), Toggles(True, False), Toggles(True, True))


@dataclass(frozen=True)
class Parts:
    """Milliseconds per emitted token of the whole deployment, by what they are spent on; inf where nothing fits.

    Attributes
    ----------
    batch : (…,) float64
        B, requests that decode together.
    decode_ms, prefill_ms, cache_ms : (…,) float64
        Their sum is the cost per token.
    """

    batch: Numbers
    decode_ms: Numbers
    prefill_ms: Numbers
    cache_ms: Numbers

    @property
    def total_ms(self) -> Numbers:
        """Cost per token."""
        return self.decode_ms + self.prefill_ms + self.cache_ms


def capacity(deployment: Deployment, precision: Precision, regime: Regime, cache_on: bool = False) -> Numbers:
    """K(p), requests whose KV cache fits beside the weights; 0 where not one does. The knee of the concurrency."""
    tokens = regime.context_tokens
    if cache_on and deployment.kv_shared_on_hit:
        tokens = tokens - regime.prefix_share * regime.prompt_tokens
    left = deployment.hbm_bytes - precision.bytes_per_parameter * deployment.parameters
    with np.errstate(divide="ignore", invalid="ignore"):
        requests = np.floor(max(left, 0.0) / (deployment.kv_bytes_per_token * tokens))
    return np.where(np.isnan(requests), 0.0, requests)


def batch_size(deployment: Deployment, precision: Precision, regime: Regime, cache_on: bool = False) -> Numbers:
    """B = min(C, K(p)); 0 where not one request fits."""
    return np.minimum(regime.concurrency, capacity(deployment, precision, regime, cache_on))


def kv_read_ms(deployment: Deployment, regime: Regime) -> Numbers:
    """Milliseconds that each request of a batch adds to a decode step by its KV cache."""
    per_token = 1e3 * deployment.kv_bytes_per_token / deployment.bandwidth_bytes_per_s
    return deployment.kv_read_share * per_token * regime.context_tokens


def verify_ms(deployment: Deployment, precision: Precision) -> float:
    """Milliseconds that each request of a batch adds to a round by verifying its draft."""
    how = deployment.speculation
    longer = how.draft_length / how.reference_draft_length
    whole_ms = deployment.read_ms_per_byte * precision.bytes_per_parameter
    return whole_ms * precision.kappa * longer / how.verify_batch


def weights_ms(deployment: Deployment, precision: Precision, tokens: ArrayLike) -> Numbers:
    """Milliseconds to read the weights of a pass over so many positions."""
    return deployment.read_ms_per_byte * precision.bytes_per_parameter * read_share(deployment, tokens)


def step_ms(deployment: Deployment, precision: Precision, regime: Regime, batch: Numbers) -> Numbers:
    """Milliseconds of a decode step without speculation."""
    return weights_ms(deployment, precision, batch) + kv_read_ms(deployment, regime) * batch


def more_read_ms(deployment: Deployment, precision: Precision, batch: ArrayLike, draft_length: float) -> Numbers:
    """Milliseconds that a round reads weights for longer than a step does; 0 unless reads grow with the pass."""
    B = np.asarray(batch, dtype=np.float64)
    return weights_ms(deployment, precision, B * (draft_length + 1)) - weights_ms(deployment, precision, B)


def overhead(deployment: Deployment, precision: Precision, regime: Regime, batch: Numbers) -> Numbers:
    """What speculation adds to a step, as a share of it (w)."""
    how = deployment.speculation
    added = how.round_host_ms + verify_ms(deployment, precision) * batch
    added = added + more_read_ms(deployment, precision, batch, how.draft_length)
    return added / step_ms(deployment, precision, regime, batch)


def accept(deployment: Deployment, precision: Precision, regime: Regime) -> Numbers:
    """Probability that a draft token is accepted: eta (a0 + (1 - a0) r)."""
    base = deployment.speculation.base_match
    return precision.eta * (base + (1 - base) * regime.repetitiveness)


def round_length(deployment: Deployment, precision: Precision, regime: Regime) -> Numbers:
    """Mean acceptance length of a round with speculation (Abar)."""
    how = deployment.speculation
    x = chain(deployment, regime)
    return mean_length(accept(deployment, precision, regime), how.draft_length, how.reading, x)


def chain(deployment: Deployment, regime: Regime) -> Numbers:
    """Autocorrelation x of matches: the traffic's own, else the deployment's."""
    own = regime.autocorrelation
    return np.asarray(deployment.speculation.autocorrelation if own is None else own)


def prefill_ms_per_token(deployment: Deployment, precision: Precision) -> float:
    """Milliseconds of prefill for a prompt token."""
    if not deployment.prefill_by_precision:
        return deployment.prefill_ms_per_token
    widest = max(p.bytes_per_parameter for p in deployment.precisions)
    return deployment.prefill_ms_per_token * precision.bytes_per_parameter / widest


def cost_parts(
    deployment: Deployment,
    precision: Precision,
    regime: Regime,
    toggles: Toggles,
    batch: Numbers | None = None,
) -> Parts:
    """Price one configuration in all regimes.

    Parameters
    ----------
    batch : (…,) float64, optional
        Requests admitted at a time; without it as many as there are and fit.
    """
    speculation_on, cache_on = toggles
    B = batch_size(deployment, precision, regime, cache_on) if batch is None else batch
    with np.errstate(divide="ignore"):
        decode = np.where(B >= 1, step_ms(deployment, precision, regime, B) / B, np.inf)
    if speculation_on:
        decode = decode * (1 + overhead(deployment, precision, regime, B)) / round_length(deployment, precision, regime)
    missed = 1 - regime.prefix_share if cache_on else np.ones(regime.shape)
    prefill = prefill_ms_per_token(deployment, precision) * regime.prompt_tokens * missed / regime.output_tokens
    cache = np.zeros(regime.shape)
    if cache_on:
        cache = deployment.cache_ms_per_token * regime.context_tokens * B / regime.output_tokens
    return Parts(B, decode, prefill, cache)
