"""Where speculation pays: speed-ups by batch size and draft length, every interval, limits.

    speed-up(B, K) = A_K · T(B, 1) / (A_0 · (T(B, K + 1) + T_D(K)))

with A the mean acceptance length. Where the KV cache holds fewer than B requests of a draft length, those that it holds
run and the others wait, so tokens a second are compared and not rounds. Cost jumps where the numbers of positions do
and is not monotone in B for mixtures of experts, so every batch size is looked at; nothing is bisected.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from oracle.levers.matches import accept_needed

TIE = 1e-9  # of a speed-up: nearer to 1, or to another one, is a rounding error, and the shorter draft wins
State = Literal["off", "on", "unknown", "does not fit"]
OFF, ON, UNKNOWN, FULL = range(4)
STATES: tuple[State, ...] = ("off", "on", "unknown", "does not fit")


@dataclass(frozen=True)
class Crossings:
    """The batch sizes at which some K >= 1 pays.

    Attributes
    ----------
    intervals
        First and last batch size of every interval, both included.
    first_exit, last_exit
        Where the first and the last interval end; None where that was not seen, or there is no interval. An end is
        seen only where speculation is known not to pay at the next batch size: not where that has no price, where no
        draft fits any more, or beyond the largest batch size.
    censored
        Whether the end of some interval was not seen.
    """

    intervals: tuple[tuple[int, int], ...]
    first_exit: int | None
    last_exit: int | None
    censored: bool


def speed_ups(round_ms: NDArray[np.float64], mean_length: NDArray[np.float64]) -> NDArray[np.float64]:
    """Tokens a second of every draft length over those of K = 0.

    Parameters
    ----------
    round_ms : (…, B, K + 1), milliseconds
        NaN where it is not known.
    mean_length : (…, K + 1), tokens
    """
    rate = mean_length[..., None, :] / round_ms
    return np.asarray(rate / rate[..., :1])


def best_length(speed_up: NDArray[np.float64]) -> NDArray[np.int64]:
    """The fastest K >= 1 of each batch size, the shortest of equals; 0 where none is known: (B,)."""
    drafted = np.where(np.isnan(speed_up[:, 1:]), -np.inf, speed_up[:, 1:])
    if not drafted.shape[1]:
        return np.zeros(len(speed_up), np.int64)
    best = np.argmax(drafted >= drafted.max(axis=1, keepdims=True) * (1 - TIE), axis=1)
    return np.where(np.isfinite(drafted[np.arange(len(best)), best]), best + 1, 0)


def states_of(
    speed_up: NDArray[np.float64], fits: NDArray[np.bool_] | None = None, untold: NDArray[np.bool_] | None = None
) -> NDArray[np.int8]:
    """Whether some K >= 1 pays at each batch size: (B,) index into `STATES`.

    Parameters
    ----------
    speed_up : (B, K + 1)
        Of those requests that run.
    fits : (B, K + 1), optional
        Whether all requests run; without it they do. Where a K pays only with fewer, or would have to run none, the
        batch size does not fit.
    untold : (B, K + 1), optional
        Cells that rest on a price that cannot be told: where there are any, no other K says that none pays.
    """
    known = ~np.isnan(speed_up[:, 1:])
    pays = np.where(known, speed_up[:, 1:], 0.0) > 1 + TIE
    whole = np.ones_like(known) if fits is None else fits[:, 1:]
    sure = known.any(axis=1) if untold is None else known.any(axis=1) & ~untold.any(axis=1)
    priced = np.where(sure, OFF, UNKNOWN)
    full = pays.any(axis=1) | (~known.any(axis=1) & ~whole.any(axis=1) & ~np.isnan(speed_up[:, 0]))
    return np.where((pays & whole).any(axis=1), ON, np.where(full, FULL, priced)).astype(np.int8)


def crossings(states: NDArray[np.int8]) -> Crossings:
    """Find every interval of batch sizes, 1 … B, at which speculation pays."""
    on = np.concatenate([[False], states == ON, [False]])
    edges = np.flatnonzero(on[1:] != on[:-1])
    intervals = tuple((int(a) + 1, int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True))
    ends = [last if last < len(states) and states[last] == OFF else None for _, last in intervals]
    return Crossings(intervals, ends[0] if ends else None, ends[-1] if ends else None, None in ends)


def acceptance_needed(round_ms: NDArray[np.float64]) -> NDArray[np.float64]:
    """Least probability that each draft token must be accepted with for some K >= 1 to pay; inf: never. (B,).

    Speculation is on iff the acceptance is above it, so a higher one is on wherever a lower one is.
    """
    needed = np.full(len(round_ms), np.nan)
    for k in range(1, round_ms.shape[1]):
        known = np.isfinite(round_ms[:, k]) & np.isfinite(round_ms[:, 0])
        more = np.maximum(round_ms[known, k] / round_ms[known, 0] - 1.0, 0.0)
        needed[known] = np.fmin(needed[known], accept_needed(more, k))
    return needed


def off_base_needed(
    round_ms: NDArray[np.float64], off_rest_ms: NDArray[np.float64], mean_length: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Base time of a K = 0 round above which speculation pays, milliseconds: (B,); what decides if it was not measured.

    Parameters
    ----------
    round_ms : (B, K + 1)
    off_rest_ms : (B,)
        Everything else in a K = 0 round: experts and context.
    mean_length : (K + 1,)
    """
    a_token = round_ms[:, 1:] / mean_length[1:]
    fastest = np.min(np.where(np.isnan(a_token), np.inf, a_token), axis=1, initial=np.inf)
    return np.asarray(mean_length[0] * fastest - off_rest_ms)


def draft_request_most(
    round_ms: NDArray[np.float64],
    mean_length: NDArray[np.float64],
    assumed_ms: NDArray[np.float64],
    further: NDArray[np.float64],
    running: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Time of a draft token for a further request up to which some K >= 1 pays, milliseconds: (B,).

    Negative where no such time is short enough; NaN where every request was timed.

    Parameters
    ----------
    round_ms : (B, K + 1)
        `for_all` requests, with `assumed_ms` (by K >= 1, (K,)) for each draft token and further request in it.
    further, running : (B, K + 1)
        Requests beyond those that were timed, and those that run.
    """
    tokens = for_all(of_running(further, running)[:, 1:] * np.arange(1.0, round_ms.shape[1]), running[:, 1:])
    with np.errstate(divide="ignore", invalid="ignore"):
        spare = (mean_length[1:] / mean_length[0] * round_ms[:, :1] - round_ms[:, 1:]) / tokens
    most = np.where(np.isfinite(spare), assumed_ms + spare, -np.inf).max(axis=1, initial=-np.inf)
    return np.where(np.isfinite(most), most, np.nan)


def large_batch_speed_ups(
    growth_ms: NDArray[np.float64],
    full_ms: NDArray[np.float64],
    context_len: NDArray[np.float64],
    mean_length: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Speed-up of each K as batches grow without end and all experts are touched: (K + 1,).

    Only what grows with the batch is left then, the slope of verification in tokens and the reading of context; where
    nothing grows, the round with all experts.

    Parameters
    ----------
    growth_ms : (2, K + 1)
        Of `BatchCosts`; where the growth of K = 0 is not told nothing is.
    full_ms : (K + 1,)
        A round at the largest batch size with all experts touched.
    """
    grows = growth_ms[0] + growth_ms[1] * context_len
    ms = grows if np.isnan(growth_ms[0, 0]) or np.nanmax(grows, initial=0.0) > 0 else full_ms
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        rate = mean_length / ms
        return np.asarray(rate / rate[0])


def running_requests(most: int, fits: NDArray[np.int64]) -> NDArray[np.int64]:
    """Requests that run of 1 … `most`, those that fit: (B, K + 1)."""
    return np.minimum(np.arange(1, most + 1)[:, None], fits)


def of_running(values: NDArray[np.float64], running: NDArray[np.int64]) -> NDArray[np.float64]:
    """Take the values (…, B, K + 1) of the requests that run; NaN where none does."""
    found = np.take_along_axis(values, np.broadcast_to(np.maximum(running - 1, 0), values.shape), axis=-2)
    return np.where(running > 0, found, np.nan)


def for_all(round_ms: NDArray[np.float64], running: NDArray[np.int64]) -> NDArray[np.float64]:
    """Time in which all requests got one round where those that run take turns: (…, B, K + 1), milliseconds."""
    B = np.arange(1, len(running) + 1)[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(round_ms * B / running)


def most_requests(kv_tokens: int | None, context_len: NDArray[np.float64], lengths: Sequence[int]) -> NDArray[np.int64]:
    """Largest batch whose KV fits, by draft length: a pass over m rows holds L - 1 + m tokens a request. (K + 1,)."""
    if kv_tokens is None:
        return np.full(len(lengths), np.iinfo(np.int64).max)
    requests = np.floor(kv_tokens / (context_len + np.asarray(lengths)))
    return np.asarray(requests, dtype=np.int64)
