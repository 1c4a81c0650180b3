"""Everything that is said about a memory plan."""

from dataclasses import dataclass

import numpy as np

from oracle.errors import InputError, printable
from oracle.pool.budget import Budget, Served, budget, choices, kv_bytes, tenants_in
from oracle.pool.early_exit import Savings, savings
from oracle.pool.measured_experts import MeasuredExperts
from oracle.pool.plan import Plan
from oracle.pool.times import has_two_readings, step_ms, verify_ms_per_token, with_reading
from oracle.pool.timing import Reading
from oracle.pool.unique_experts import measured_at, unique_experts
from oracle.pool.worth import MOST_TENANTS, Worth, weigh

_WIDE = 2.0  # bytes a value: narrower ones carry scales
LARGEST_BATCH = 1024  # of the early-exit table, unless more tenants are asked for


@dataclass(frozen=True)
class Choice:
    """One precision of weights and KV, without speed-ups.

    Attributes
    ----------
    served, budget
        What it is and where the bytes go.
    tokens_per_s, hidden_tokens_per_s
        At a full pool, with verification added and with computing hidden behind reading; None where tenants or times
        were left open, or nothing fits, and where computing costs nothing.
    dense_tenants
        Tenants that would fit if only the weights that a token uses had to be resident; None where not stated.
    hit_share
        Share of the experts that the tokens of a full pool go to in one step, a token each; None where experts are not
        stated or nothing fits.
    kind_bytes, alone
        KV of one tenant of each kind, and how many of it alone would fit, in the order of the plan.
    """

    served: Served
    budget: Budget
    tokens_per_s: float | None
    hidden_tokens_per_s: float | None
    dense_tenants: int | None
    hit_share: float | None
    kind_bytes: tuple[int, ...]
    alone: tuple[int, ...]


@dataclass(frozen=True)
class PoolAnswer:
    """What fits, what speed-ups are worth, what early exit saves, and what the plan leaves open.

    Attributes
    ----------
    plan
        What was asked.
    choices
        Every precision of weights with every one of KV.
    chosen
        The first in which one tenant fits (or, with KV left open, the weights do), in the order of the plan; None.
    worths
        Each speed-up in every choice, as (index of the choice, worth), where the weights fit.
    early_exit
        Savings by batch size; None: not stated.
    at_once
        Tenants that decode together at the chosen precisions: those asked for, as far as they fit; 0: not known.
    left_open
        What the plan does not state and what cannot be said for that.
    measured
        Unique experts, where traces gave them.
    """

    plan: Plan
    choices: tuple[Choice, ...]
    chosen: int | None
    worths: tuple[tuple[int, Worth], ...]
    early_exit: Savings | None
    at_once: int
    left_open: tuple[str, ...]
    measured: MeasuredExperts | None = None


def answer(plan: Plan, measured: MeasuredExperts | None = None) -> PoolAnswer:
    """Answer for a plan; `measured` is where its unique experts are from, if from traces.

    Raises
    ------
    InputError
        More tenants fit than can be looked at one by one.
    """
    found = tuple(_choice(plan, served) for served in choices(plan))
    most = max((choice.budget.tenants or 0) for choice in found)
    if most > MOST_TENANTS:
        raise InputError(
            f"the pool holds {most:,} tenants; at most {MOST_TENANTS:,} are looked at one by one; give the context "
            "that a tenant holds when it is full"
        )
    fitting = [i for i, c in enumerate(found) if c.budget.fits and c.budget.pool_bytes > 0 and c.budget.tenants != 0]
    worths = tuple(
        (i, weigh(plan, choice.served, speedup))
        for i, choice in enumerate(found)
        if choice.budget.fits
        for speedup in plan.speedups
    )
    served = _served(plan, found[fitting[0]] if fitting else None)
    exits = None if plan.early_exit is None else savings(plan.early_exit, batch_sizes(plan, served))
    chosen = fitting[0] if fitting else None
    return PoolAnswer(plan, found, chosen, worths, exits, served, tuple(_left_open(plan)), measured)


def _served(plan: Plan, choice: Choice | None) -> int:
    """Tenants asked for that fit."""
    return 0 if choice is None else min(plan.tenants_asked, choice.budget.tenants or 0)


def batch_sizes(plan: Plan, served: int = 0) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    """Give powers of two, the tenants asked for and those that fit."""
    top = max(LARGEST_BATCH, plan.tenants_asked)
    sizes = {1 << i for i in range(top.bit_length()) if 1 << i <= top}
    return np.array(sorted((sizes | {plan.tenants_asked, served}) - {0}), dtype=np.float64)


def _choice(plan: Plan, served: Served) -> Choice:
    laid = budget(plan, served)
    dense = None
    if laid.tenant_bytes is not None and laid.idle_weights_bytes:
        dense = tenants_in(laid.pool_bytes + laid.idle_weights_bytes, laid.tenant_bytes)
    kinds = [kv_bytes(plan, served, tenant) for tenant in plan.tenants]
    return Choice(
        served,
        laid,
        _tokens_per_s(plan, served, laid, Reading.ADDED),
        _tokens_per_s(plan, served, laid, Reading.HIDDEN) if has_two_readings(plan, served) else None,
        dense,
        _hit_share(plan, laid.tenants),
        tuple(kinds),
        tuple(tenants_in(laid.pool_bytes, (each, 1)) for each in kinds),
    )


def _hit_share(plan: Plan, tenants: int | None) -> float | None:
    model = plan.model
    if not tenants or model is None or model.experts is None or model.experts_per_token is None:
        return None
    batch = np.array(float(tenants))
    return float(unique_experts(plan.unique_experts, batch, 0, model.experts, model.experts_per_token)) / model.experts


def _tokens_per_s(plan: Plan, served: Served, laid: Budget, reading: Reading) -> float | None:
    """Tokens a second of a full pool without drafts."""
    step = step_ms(with_reading(plan, reading), served, laid.tenants or 0)
    return 1e3 * laid.tenants / float(step) if laid.tenants and step is not None else None


def _left_open(plan: Plan) -> list[str]:
    return [*_open_in_memory(plan), *_open_in_times(plan)]


def _open_in_memory(plan: Plan) -> list[str]:
    said = []
    if not plan.memory.is_pool and not plan.memory.reserve_bytes:
        said.append("reserve_gib for activations and graphs is not stated: taken as 0, so pools are upper bounds")
    if plan.kv is None:
        said.append("KV of a token and contexts of tenants are not stated: the pool is given in bytes, not in tenants")
    elif not plan.tenants:
        said.append("contexts of tenants are not stated: the pool is given in bytes, not in tenants")
    bare = [p.name for p in plan.precisions if p.bytes_per_value < _WIDE and not p.scale_bytes]
    if bare:
        named = ", ".join(printable(name) for name in bare)
        said.append(f"scales of {named} are not stated: taken as 0, so weights are lower bounds")
    if plan.model is not None and plan.model.active_parameters is None and not plan.memory.is_pool:
        said.append("active_parameters are not stated: weights are not told apart into used and idle")
    if len(plan.precisions) > 1 or len(plan.kv_precisions) > 1:
        said.append("what a precision costs in quality is not judged")
    return said


def _open_in_times(plan: Plan) -> list[str]:
    said = _open_in_experts(plan)
    if plan.speedups and plan.timing is None:
        said.append("times are not stated: what speed-ups cost is known, what they give is not")
    if plan.speedups and plan.timing is not None and not plan.timing.is_measured:
        said += _open_in_verification(plan)
    if plan.timing is not None and plan.timing.is_measured:
        unmeasured = ", ".join(printable(s.name) for s in plan.speedups if not s.is_measured)
        if unmeasured:
            said.append(f"rounds of {unmeasured} were not measured beside the steps: what they give is not known")
    unknown = ", ".join(printable(s.name) for s in plan.speedups if s.length is None)
    if unknown:
        said.append(f"acceptance of {unknown} is not stated: at most what it would have to be is known")
    return said


def _open_in_experts(plan: Plan) -> list[str]:
    lengths = sorted({0, *(speedup.draft_length for speedup in plan.speedups)})
    unknown = [k for k in lengths if not measured_at(plan.unique_experts, k)] if plan.reads_experts else []
    if not unknown:
        return []
    at = "" if len(unknown) == len(lengths) else f" at draft length {', '.join(map(str, unknown))}"
    return [
        f"unique experts were not measured{at}: the uniform formula for independent tokens stands in, which touches "
        "more than real routing does, most of all within the drafts of one request; so reads of weights, in rounds "
        "above all, are upper bounds; give [[unique_experts]] as measured, or --traces of this model"
    ]


def _open_in_verification(plan: Plan) -> list[str]:
    prices = {verify_ms_per_token(plan, served) for served in choices(plan)}
    if prices == {0.0}:
        return [
            "verify_ms_per_token is not stated: computing is taken to cost nothing, so what speed-ups give is an upper "
            "bound"
        ]
    said = [
        "whether verification hides behind reading bytes is not known: both are worked out; measured steps and rounds "
        "would tell"
    ]
    if len(plan.precisions) > 1 and len(prices) == 1:
        said.append(
            "computing a token is taken to cost the same at every precision; where a device computes faster in one, "
            "give that [[precision]] its own verify_ms_per_token"
        )
    return said
