"""What a round costs, by draft length: the latency model laid out as the arrays a kernel reads.

An ablation is other arrays here, never another kernel.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from oracle.errors import MOST_DRAFT_TOKENS, InputError
from oracle.latency.model import LatencyModel, missing_m_error


@dataclass(frozen=True)
class LengthCosts:
    """Cost coefficients of a round for every draft length k = 0 … K.

    C(t, k) = verify_ms[k] + alpha_ms[k] · U(t, k) + context_ms[k] · L(t) + draft_ms[k] + reject_ms[k]

    Attributes
    ----------
    verify_ms : (K + 1,) float64, milliseconds
        beta0 of the verification pass over m = k + 1 positions.
    alpha_ms : (K + 1,) float64, milliseconds per unique expert (mean over MoE layers)
    context_ms : (K + 1,) float64, milliseconds per token in context
    draft_ms : (K + 1,) float64, milliseconds
        Time of k draft steps; 0 for k = 0.
    reject_ms : (K + 1,) float64, milliseconds
        Rejection sampling and post-processing; 0 for k = 0.
    allowed : (K + 1,) bool
        Lengths that may be chosen. The others cost inf and have zeros in the arrays above.
    """

    verify_ms: NDArray[np.float64]
    alpha_ms: NDArray[np.float64]
    context_ms: NDArray[np.float64]
    draft_ms: NDArray[np.float64]
    reject_ms: NDArray[np.float64]
    allowed: NDArray[np.bool_]

    @property
    def k_max(self) -> int:
        """The longest draft length, allowed or not."""
        return len(self.allowed) - 1

    @property
    def lengths(self) -> tuple[int, ...]:
        """The draft lengths that may be chosen, ascending."""
        return tuple(int(k) for k in np.flatnonzero(self.allowed))

    @property
    def base_ms(self) -> NDArray[np.float64]:
        """Everything that depends on k alone, inf for lengths that may not be chosen; (K + 1,), milliseconds."""
        return np.where(self.allowed, self.verify_ms + self.draft_ms + self.reject_ms, np.inf)

    @property
    def shared_context(self) -> bool:
        """Whether all allowed lengths share one context coefficient: then the context term of every decision is 0.

        It moves decisions all the same: each further round pays for the context again.
        """
        return len(np.unique(self.context_ms[self.allowed])) <= 1

    def without_experts(self) -> "LengthCosts":
        """The same costs with alpha = 0 and everything else kept: the source's counterfactual."""
        return replace(self, alpha_ms=np.zeros_like(self.alpha_ms))


@dataclass(frozen=True)
class LengthRange:
    """The draft lengths a question is asked about, and in words how they came about."""

    k_min: int
    k_max: int
    notes: tuple[str, ...] = ()


def choose_range(
    model: LatencyModel,
    carried: int | None,
    *,
    k_min: int | None = None,
    k_max: int | None = None,
    source: str = "the trace",
) -> LengthRange:
    """Settle k_min and k_max from what the model knows, what the trace carries and what the user asks.

    Parameters
    ----------
    model
        Latency model.
    carried
        Longest draft length the trace has data for; None where it allows any.
    k_min, k_max
        What the user asks; None: 0 if the model has m = 1, else 1; and the longest the model and the trace know.
    source
        Name of the trace, for messages.

    Raises
    ------
    InputError
        A range that is empty or that the trace has no data for.
    """
    notes = []
    known = model.draft_lengths
    if k_min is None:
        k_min = 0 if 0 in known else 1
        if k_min == 1:
            notes.append("the latency model has no m = 1: k_min is 1 and speed-ups over k = 0 are not available")
    asked = k_max
    if k_max is None:
        k_max = max(known) if carried is None else min(max(known), carried)
    if k_max > MOST_DRAFT_TOKENS:
        raise InputError(f"k_max is {k_max}; draft lengths up to {MOST_DRAFT_TOKENS} are supported: give --k-max")
    if carried is not None and k_max > carried:
        raise InputError(
            f"{source}: k_max is {k_max}, but the trace carries draft lengths up to {carried}; lower --k-max"
        )
    if k_min < 0 or k_max < k_min:
        raise InputError(f"draft lengths must satisfy 0 <= k_min <= k_max, not k_min = {k_min} and k_max = {k_max}")
    usable = [k for k in range(k_min, k_max + 1) if k in known]
    if not usable:
        raise InputError(missing_m_error(model, k_min + 1))
    left_out = [k for k in range(k_min, k_max + 1) if k not in known]
    if left_out:
        notes.append(
            f"left out, since the latency model has no m for them: k = {', '.join(map(str, left_out))} "
            f"(measured: m = {', '.join(map(str, model.m))})"
        )
    if asked is None and carried is not None and max(known) > carried:
        notes.append(f"k_max is {k_max}: the trace carries no longer draft length (the model goes to {max(known)})")
    return LengthRange(k_min, k_max, tuple(notes))


def length_costs(model: LatencyModel, k_min: int, k_max: int) -> LengthCosts:
    """Lay a latency model out by draft length.

    Lengths below `k_min` and lengths the model lacks are not allowed.
    """
    verify, alpha, context, draft, reject = np.zeros((5, k_max + 1))
    allowed = np.zeros(k_max + 1, dtype=bool)
    for k in model.draft_lengths:
        if k_min <= k <= k_max:
            at = model.m.index(k + 1)
            allowed[k] = True
            verify[k] = model.beta0_ms[at]
            alpha[k] = model.alpha_ms_per_expert[at]
            context[k] = model.context_of(k + 1)
            draft[k] = model.draft_ms(k)
            reject[k] = model.reject_ms if k else 0.0
    return LengthCosts(verify, alpha, context, draft, reject, allowed)
