"""How long a decode step and a round with drafts take when n tenants decode together.

Calculated, in bytes read over the bandwidth (milliseconds):

    step(n)  = host + [weights(n) + kv_share · kv · n] / bandwidth
    round(n) = host + round_host + [weights(n (k+1)) + kv_share · kv · n] / bandwidth + verify · n k
               + k · [draft + kv_share · kv_draft · n] / bandwidth

weights(P) are those that P positions read: all of them, or, for a Mixture-of-Experts target whose experts are stated,
the rest and the unique experts as measured, else E (1 - (1 - top_k/E)^P) of E (independent tokens, routed uniformly:
more than real routing touches). It is the model of
`oracle.levers.cost` with the reads of a draft added. Measured: lines through step and round times. What does not change
with the tenants of a plan (a measured round) does not change with the size of the draft either.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oracle.crossover.formulas import uniform_unique_experts
from oracle.pool.budget import Served, tenant_bytes, weights_bytes
from oracle.pool.plan import Plan
from oracle.pool.speedup import Speedup

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class RoundLine:
    """A round's time for n tenants: `fixed_ms` (n) without the draft's weights, and what each byte of those adds.

    Attributes
    ----------
    fixed_ms : (…,) float64
        Milliseconds.
    ms_per_draft_byte
        k · share read / bandwidth; 0 where rounds were measured.
    """

    fixed_ms: Numbers
    ms_per_draft_byte: float


def read_bytes(plan: Plan, served: Served, positions: ArrayLike) -> Numbers:
    """Bytes of weights that so many positions read."""
    P = np.asarray(positions, dtype=np.float64)
    whole, model = float(weights_bytes(plan, served.weights)), plan.model
    if model is None or model.expert_parameters is None or model.experts is None or model.experts_per_token is None:
        return np.full(P.shape, whole)
    experts = model.expert_parameters * served.weights.stored_bytes
    touched = unique_experts(plan, P, model.experts, model.experts_per_token) / model.experts
    return whole - experts * (1 - touched)


def unique_experts(plan: Plan, positions: Numbers, experts: int, top_k: int) -> Numbers:
    """Unique experts a layer: measured and on lines between, else by the uniform formula.

    Beyond the largest number of tokens measured, of the experts not touched by then the share that the formula says.
    """
    formula = uniform_unique_experts(positions, experts, top_k)
    rows = plan.unique_experts
    if not rows:
        return formula
    x = np.array([1.0, *(float(row.tokens) for row in rows if row.tokens > 1)])
    y = np.array([float(top_k), *(row.experts for row in rows if row.tokens > 1)])
    last = float(uniform_unique_experts(x[-1], experts, top_k))
    more = np.zeros(positions.shape) if last >= experts else (formula - last) / (experts - last)
    return np.asarray(np.where(positions <= x[-1], np.interp(positions, x, y), y[-1] + (experts - y[-1]) * more))


def step_ms(plan: Plan, served: Served, tenants: ArrayLike) -> Numbers | None:
    """Milliseconds of a step without drafts; None where no times were stated."""
    n, timing = np.asarray(tenants, dtype=np.float64), plan.timing
    if timing is None:
        return None
    if timing.step_base_ms is not None and timing.step_ms_per_tenant is not None:
        return np.asarray(timing.step_base_ms + timing.step_ms_per_tenant * n)
    kv = timing.kv_read_share * _each(tenant_bytes(plan, served))
    return timing.step_host_ms + (read_bytes(plan, served, n) + kv * n) * _ms_per_byte(plan)


def round_line(plan: Plan, served: Served, speedup: Speedup, tenants: ArrayLike) -> RoundLine | None:
    """Time of a round with drafts; None where no times were stated, or steps were measured and rounds were not."""
    n, timing, k = np.asarray(tenants, dtype=np.float64), plan.timing, speedup.draft_length
    if timing is None or timing.is_measured != speedup.is_measured:
        return None
    if speedup.round_base_ms is not None and speedup.round_ms_per_tenant is not None:
        return RoundLine(np.asarray(speedup.round_base_ms + speedup.round_ms_per_tenant * n), 0.0)
    kv = _each(tenant_bytes(plan, served))
    draft_kv = _each(tenant_bytes(plan, served, speedup)) - _each(_lookahead(plan, served, speedup))
    read = read_bytes(plan, served, n * (k + 1)) + timing.kv_read_share * (kv + k * draft_kv) * n
    fixed = timing.step_host_ms + speedup.round_host_ms + read * _ms_per_byte(plan)
    return RoundLine(fixed + timing.verify_ms_per_token * k * n, k * speedup.read_share * _ms_per_byte(plan))


def round_ms(plan: Plan, served: Served, speedup: Speedup, tenants: ArrayLike) -> Numbers | None:
    """Milliseconds of a round with the drafts of a speed-up as it is."""
    line = round_line(plan, served, speedup, tenants)
    return None if line is None else line.fixed_ms + line.ms_per_draft_byte * speedup.resident_bytes


def _lookahead(plan: Plan, served: Served, speedup: Speedup) -> tuple[int, int] | None:
    """KV of one tenant with the slots that drafts need, without the draft's own."""
    return tenant_bytes(plan, served, Speedup(speedup.name, speedup.draft_length))


def _ms_per_byte(plan: Plan) -> float:
    timing = plan.timing
    if timing is None or timing.bandwidth_bytes_per_s is None:
        return 0.0
    return 1e3 / timing.bandwidth_bytes_per_s


def _each(mean: tuple[int, int] | None) -> float:
    return 0.0 if mean is None else mean[0] / mean[1]
