"""The crossover: from traffic and a latency model to every batch size at which speculation pays."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from oracle.crossover import pays
from oracle.crossover.costs import ASSUMED, EXTRAPOLATED, BatchCosts, Scaling, batch_costs, draft_request
from oracle.crossover.jackknife import half_widths
from oracle.crossover.pays import Crossings
from oracle.crossover.schedule import claimed, schedule
from oracle.crossover.sensitivity import BreakEvens, break_evens
from oracle.crossover.traffic import Traffic
from oracle.errors import InputError
from oracle.latency.model import LatencyModel
from oracle.prices import LEAST_MS


@dataclass(frozen=True)
class Crossover:
    """Speed-ups by batch size and draft length, and what follows from them.

    Attributes
    ----------
    lengths
        Draft lengths that may be chosen, 0 included.
    traffic, costs, scaling, kv_tokens
        What it rests on.
    round_ms, speed_up, half_width : (B, K + 1) float64
        Milliseconds of a round of those requests that run; tokens a second over those of K = 0 and half its 95 %
        interval (NaN: none). NaN where a length cannot be priced or not one request fits.
    running : (B, K + 1) int64
        Requests that run; fewer than the batch size where the KV cache holds no more of that draft length.
    states : (B,) int8
        Whether some K >= 1 pays: index into `pays.STATES`.
    best : (B,) int64
        The fastest K >= 1; 0 where none is known.
    crossings
        All intervals at which some K >= 1 pays.
    acceptance_needed : (B,) float64
        Match probability, the same at all positions, from which on some K >= 1 pays.
    off_base_needed_ms, off_base_ms : (B,) float64, milliseconds
        Base time of a K = 0 round above which speculation pays, and the one that was used.
    draft_request_most_ms : (B,) float64, milliseconds
        Time of a draft token for a further request up to which some K >= 1 pays.
    break_evens
        Prices of further tokens, of reading context and of compute at which the answer turns.
    untold : (B,) bool
        Batch sizes that are unknown for want of a price of a further token.
    limit : (K + 1,) float64
        Speed-up as batches grow without end; NaN where it rests on a price of a further token that is not told.
    most_requests : (K + 1,) int64
        What the KV cache holds.
    clipped
        Whether the KV cache, not the question, ends the batch sizes.
    ranges
        The schedule: batch sizes (both ends included) and their draft length.
    noise
        Share of the rate that counts as nothing in the schedule.
    """

    lengths: tuple[int, ...]
    traffic: Traffic
    costs: BatchCosts
    scaling: Scaling
    kv_tokens: int | None
    round_ms: NDArray[np.float64]
    speed_up: NDArray[np.float64]
    half_width: NDArray[np.float64]
    running: NDArray[np.int64]
    states: NDArray[np.int8]
    best: NDArray[np.int64]
    crossings: Crossings
    acceptance_needed: NDArray[np.float64]
    off_base_needed_ms: NDArray[np.float64]
    off_base_ms: NDArray[np.float64]
    draft_request_most_ms: NDArray[np.float64]
    break_evens: BreakEvens
    untold: NDArray[np.bool_]
    limit: NDArray[np.float64]
    most_requests: NDArray[np.int64]
    clipped: bool
    ranges: tuple[tuple[tuple[int, int], int], ...]
    noise: float

    @property
    def most(self) -> int:
        """The largest batch size that was looked at."""
        return len(self.states)

    @property
    def settled(self) -> NDArray[np.bool_]:
        """Whether the interval of the best length leaves 1 out, (B,); False where there is no interval."""
        at = np.arange(self.most)
        with np.errstate(invalid="ignore"):
            half = np.maximum(self.half_width[at, self.best], pays.TIE)
            return np.asarray(np.abs(self.speed_up[at, self.best] - 1) > half)

    @property
    def scheduled(self) -> NDArray[np.int64]:
        """Draft length that the schedule sets, (B,)."""
        return np.repeat([k for _, k in self.ranges], [last - first + 1 for (first, last), _ in self.ranges])

    @property
    def unclaimed(self) -> NDArray[np.bool_]:
        """Whether K = 0 is set although some K >= 1 pays: within the noise or not significantly, (B,)."""
        return np.asarray((self.scheduled == 0) & (self.states == pays.ON))

    @property
    def filled(self) -> NDArray[np.bool_]:
        """Whether drafts go on although none is claimed, to save a range, (B,)."""
        return np.asarray((self.scheduled > 0) & ~claimed(self.speed_up, self.half_width, self.noise).any(axis=1))

    @property
    def extrapolated(self) -> NDArray[np.bool_]:
        """Whether any price that a batch size rests on is not measured, (B,)."""
        used = np.stack([self.costs.basis[:, 0], self.best_basis])
        return np.asarray(np.isin(used, (ASSUMED, EXTRAPOLATED)).any(axis=0))

    @property
    def best_basis(self) -> NDArray[np.int8]:
        """What the price of the best length rests on, (B,), at the requests that run."""
        at = np.arange(self.most)
        return np.asarray(self.costs.basis[np.maximum(self.running[at, self.best], 1) - 1, self.best])

    def ends(self) -> list[tuple[tuple[int, int | None], int]]:
        """The schedule for an engine: the last range has no end unless memory ends it."""
        ranges: list[tuple[tuple[int, int | None], int]] = list(self.ranges)
        (first, last), k = ranges[-1]
        return [*ranges[:-1], ((first, last if self.clipped else None), k)]


def crossover(
    traffic: Traffic,
    model: LatencyModel,
    lengths: Sequence[int],
    *,
    scaling: Scaling | None = None,
    kv_tokens: int | None = None,
    noise: float = 0.0,
) -> Crossover:
    """Find every batch size at which speculation pays.

    Parameters
    ----------
    lengths
        Draft lengths that may be chosen; 0 is always compared with.
    kv_tokens
        Tokens that the KV cache holds; None: no end.
    noise
        Share of the rate that counts as nothing in the schedule.

    Raises
    ------
    InputError
        Not one request fits, or a round takes no time or less.
    """
    scaling = scaling or Scaling()
    fits = _most_requests(traffic, kv_tokens)
    most = int(min(traffic.most, fits[0]))
    running = pays.running_requests(most, fits)
    costs = batch_costs(model, lengths, len(traffic.mean_length) - 1, most, scaling)
    ms = pays.of_running(costs.round_ms(traffic.unique_experts[:most], traffic.context_len), running)
    _refuse_no_time(ms, costs, traffic, running)
    whole_ms = pays.for_all(ms, running)
    speed_up = pays.speed_ups(whole_ms, traffic.mean_length)
    untold = pays.of_running(costs.untold.astype(float), running) == 1
    states = pays.states_of(speed_up, running == np.arange(1, most + 1)[:, None], untold)
    half_width = _half_widths(traffic, costs, running, speed_up)
    return Crossover(
        lengths=tuple(sorted({0, *lengths})),
        traffic=traffic,
        costs=costs,
        scaling=scaling,
        kv_tokens=kv_tokens,
        round_ms=ms,
        speed_up=speed_up,
        half_width=half_width,
        running=running,
        states=states,
        best=pays.best_length(speed_up),
        crossings=pays.crossings(states),
        acceptance_needed=pays.acceptance_needed(whole_ms),
        off_base_needed_ms=_off_base_needed(traffic, costs, whole_ms),
        off_base_ms=costs.base_ms[:, 0],
        draft_request_most_ms=pays.draft_request_most(
            whole_ms,
            traffic.mean_length,
            np.array([draft_request(model, k, scaling) for k in range(1, len(traffic.mean_length))]),
            costs.further,
            running,
        ),
        break_evens=break_evens(costs, traffic, running),
        untold=(states == pays.UNKNOWN) & untold.any(axis=1),
        limit=_limit(traffic, costs),
        most_requests=fits,
        clipped=most < traffic.most,
        ranges=tuple(schedule(speed_up, half_width, noise)),
        noise=noise,
    )


def _most_requests(traffic: Traffic, kv_tokens: int | None) -> NDArray[np.int64]:
    """Requests whose KV fits, by draft length: (K + 1,); refuse a cache that holds not one."""
    fits = pays.most_requests(kv_tokens, traffic.context_len, range(len(traffic.mean_length)))
    if fits[0] < 1:
        raise InputError(
            f"the KV cache holds {kv_tokens} tokens, less than the {traffic.context_len[0]:.0f} of one context; give "
            "--kv-tokens of the whole cache"
        )
    return fits


def _refuse_no_time(
    round_ms: NDArray[np.float64], costs: BatchCosts, traffic: Traffic, running: NDArray[np.int64]
) -> None:
    """Refuse a latency model that prices some round at no time or less."""
    wrong = round_ms < LEAST_MS  # NaN: there is no price
    if not wrong.any():
        return
    b, k = (int(at[0]) for at in np.nonzero(wrong))
    at = int(running[b, k]) - 1
    U, L = float(traffic.unique_experts[at, k]), float(traffic.context_len[k])
    said = [
        (f"experts, {U:.1f} of them", float(costs.alpha_ms[at, k]) * U),
        (f"context, {L:.0f} tokens", float(costs.context_ms[at, k]) * L),
        ("drafting", float(costs.draft_ms[at, k])),
    ]
    rest = float(round_ms[b, k]) - sum(part for _, part in said)
    parts = ", ".join(f"{name} {part:.4g} ms" for name, part in [("base and further tokens", rest), *said])
    raise InputError(
        f"batch size {b + 1}: the latency model prices a round of K = {k} at {float(round_ms[b, k]):.4g} ms ({parts}); "
        f"a round takes at least {LEAST_MS:g} ms: time rounds of such batch sizes and fit again, or ask for smaller "
        "batches (--max-batch-size) or shorter drafts (--k-max)"
    )


def _half_widths(
    traffic: Traffic, costs: BatchCosts, running: NDArray[np.int64], speed_up: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Half the 95 % intervals of the speed-ups, clusters left out one at a time: (B, K + 1)."""
    ms = costs.round_ms(traffic.left_out_experts[:, : len(running)], traffic.left_out_context)
    whole_ms = pays.for_all(pays.of_running(ms, running), running)
    half = half_widths(pays.speed_ups(whole_ms, traffic.left_out_length))
    half[:, 0] = np.nan
    return np.where(np.isnan(speed_up), np.nan, half)


def _off_base_needed(traffic: Traffic, costs: BatchCosts, whole_ms: NDArray[np.float64]) -> NDArray[np.float64]:
    """Base time of a K = 0 round above which speculation pays: (B,)."""
    without_base = replace(costs, base_ms=np.zeros_like(costs.base_ms))
    rest = without_base.round_ms(traffic.unique_experts[: len(whole_ms)], traffic.context_len)[:, 0]
    return pays.off_base_needed(whole_ms, rest, traffic.mean_length)


def _limit(traffic: Traffic, costs: BatchCosts) -> NDArray[np.float64]:
    """Speed-ups as batches grow without end and touch all experts: (K + 1,)."""
    full = np.full((1, len(traffic.mean_length)), float(traffic.num_experts))
    full_ms = costs.round_ms(full, traffic.context_len)[-1]
    return pays.large_batch_speed_ups(costs.growth_ms, full_ms, traffic.context_len, traffic.mean_length)
