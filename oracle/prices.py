"""Where traces meet costs: the problem of a batch, and whether every round of it has a price."""

import numpy as np
from numpy.typing import NDArray

from oracle.costs import LengthCosts
from oracle.errors import InputError, printable
from oracle.problem import Problem, make_problem
from oracle.traces import Traces

LEAST_MS, MOST_MS = 1e-6, 1e9  # of a round: beyond, the unit is another one
_MORE_EXPERTS_THAN_ANY = 1e6


def priced_problem(traces: Traces, costs: LengthCosts, unique_experts: str | None = None) -> Problem:
    """Turn a batch of traces into what a solve under these costs reads.

    Parameters
    ----------
    traces
        A batch of generations.
    costs
        Cost coefficients by draft length.
    unique_experts
        `recorded`, `routing`, or None for the first of them the trace holds.

    Raises
    ------
    InputError
        The batch carries no draft lengths that long, or a round costs less than `LEAST_MS` or more than `MOST_MS`.
    """
    carried, k_max = traces.max_draft_length, costs.k_max
    if carried is not None and carried < k_max:
        raise InputError(
            f"{traces.source}: carries draft lengths up to {carried} only, but k_max is {k_max}; "
            f"lower --k-max to {carried}"
        )
    problem = make_problem(traces, k_max, unique_experts)
    _check_prices(traces, problem, costs)
    return problem


def _check_prices(traces: Traces, problem: Problem, costs: LengthCosts) -> None:
    if not problem.positions or _are_plain(problem, costs):
        return
    for k in costs.lengths:
        cost = _round_ms(problem, costs, k)
        wrong = ~((cost >= LEAST_MS) & (cost <= MOST_MS))
        if not wrong.any():
            continue
        t = int(np.flatnonzero(wrong)[0])
        g = int(np.searchsorted(problem.offsets, t, side="right")) - 1
        parts = (
            ("beta0", costs.verify_ms[k]),
            (f"experts, {problem.unique_experts[t, k]:g} of them", costs.alpha_ms[k] * problem.unique_experts[t, k]),
            (f"context, {problem.context_len[t]:.0f} tokens", costs.context_ms[k] * problem.context_len[t]),
            ("draft and rejection", costs.draft_ms[k] + costs.reject_ms[k]),
        )
        raise InputError(
            f"{traces.source}: the latency model prices a round of k = {k} at {cost[t]:g} ms (position "
            f"{t - int(problem.offsets[g])} of {printable(traces.generation[g])}: "
            f"{', '.join(f'{name} {part:g} ms' for name, part in parts)}); a round takes at least {LEAST_MS:g} and at "
            f"most {MOST_MS:g} ms: fit the model on rounds like these traces, or leave this length out by --k-min or "
            "--k-max"
        )


def _are_plain(problem: Problem, costs: LengthCosts) -> bool:
    """Say without a look at U that all prices are in range, as those of every sound model are."""
    base = costs.base_ms[costs.allowed]
    alpha, context = costs.alpha_ms[costs.allowed], costs.context_ms[costs.allowed]
    longest = float(problem.context_len.max())
    with np.errstate(over="ignore"):
        most = base + alpha * _MORE_EXPERTS_THAN_ANY + context * longest
    return bool((base >= LEAST_MS).all() and (alpha >= 0).all() and (context >= 0).all() and (most <= MOST_MS).all())


def _round_ms(problem: Problem, costs: LengthCosts, k: int) -> NDArray[np.float64]:
    with np.errstate(over="ignore", invalid="ignore"):
        experts = costs.alpha_ms[k] * problem.unique_experts[:, k]
        return np.asarray(costs.base_ms[k] + experts + costs.context_ms[k] * problem.context_len)
