"""Memory plans for tests: random ones small enough to count tenants one by one, and what the naive twin takes."""

import math
from dataclasses import replace
from pathlib import Path

from hypothesis import strategies as st

from oracle.pool.budget import Served
from oracle.pool.kv_cache import KvCache
from oracle.pool.plan import Memory, Model, Plan, Precision, Tenant
from oracle.pool.speedup import Speedup
from oracle.pool.timing import Timing

POOL = Path(__file__).parents[1] / "cases" / "pool"

precisions = st.sampled_from(
    [
        Precision("bf16", 2.0),
        Precision("FP8", 1.0, 4.0, 16384),
        Precision("MXFP8", 1.0, 1.0, 32),
        Precision("NVFP4", 0.5, 1.0, 16),
    ]
)


@st.composite
def kv_caches(draw):
    window = draw(st.sampled_from([0, 0, 512]))
    return KvCache(
        float(draw(st.integers(100, 100_000))),
        float(draw(st.integers(100, 100_000))) if window else 0.0,
        window,
        draw(st.sampled_from([1, 1, 16])),
    )


@st.composite
def speedups(draw, name="draft"):
    k = draw(st.integers(1, 8))
    return Speedup(
        name,
        k,
        parameters=float(draw(st.sampled_from([0, 1, 10_000_000, 500_000_000, 2_000_000_000]))),
        extra_bytes=draw(st.sampled_from([0, 0, 1 << 20])),
        kv_bytes_per_token=draw(st.sampled_from([0.0, 0.0, 512.0, 20_000.0])),
        acceptance=draw(st.floats(0.0, 1.0)),
        round_host_ms=draw(st.sampled_from([0.0, 0.2])),
    )


@st.composite
def plans(draw, tenants_from=0):
    parameters = float(draw(st.integers(1_000_000_000, 20_000_000_000)))
    is_moe = draw(st.booleans())
    weights, kv_precision = draw(precisions), draw(precisions)
    tenants = tuple(
        Tenant(f"t{i}", draw(st.integers(1, 20)), draw(st.integers(1, 20_000))) for i in range(draw(st.integers(1, 3)))
    )
    kv = draw(kv_caches())
    each = sum(t.count * kv.values(t.context_tokens) for t in tenants) / sum(t.count for t in tenants)
    # a pool for some tenants or, rarely, for none: short of the weights
    room = draw(st.floats(tenants_from, 60.0)) * each * kv_precision.stored_bytes
    short = 1.0 if tenants_from else draw(st.sampled_from([1.0, 1.0, 1.0, 0.5]))
    reserve = draw(st.sampled_from([0, 1 << 28]))
    experts = (0.8 * parameters, 64, 4) if is_moe else (None, None, None)
    # a token uses the 0.2 outside the experts and a 16th of the rest; counts of models are off by some
    active = 0.25 * draw(st.floats(0.8, 1.2)) if is_moe else draw(st.floats(0.05, 1.0))
    return Plan(
        Memory(math.ceil(parameters * weights.stored_bytes * short + room) + reserve + 1, reserve),
        Model(parameters, parameters * active, 0.0, 2.0, *experts),
        (weights,),
        kv,
        (kv_precision,),
        tenants,
        (draw(speedups()),),
        Timing(
            draw(st.floats(1e11, 1e13)),
            kv_read_share=draw(st.sampled_from([0.0, 0.5, 1.0])),
            step_host_ms=draw(st.sampled_from([0.0, 1.0])),
            verify_ms_per_token=draw(st.sampled_from([0.0, 0.05])),
        ),
    )


def only(plan):
    """The only pair of precisions of a random plan."""
    return Served(plan.precisions[0], plan.kv_precisions[0])


def with_usable(plan, usable):
    return replace(plan, memory=replace(plan.memory, usable_bytes=usable))


def letters(plan):
    """What the naive twin takes."""
    weights, kv, timing, model = plan.precisions[0], plan.kv, plan.timing, plan.model
    per_value = weights.bytes_per_value + weights.scale_bytes / weights.values_per_scale
    values = plan.kv_precisions[0]
    return {
        "usable": plan.memory.usable_bytes,
        "reserve": plan.memory.reserve_bytes,
        "weights": math.ceil(model.parameters * per_value),
        "experts": model.experts,
        "top_k": model.experts_per_token,
        "expert_bytes": (model.expert_parameters or 0.0) * per_value,
        "values": kv.values_per_token,
        "window_values": kv.window_values_per_token,
        "window": kv.window_tokens,
        "block": kv.block_tokens,
        "kv_bytes": values.bytes_per_value + values.scale_bytes / values.values_per_scale,
        "tenants": [(t.count, t.context_tokens) for t in plan.tenants],
        "bandwidth": timing.bandwidth_bytes_per_s,
        "kv_read": timing.kv_read_share,
        "host": timing.step_host_ms,
        "verify": timing.verify_ms_per_token,
    }


def draft_letters(speedup):
    size = round(speedup.parameters * speedup.bytes_per_parameter) + speedup.extra_bytes
    return {
        "k": speedup.draft_length,
        "own": speedup.kv_bytes_per_token,
        "size": size,
        "read": speedup.parameters * speedup.bytes_per_parameter / size if size else 0.0,
        "host": speedup.round_host_ms,
        "length": sum(speedup.acceptance**j for j in range(speedup.draft_length + 1)),
    }
