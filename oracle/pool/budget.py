"""Bytes of a plan at one precision of weights and of KV: what is left for KV, and how many tenants that is."""

import math
from dataclasses import dataclass
from itertools import product

from oracle.pool.plan import Plan, Precision, Tenant
from oracle.pool.speedup import Speedup

AS_MEASURED = Precision("as measured", 1.0)  # stands in for a precision that was not stated
AS_STATED = Precision("as stated", 1.0)  # KV given in bytes


@dataclass(frozen=True)
class Served:
    """A precision of the weights with one of the KV cache."""

    weights: Precision
    kv: Precision


@dataclass(frozen=True)
class Budget:
    """Where the usable bytes go; whole bytes, so that the parts sum to the whole exactly.

    Attributes
    ----------
    usable_bytes
        What there is.
    used_weights_bytes, idle_weights_bytes
        Weights that a token uses, and those that must be resident for other tokens (experts); where the active
        parameters are not stated, all count as used.
    draft_bytes, reserve_bytes
        Taken by a speed-up, and by activations and graphs.
    tenant_bytes
        KV of one tenant, mean over the tenants asked for, as (numerator, denominator); None: KV or tenants were left
        open.
    draft_tenant_bytes
        What a speed-up adds to it, in the same form: slots that drafts are written to, and KV of its own.
    """

    usable_bytes: int
    used_weights_bytes: int
    idle_weights_bytes: int
    draft_bytes: int
    reserve_bytes: int
    tenant_bytes: tuple[int, int] | None
    draft_tenant_bytes: tuple[int, int] = (0, 1)

    @property
    def weights_bytes(self) -> int:
        """All weights of the target."""
        return self.used_weights_bytes + self.idle_weights_bytes

    @property
    def pool_bytes(self) -> int:
        """What is left for KV; negative where the rest does not fit."""
        return self.usable_bytes - self.weights_bytes - self.draft_bytes - self.reserve_bytes

    @property
    def fits(self) -> bool:
        """Whether everything but KV fits."""
        return self.pool_bytes >= 0

    @property
    def tenants(self) -> int | None:
        """Tenants, of the mix asked for, that fit; None: KV or tenants were left open."""
        return None if self.tenant_bytes is None else tenants_in(self.pool_bytes, self.tenant_bytes)

    @property
    def kv_bytes(self) -> int:
        """KV of the tenants that fit, with what a speed-up adds to it."""
        return 0 if self.tenant_bytes is None else _rounded_up(self.tenants or 0, self.tenant_bytes)

    @property
    def draft_kv_bytes(self) -> int:
        """What a speed-up adds to the KV of the tenants that fit."""
        return self.draft_kv_of(self.tenants or 0)

    @property
    def target_kv_bytes(self) -> int:
        """KV of the tenants that fit, without what a speed-up adds."""
        return self.kv_bytes - self.draft_kv_bytes

    def draft_kv_of(self, tenants: int) -> int:
        """What a speed-up adds to the KV of so many tenants."""
        return _rounded_up(tenants, self.draft_tenant_bytes)

    @property
    def unused_bytes(self) -> int:
        """What is left of the pool; negative is what is missing."""
        return self.pool_bytes - self.kv_bytes


def _rounded_up(tenants: int, mean: tuple[int, int]) -> int:
    total, count = mean
    return -(-tenants * total // count)


def tenants_in(pool_bytes: int, tenant_bytes: tuple[int, int]) -> int:
    """Count the tenants that a pool holds."""
    total, count = tenant_bytes
    return max(0, pool_bytes) * count // total


def kv_bytes(plan: Plan, served: Served, tenant: Tenant, speedup: Speedup | None = None) -> int:
    """KV of one tenant; a speed-up needs k slots more in each context, and its own KV."""
    if plan.kv is None:
        return 0
    tokens = tenant.context_tokens + (0 if speedup is None else speedup.draft_length)
    own = 0.0 if speedup is None else speedup.kv_bytes_per_token * plan.kv.in_blocks(tokens)
    return math.ceil(plan.kv.values(tokens) * served.kv.stored_bytes) + math.ceil(own)


def tenant_bytes(plan: Plan, served: Served, speedup: Speedup | None = None) -> tuple[int, int] | None:
    """KV of one tenant, mean over the tenants asked for, as (numerator, denominator); None: left open."""
    if plan.kv is None or not plan.tenants:
        return None
    total = sum(tenant.count * kv_bytes(plan, served, tenant, speedup) for tenant in plan.tenants)
    return total, plan.tenants_asked


def weights_bytes(plan: Plan, precision: Precision, parameters: float | None = None) -> int:
    """Bytes of the target's weights, or of so many parameters of it, those that keep their own precision first."""
    model = plan.model
    if model is None:
        return 0
    held = model.parameters if parameters is None else parameters
    kept = min(model.kept_parameters, held)
    return math.ceil(kept * model.kept_bytes_per_parameter + (held - kept) * precision.stored_bytes)


def budget(plan: Plan, served: Served, speedup: Speedup | None = None) -> Budget:
    """Lay out the bytes at one precision of weights and KV, with one speed-up or none."""
    memory, model = plan.memory, plan.model
    plain, each = tenant_bytes(plan, served), tenant_bytes(plan, served, speedup)
    more = (0, 1) if plain is None or each is None else (each[0] - plain[0], plain[1])
    whole = used = 0
    if model is not None and not memory.is_pool:
        whole = weights_bytes(plan, served.weights)
        used = weights_bytes(plan, served.weights, model.active_parameters)
    return Budget(
        memory.usable_bytes,
        used,
        whole - used,
        0 if speedup is None else speedup.resident_bytes,
        memory.reserve_bytes,
        each,
        more,
    )


def choices(plan: Plan) -> tuple[Served, ...]:
    """Every precision of the weights with every one of the KV cache, in the order of the plan."""
    kv = plan.kv_precisions or (AS_STATED,)
    return tuple(Served(*pair) for pair in product(plan.precisions or (AS_MEASURED,), kv))


def name_of(plan: Plan, served: Served) -> str:
    """Name the precisions in words, as far as they were stated."""
    if plan.kv_precisions and plan.precisions:
        return f"{served.weights.name} weights, {served.kv.name} KV"
    return f"{served.kv.name} KV" if plan.kv_precisions else served.weights.name
