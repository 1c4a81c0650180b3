"""How long a decode step and a round with drafts take when n tenants decode together.

Calculated, in bytes read over the bandwidth (milliseconds), with c = verify_ms_per_token of the precision:

    read(n, k) = [weights(n (k+1)) + kv_share · kv · n] / bandwidth
    step(n)    = host + pass(n, 0)
    round(n)   = host + round_host + pass(n, k) + k · [draft + kv_share · kv_draft · n] / bandwidth

    pass(n, k) = read(n, k) + c n k                   verification added
    pass(n, k) = max( read(n, k), c n (k+1) )         computing hidden behind reading

Kernels read and compute at once, layer by layer and never perfectly, so that measured rounds lie near the one or the
other; a verdict needs both. weights(P) are those that P positions read: all of them, or, for a Mixture-of-Experts
target whose experts are stated, the rest and the unique experts as measured, else E (1 - (1 - top_k/E)^P) of E
(independent tokens, routed uniformly: more than real routing touches). With verification added it is the model of
`oracle.levers.cost` with the reads of a draft added. Measured: lines through step and round times. What does not change
with the tenants of a plan (a measured round) does not change with the size of the draft either.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oracle.pool.budget import Served, tenant_bytes, weights_bytes
from oracle.pool.plan import Plan
from oracle.pool.speedup import Speedup
from oracle.pool.timing import Reading
from oracle.pool.unique_experts import unique_experts

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


def read_bytes(plan: Plan, served: Served, positions: ArrayLike, draft_length: int = 0) -> Numbers:
    """Bytes of weights that so many positions of rounds with drafts of a length read."""
    P = np.asarray(positions, dtype=np.float64)
    whole, model = float(weights_bytes(plan, served.weights)), plan.model
    if model is None or model.expert_parameters is None or model.experts is None or model.experts_per_token is None:
        return np.full(P.shape, whole)
    experts = model.expert_parameters * served.weights.stored_bytes
    found = unique_experts(plan.unique_experts, P, draft_length, model.experts, model.experts_per_token)
    touched = found / model.experts
    return whole - experts * (1 - touched)


def verify_ms_per_token(plan: Plan, served: Served) -> float:
    """Milliseconds that computing one token of one tenant takes at a precision of the weights."""
    own = served.weights.verify_ms_per_token
    if own is not None:
        return own
    return 0.0 if plan.timing is None else plan.timing.verify_ms_per_token


def has_two_readings(plan: Plan, served: Served) -> bool:
    """Whether it matters how computing joins the time of reading bytes."""
    calculated = plan.timing is not None and not plan.timing.is_measured
    return calculated and verify_ms_per_token(plan, served) > 0


def with_reading(plan: Plan, reading: Reading) -> Plan:
    """Give the plan with computing joined to the time of reading bytes in one way."""
    return plan if plan.timing is None else replace(plan, timing=replace(plan.timing, reading=reading))


def step_ms(plan: Plan, served: Served, tenants: ArrayLike) -> Numbers | None:
    """Milliseconds of a step without drafts; None where no times were stated."""
    n, timing = np.asarray(tenants, dtype=np.float64), plan.timing
    if timing is None:
        return None
    if timing.step_base_ms is not None and timing.step_ms_per_tenant is not None:
        return np.asarray(timing.step_base_ms + timing.step_ms_per_tenant * n)
    kv = timing.kv_read_share * _each(tenant_bytes(plan, served))
    read = (read_bytes(plan, served, n) + kv * n) * _ms_per_byte(plan)
    return timing.step_host_ms + _pass_ms(plan, served, read, n, 0)


def round_line(plan: Plan, served: Served, speedup: Speedup, tenants: ArrayLike) -> RoundLine | None:
    """Time of a round with drafts; None where no times were stated, or steps were measured and rounds were not."""
    n, timing, k = np.asarray(tenants, dtype=np.float64), plan.timing, speedup.draft_length
    if timing is None or timing.is_measured != speedup.is_measured:
        return None
    if speedup.round_base_ms is not None and speedup.round_ms_per_tenant is not None:
        return RoundLine(np.asarray(speedup.round_base_ms + speedup.round_ms_per_tenant * n), 0.0)
    kv = timing.kv_read_share * _each(tenant_bytes(plan, served))
    draft_kv = _each(tenant_bytes(plan, served, speedup)) - _each(_lookahead(plan, served, speedup))
    read = (read_bytes(plan, served, n * (k + 1), k) + kv * n) * _ms_per_byte(plan)
    drafting = k * timing.kv_read_share * draft_kv * n * _ms_per_byte(plan)
    fixed = timing.step_host_ms + speedup.round_host_ms + _pass_ms(plan, served, read, n, k) + drafting
    return RoundLine(fixed, k * speedup.read_share * _ms_per_byte(plan))


def _pass_ms(plan: Plan, served: Served, read_ms: Numbers, tenants: Numbers, draft_length: int) -> Numbers:
    """Time of a pass of the target that reads for `read_ms`, by the reading of the plan."""
    price = verify_ms_per_token(plan, served) * tenants
    if plan.timing is not None and plan.timing.reading is Reading.HIDDEN:
        return np.maximum(read_ms, price * (draft_length + 1))
    return np.asarray(read_ms + price * draft_length)


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
