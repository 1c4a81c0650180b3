"""What a round costs at a batch size: as measured where the latency model holds it, else by a stated model.

    T(B, m) = beta0 + max(alpha U, floor n) + context L,      n = m B tokens in the pass,  m = k + 1

`measured`: beta0, alpha and the context coefficient are those of the batch size's own block of the latency model.
`between` two measured batch sizes they are on the straight line between the two blocks. `extrapolated` from a block of
B0 requests, by number of tokens (only from B0 = 1) or by draft length:

    tokens:   beta0 = beta0[n'] + s (n - n'), alpha = alpha[n'],  n' the largest measured m that is not above n
    length:   beta0 = beta0[m] + s (n - m B0), alpha = alpha[m]
    context = c[m] + c' (B - B0)

with s the price of a further token besides its experts (`token_price`), `floor` the compute of a token, which hides
behind the reading of experts until it is longer, and c' the time to read a token of context of a further request: as
two or more measured batch sizes tell it (`context_growth`), if it is not stated. What is neither stated nor told is 0,
and `sensitivity` tells how far the answer rests on that; but a cell that rests on an s which is neither has no price.
Nothing below the smallest measured batch size is made up.
Drafting takes what it takes at B0, and more for further requests if that is stated, or the two largest measured batch
sizes that draft k tell it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oracle.crossover.context_growth import context_growth
from oracle.crossover.token_price import token_price
from oracle.errors import Faults
from oracle.latency.model import LatencyModel

Basis = Literal["not available", "assumed", "measured", "between", "extrapolated"]
NOT_AVAILABLE, ASSUMED, MEASURED, BETWEEN, EXTRAPOLATED = range(5)
FIRST_REQUEST: Literal["first request"] = "first request"
LOWER_END: Literal["lower end"] = "lower end"
UPPER_END: Literal["upper end"] = "upper end"
BASES: tuple[Basis, ...] = ("not available", "assumed", "measured", "between", "extrapolated")
_WORDS = (None, FIRST_REQUEST, LOWER_END, UPPER_END)
_COEFFICIENTS = ("base_ms", "alpha_ms", "floor_ms", "context_ms", "draft_ms", "further", "further_tokens")


@dataclass(frozen=True)
class Scaling:
    """How cost grows with the batch where it was not measured.

    Attributes
    ----------
    by
        What beta0 and alpha go by beyond batch size 1: `tokens` of the pass, or draft `length`.
    token_ms
        s; None: what beta0 of the model tells; `LOWER_END`, `UPPER_END`: that end of its interval.
    floor_ms
        Milliseconds of compute a token.
    kv_read_ms
        c', milliseconds a token of context and further request; None: what several measured batch sizes tell, else
        nothing; `FIRST_REQUEST`: as for the first.
    draft_request_ms
        Milliseconds a draft token and further request; None: what several measured batch sizes tell, else nothing.
    off_ms
        beta0 at m = 1 where the model lacks it: an assumption.
    """

    by: Literal["tokens", "length"] = "tokens"
    token_ms: float | Literal["lower end", "upper end"] | None = None
    floor_ms: float = 0.0
    kv_read_ms: float | Literal["first request"] | None = None
    draft_request_ms: float | None = None
    off_ms: float | None = None

    def __post_init__(self) -> None:
        faults = Faults()
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name != "by" and value not in _WORDS and not (np.isfinite(value) and value >= 0):
                faults.add(f"{field.name} is {value:g}; it is a finite number of milliseconds, at least 0")
        faults.raise_if_any()


@dataclass(frozen=True)
class BatchCosts:
    """Coefficients of a round for batch sizes 1 … B and draft lengths 0 … K; NaN where there are none.

    Attributes
    ----------
    base_ms, alpha_ms, floor_ms, context_ms, draft_ms : (B, K + 1) float64, milliseconds
        `floor_ms` is that of all tokens; `context_ms` for a token of the mean context; `draft_ms` with rejection.
    further : (B, K + 1) float64
        Requests beyond those that were timed, whose context takes c'.
    further_tokens : (B, K + 1) float64
        Tokens beyond those that were timed, which take s.
    basis : (B, K + 1) int8
        Index into `BASES`.
    growth_ms : (2, K + 1) float64, milliseconds
        What a further request adds in the end: whatever the context (NaN: s is not told), and a token of context.
    token_ms : (K + 1,) float64, milliseconds
        s; NaN where it is neither stated nor told.
    """

    base_ms: NDArray[np.float64]
    alpha_ms: NDArray[np.float64]
    floor_ms: NDArray[np.float64]
    context_ms: NDArray[np.float64]
    draft_ms: NDArray[np.float64]
    further: NDArray[np.float64]
    further_tokens: NDArray[np.float64]
    basis: NDArray[np.int8]
    growth_ms: NDArray[np.float64]
    token_ms: NDArray[np.float64]

    @property
    def untold(self) -> NDArray[np.bool_]:
        """Which cells rest on a price of a further token that is neither stated nor told, (B, K + 1)."""
        return np.asarray(np.isnan(self.token_ms) & (self.further_tokens > 0))

    def without_tokens(self) -> "BatchCosts":
        """The same costs where further tokens take nothing."""
        return replace(self, token_ms=np.zeros_like(self.token_ms))

    def round_ms(self, unique_experts: NDArray[np.float64], context_len: NDArray[np.float64]) -> NDArray[np.float64]:
        """Milliseconds of a round.

        Parameters
        ----------
        unique_experts : (…, B, K + 1)
        context_len : (…, K + 1), tokens
            Mean context of a request.
        """
        loaded = self.alpha_ms * unique_experts
        busy = np.where(self.floor_ms > 0, np.maximum(loaded, self.floor_ms), loaded)
        tokens_ms = np.where(self.further_tokens > 0, self.token_ms * self.further_tokens, 0.0)
        return self.base_ms + tokens_ms + busy + self.context_ms * context_len[..., None, :] + self.draft_ms


def batch_costs(model: LatencyModel, lengths: Sequence[int], k_max: int, most: int, scaling: Scaling) -> BatchCosts:
    """Lay the cost of rounds out for batch sizes 1 … `most`.

    Parameters
    ----------
    lengths
        Draft lengths that may be chosen; others are left out. 0 is always tried.
    """
    shape = (most, k_max + 1)
    found = {name: np.full(shape, np.nan) for name in _COEFFICIENTS}
    basis = np.zeros(shape, np.int8)
    growth, token_ms = np.full((2, k_max + 1), np.nan), np.full(k_max + 1, np.nan)
    for k in sorted({0, *lengths}):
        token_ms[k] = _token(model, k, scaling)
        growing = Growing(_kv(model, k, scaling), draft_request(model, k, scaling))
        for B in range(1, most + 1):
            basis[B - 1, k], cells = _cells(model, k, B, growing, scaling)
            for name, value in cells.items():
                found[name][B - 1, k] = value
        growth[:, k] = (k + 1) * (token_ms[k] + scaling.floor_ms) + growing.draft_ms * k, growing.context_ms
    return BatchCosts(**found, basis=basis, growth_ms=growth, token_ms=token_ms)


class Growing(NamedTuple):
    """Milliseconds of a token of context and of a draft token of a further request, for one k."""

    context_ms: float
    draft_ms: float


def draft_request(model: LatencyModel, k: int, scaling: Scaling) -> float:
    """Time of a draft token for a further request."""
    if scaling.draft_request_ms is not None:
        return scaling.draft_request_ms
    drafting = [block for block in model.blocks if k and block.has(k)]
    if len(drafting) < 2:
        return 0.0
    (b1, low), (b2, high) = [(each.batch_size or 1, each.draft_ms(k)) for each in drafting[-2:]]
    return max(0.0, (high - low) / ((b2 - b1) * k))


def _token(model: LatencyModel, k: int, scaling: Scaling) -> float:
    """Price of a further token besides its experts; NaN where it is neither stated nor told."""
    if scaling.token_ms is not None and not isinstance(scaling.token_ms, str):
        return scaling.token_ms
    price = token_price(model, k)
    if scaling.token_ms is None or price.interval is None:
        return price.ms if price.told else np.nan
    return price.interval.low if scaling.token_ms == LOWER_END else price.interval.high


def _kv(model: LatencyModel, k: int, scaling: Scaling) -> float:
    """Time to read a token of context of a further request."""
    if scaling.kv_read_ms is None:
        told = context_growth(model, k)
        return 0.0 if told is None else told.ms
    if scaling.kv_read_ms != FIRST_REQUEST:
        return scaling.kv_read_ms
    block = next((each for each in reversed(model.blocks) if k + 1 in each.m), model.blocks[-1])
    B0 = block.batch_size or 1
    return block.context_of(k + 1 if k + 1 in block.m else block.m[0]) / B0


def _cells(model: LatencyModel, k: int, B: int, growing: Growing, scaling: Scaling) -> tuple[int, dict[str, float]]:
    """Coefficients of one cell and what they rest on."""
    blocks = [block for block in model.blocks if k == 0 or block.has(k)]
    having = [block for block in blocks if k + 1 in block.m]
    if not having and not (k == 0 and len(blocks) == 1):
        return NOT_AVAILABLE, {}
    sizes = [block.batch_size or 1 for block in having]
    if B in sizes:
        return MEASURED, _measured(having[sizes.index(B)], k)
    at = int(np.searchsorted(sizes, B))
    if 0 < at < len(sizes):
        share = (B - sizes[at - 1]) / (sizes[at] - sizes[at - 1])
        low, high = (_measured(having[i], k) for i in (at - 1, at))
        return BETWEEN, {name: (1 - share) * low[name] + share * high[name] for name in low}
    block = having[at - 1] if at else blocks[0]
    return _extrapolated(block, k, B, growing, scaling) if (block.batch_size or 1) <= B else (NOT_AVAILABLE, {})


def _measured(block: LatencyModel, k: int) -> dict[str, float]:
    base, alpha, context = block.coefficients(k + 1)
    draft = block.draft_ms(k) + (block.reject_ms if k else 0.0)
    return {
        "base_ms": base,
        "alpha_ms": alpha,
        "context_ms": context,
        "draft_ms": draft,
        "floor_ms": 0.0,
        "further": 0.0,
        "further_tokens": 0.0,
    }


def _extrapolated(
    block: LatencyModel, k: int, B: int, growing: Growing, scaling: Scaling
) -> tuple[int, dict[str, float]]:
    B0, m = block.batch_size or 1, k + 1
    tokens = m * B
    by_tokens = scaling.by == "tokens" and B0 == 1
    wanted = tokens if by_tokens else m
    known = [each for each in block.m if each <= wanted] if by_tokens else [each for each in block.m if each == wanted]
    basis = EXTRAPOLATED
    if known:
        base, alpha, _ = block.coefficients(known[-1])
        timed = known[-1] if by_tokens else m * B0
    elif m == 1 and B0 == 1:  # experts and context are priced as at the next m; the base time is what is not known
        base = np.nan if scaling.off_ms is None else scaling.off_ms
        alpha, timed = block.alpha_ms_per_expert[0], 1
        basis = NOT_AVAILABLE if scaling.off_ms is None else ASSUMED
    else:
        return NOT_AVAILABLE, {}
    own = block.context_of(m if m in block.m else block.m[0])
    return basis, {
        "base_ms": base,
        "alpha_ms": alpha,
        "floor_ms": scaling.floor_ms * tokens,
        "context_ms": own + growing.context_ms * (B - B0),
        "draft_ms": block.draft_ms(k) + (block.reject_ms if k else 0.0) + growing.draft_ms * k * (B - B0),
        "further": float(B - B0),
        "further_tokens": float(tokens - timed),
    }
