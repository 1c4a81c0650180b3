"""How far prices that were not measured carry the answer: further tokens, reading context, the compute of a token.

With `work` in milliseconds of a round of all requests, K >= 1 pays where A_K · work_0 > A_0 · work_K. Both sides are
lines in the price of a further token, s, and in the time to read a token of context of a further request, c', and made
of two lines each in the compute of a token, `max(alpha U, floor n)`, so the break-evens are closed forms. Reading
context is shared by all rows of a round and favours drafts; further tokens and compute are not and are against them.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oracle.crossover.costs import ASSUMED, EXTRAPOLATED, BatchCosts
from oracle.crossover.pays import of_running
from oracle.crossover.traffic import Traffic

Numbers = NDArray[np.float64]


def kv_read_needed(work_ms: Numbers, context_work: Numbers, mean_length: Numbers) -> Numbers:
    """Least c', milliseconds, above which some K >= 1 pays: (B,); 0: with none at all, inf: with no c'.

    Parameters
    ----------
    work_ms : (B, K + 1), milliseconds
        With c' = 0.
    context_work : (B, K + 1), tokens
        What a millisecond of c' adds to it.
    """
    spare = mean_length[1:] * work_ms[:, :1] - mean_length[0] * work_ms[:, 1:]
    slope = mean_length[1:] * context_work[:, :1] - mean_length[0] * context_work[:, 1:]
    with np.errstate(divide="ignore", invalid="ignore"):
        needed = np.where(slope > 0, np.maximum(0.0, -spare / slope), np.inf)
    needed = np.where(spare > 0, 0.0, needed)
    known = np.isfinite(spare)
    least = np.where(known, needed, np.inf).min(axis=1, initial=np.inf)
    return np.where(known.any(axis=1), least, np.nan)


def floor_most(loaded_ms: Numbers, rest_ms: Numbers, tokens: Numbers, mean_length: Numbers) -> Numbers:
    """Largest compute of a token, milliseconds, at which some K >= 1 pays: (B,); inf: any, -inf: none.

    At less it may fail to pay: where K = 0 has cheap experts its compute shows first.

    Parameters
    ----------
    loaded_ms, rest_ms : (B, K + 1), milliseconds
        Reading experts, which hides compute, and everything else.
    tokens : (B, K + 1)
        What a millisecond of compute adds once it no longer hides; 0 where the price holds it already.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        knee = np.where(tokens > 0, loaded_ms / tokens, np.inf)
    A0, A = mean_length[0], mean_length[1:]
    n0, n = tokens[:, :1], tokens[:, 1:]

    def gain(floor: Numbers) -> Numbers:
        off = np.maximum(loaded_ms[:, :1], floor * n0) + rest_ms[:, :1]
        on = np.maximum(loaded_ms[:, 1:], floor * n) + rest_ms[:, 1:]
        return np.asarray(A * off - A0 * on)

    first, last = np.minimum(knee[:, :1], knee[:, 1:]), np.maximum(knee[:, :1], knee[:, 1:])
    at_first, at_last = (gain(np.where(np.isfinite(at), at, 0.0)) for at in (first, last))
    falls = np.where(np.isfinite(last), A0 * n - A * n0, np.where(knee[:, 1:] <= first, A0 * n, 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        beyond = last + np.where(falls > 0, at_last / falls, np.inf)
        between = first + np.where(n > 0, at_first / (A0 * n), np.inf)
    at = np.where(np.isfinite(last) & (at_last > 0), beyond, np.where(at_first > 0, between, -np.inf))
    known = np.isfinite(at_first)
    most = np.where(known, at, -np.inf).max(axis=1, initial=-np.inf)
    return np.where(known.any(axis=1), most, np.nan)


def token_most(work_ms: Numbers, tokens: Numbers, mean_length: Numbers) -> Numbers:
    """Price of a further token, milliseconds, up to which some K >= 1 pays: (B,); inf: any, -inf: none.

    Parameters
    ----------
    work_ms : (B, K + 1), milliseconds
        Where further tokens take nothing.
    tokens : (B, K + 1)
        What a millisecond of that price adds to it.
    """
    spare = mean_length[1:] * work_ms[:, :1] - mean_length[0] * work_ms[:, 1:]
    slope = mean_length[0] * tokens[:, 1:] - mean_length[1:] * tokens[:, :1]
    with np.errstate(divide="ignore", invalid="ignore"):
        most = np.where(spare > 0, np.where(slope > 0, spare / slope, np.inf), -np.inf)
    known = np.isfinite(spare)
    return np.where(known.any(axis=1), np.where(known, most, -np.inf).max(axis=1, initial=-np.inf), np.nan)


@dataclass(frozen=True)
class BreakEvens:
    """Prices at which the answer turns, each with the others as they are: (B,), milliseconds; NaN: nothing rests on it.

    Attributes
    ----------
    token_most_ms
        Price of a further token up to which some K >= 1 pays; inf: any, -inf: none.
    kv_read_needed_ms
        Time to read a token of context of a further request above which some K >= 1 pays; 0: any, inf: none.
    floor_most_ms
        The largest compute of a token at which some K >= 1 pays; inf: any, -inf: none.
    """

    token_most_ms: Numbers
    kv_read_needed_ms: Numbers
    floor_most_ms: Numbers


def break_evens(costs: BatchCosts, traffic: Traffic, running: NDArray[np.int64]) -> BreakEvens:
    """Break-evens of three prices at every batch size.

    Parameters
    ----------
    running : (B, K + 1)
        Requests that run; work is per request that does.
    """
    per = np.where(running > 0, running, np.nan)
    made_up = of_running(np.isin(costs.basis, (ASSUMED, EXTRAPOLATED)).astype(float), running) == 1
    U = traffic.unique_experts[: len(running)]
    work = of_running(costs.round_ms(U, traffic.context_len), running)
    loaded = of_running(costs.alpha_ms * U, running)
    floor = of_running(costs.floor_ms, running)
    further = np.where(made_up, of_running(costs.further, running), 0.0) * traffic.context_len
    tokens = np.where(made_up, running * np.arange(1.0, running.shape[1] + 1), 0.0)
    rest = work - np.where(floor > 0, np.maximum(loaded, floor), loaded)
    without = work - further * np.nan_to_num(costs.growth_ms[1])
    beyond = np.where(made_up, of_running(costs.further_tokens, running), 0.0)
    free = of_running(costs.without_tokens().round_ms(U, traffic.context_len), running)
    s = token_most(free / per, beyond / per, traffic.mean_length)
    c = kv_read_needed(without / per, further / per, traffic.mean_length)
    f = floor_most(loaded / per, rest / per, tokens / per, traffic.mean_length)
    return BreakEvens(
        np.where((np.nan_to_num(beyond) > 0).any(axis=1), s, np.nan),
        np.where(made_up.any(axis=1) & (np.nan_to_num(further) > 0).any(axis=1), c, np.nan),
        np.where(made_up.any(axis=1), f, np.nan),
    )
