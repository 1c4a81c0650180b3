"""A whole plan: what each draft length needs, the anchors, the order, what to expect of it, and the file."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from oracle.errors import Faults, InputError
from oracle.latency.moments import Integers
from oracle.sweep.anchors import Anchors, draw_anchors, places_of
from oracle.sweep.needs import Need, Pilot, Precision, Spread, error_after, half_width, need_of, spreads_at
from oracle.sweep.order import Balance, Order, balance_of, interleaved
from oracle.sweep.rehearsal import RehearsedAlpha, rehearse
from oracle.traces.traces import Traces

MOST_ROUNDS = 2_000_000
ANCHORS_A_BLOCK = 8


@dataclass(frozen=True)
class Expected:
    """What the plan gives one draft length.

    Parameters
    ----------
    need
        What it was asked for.
    rounds
        Rounds in the plan.
    error, half_width
        Expected standard error and 95 % half-width of alpha, ms per expert; None without spreads, or where U does not
        vary.
    reached
        Whether that is what was wanted; None if nothing was.
    """

    need: Need
    rounds: int
    error: float | None
    half_width: float | None
    reached: bool | None


@dataclass(frozen=True)
class SweepPlan:
    """Rounds to time, in order, and what to expect.

    Parameters
    ----------
    table
        order, block, repeat, draft_length, anchor; where anchors come from traces also generation, position,
        context_len, category, cluster.
    expected
        By draft length; empty without a pilot or given spreads.
    balance, rehearsal
        See there; the rehearsal is empty where `expected` is.
    anchors, repeats, clusters, clustering
        How many places, how often each is timed, and what the precision assumes.
    seed
        Of everything random.
    notes
        What a reader must know, in words.
    """

    table: pa.Table
    expected: tuple[Expected, ...]
    balance: Balance
    rehearsal: tuple[RehearsedAlpha, ...]
    anchors: int
    repeats: int
    clusters: int
    clustering: float
    seed: int
    notes: tuple[str, ...]

    @property
    def rounds(self) -> int:
        """Rounds in the plan."""
        return int(self.table.num_rows)


@dataclass(frozen=True)
class Request:
    """What is asked of a plan.

    Parameters
    ----------
    ks
        Draft lengths, rising.
    anchors
        How many; None lets the precision decide.
    repeats
        How often each round is timed at least; more where anchors are too few for the precision.
    precision
        Wanted precision of alpha(m), or None.
    generations
        Clusters that the rounds will come from, where anchors are only numbered; None takes the pilot's.
    anchors_a_block
        Anchors that are timed together.
    seed
        Of everything random.
    """

    ks: tuple[int, ...]
    anchors: int | None = None
    repeats: int = 1
    precision: Precision | None = None
    generations: int | None = None
    anchors_a_block: int = ANCHORS_A_BLOCK
    seed: int = 0


def plan_sweep(
    request: Request, pilot: Pilot | None = None, given: Spread | None = None, traces: Iterable[Traces] | None = None
) -> SweepPlan:
    """Plan a sweep.

    Parameters
    ----------
    pilot
        What a pilot says of residuals and spreads.
    given
        Residual and spread for every m, without a pilot (its m is not used).
    traces
        Where anchors are drawn from; None numbers them.

    Raises
    ------
    InputError
        Wishes that contradict one another, cannot be met, or need something that is missing.
    """
    _check(request, pilot, given, traces is not None)
    places = None if traces is None else places_of(traces, max(request.ks))
    clusters = len(set(places.cluster)) if places is not None else request.generations
    if clusters is None:
        clusters = pilot.clusters if pilot is not None else (request.anchors or 0)
    if request.anchors is not None:
        clusters = min(clusters, request.anchors)
    spreads = _spreads(request.ks, pilot, given)
    clustering = 0.0 if pilot is None else pilot.clustering
    needs = [need_of(s.m - 1, s, request.precision, clusters, clustering) for s in spreads]
    _check_reachable(needs, clusters)
    asked = max((need.rounds or 0 for need in needs), default=0)
    count = request.anchors if request.anchors is not None else asked
    if places is not None and request.anchors is None:
        count = min(count, int(places.starts.sum()))
    if not count:
        raise InputError(
            "no draft length with U that varies is to be measured; give a number of --anchors, or other --k"
        )
    repeats = max(request.repeats, -(-asked // count))
    if count * repeats * len(request.ks) > MOST_ROUNDS:
        raise InputError(
            f"the plan would hold {count * repeats * len(request.ks):,} rounds, more than {MOST_ROUNDS:,}"
            f"{_driver(needs)}; ask for less precision, fewer draft lengths or fewer anchors"
            + "".join(f"; {hint}" for hint in _greedy(needs))
        )
    anchors = Anchors(count) if places is None else draw_anchors(places, count, request.seed)
    order = interleaved(request.ks, count, repeats, request.anchors_a_block, request.seed)
    used = anchors.clusters or min(clusters, count)
    codes = _cluster_codes(anchors, used)
    expected = tuple(_expected(need, count * repeats, used, clustering) for need in needs)
    return SweepPlan(
        table=_table(order, anchors),
        expected=expected,
        balance=balance_of(order),
        rehearsal=rehearse(order, spreads, codes, request.seed) if spreads and used > 1 else (),
        anchors=count,
        repeats=repeats,
        clusters=used,
        clustering=clustering,
        seed=request.seed,
        notes=tuple(_notes(request, pilot, given, expected, repeats, 0 if places is None else places.too_short)),
    )


def _check(request: Request, pilot: Pilot | None, given: Spread | None, from_traces: bool) -> None:
    faults = Faults()
    if pilot is not None and given is not None:
        faults.add("a pilot and given spreads: give --pilot, or --residual-sd and --experts-sd, not both")
    if request.precision is not None and pilot is None and given is None:
        faults.add("a precision needs a pilot (--pilot), or --residual-sd and --experts-sd from experience")
    if request.precision is not None and request.precision.relative and pilot is None:
        faults.add("--precision in percent of alpha needs a pilot; without one give it in ms per expert")
    if request.precision is not None and not request.precision.value > 0:
        faults.add(f"--precision is {request.precision.value:g}; it must be above 0")
    if request.precision is None and request.anchors is None:
        faults.add("how many rounds? give --precision with --pilot, or a number of --anchors")
    unknown = pilot is None and not from_traces and request.generations is None
    if request.precision is not None and request.anchors is None and unknown:
        faults.add("without a pilot or traces, say with --generations how many generations the rounds come from")
    if given is not None:
        for name, value in (("--residual-sd", given.residual_ms), ("--experts-sd", given.experts_sd)):
            if not value > 0:
                faults.add(f"{name} is {value:g}; it must be above 0")
    faults.raise_if_any()


def _spreads(ks: Sequence[int], pilot: Pilot | None, given: Spread | None) -> tuple[Spread, ...]:
    if pilot is not None:
        return spreads_at(ks, pilot.spreads)
    if given is None:
        return ()
    return tuple(replace(given, m=k + 1, experts_sd=0.0 if k == 0 else given.experts_sd) for k in ks)


def _greedy(needs: Sequence[Need]) -> Iterable[str]:
    """Say it where one draft length needs far more than all others."""
    wanting = sorted((need for need in needs if need.rounds or need.clusters_at_least), key=_demand, reverse=True)
    if len(wanting) > 1 and wanting[1].rounds and _demand(wanting[0]) > 2 * wanting[1].rounds:
        yield f"k = {wanting[0].k} alone asks for so many; without it {wanting[1].rounds:,} rounds of each k would do"


def _demand(need: Need) -> float:
    """Rounds that are needed; no number of them is enough where more clusters are needed."""
    return float("inf") if need.clusters_at_least is not None else float(need.rounds or 0)


def _check_reachable(needs: Sequence[Need], clusters: int) -> None:
    short = [need for need in needs if need.clusters_at_least is not None]
    if short:
        worst = max(short, key=lambda need: need.clusters_at_least or 0)
        listed = ", ".join(str(need.k) for need in short)
        raise InputError(
            f"k = {listed}: no number of rounds from {clusters} generations reaches this precision, since rounds of "
            f"one generation err alike; k = {worst.k} needs rounds of at least {worst.clusters_at_least} generations: "
            f"record more, or ask for less precision{''.join(f'; {hint}' for hint in _greedy(needs))}"
        )


def _driver(needs: Sequence[Need]) -> str:
    wanting = [need for need in needs if need.rounds]
    if not wanting:
        return ""
    most = max(wanting, key=lambda need: need.rounds or 0)
    return f" (k = {most.k} needs {most.rounds:,})"


def _cluster_codes(anchors: Anchors, clusters: int) -> Integers:
    """(A,) cluster of each anchor; numbered ones are taken in turn."""
    if anchors.cluster:
        names = {name: i for i, name in enumerate(sorted(set(anchors.cluster)))}
        return np.array([names[name] for name in anchors.cluster], dtype=np.int64)
    return np.arange(anchors.count, dtype=np.int64) % max(clusters, 1)


def _expected(need: Need, rounds: int, clusters: int, clustering: float) -> Expected:
    error = error_after(need.spread, rounds, clusters, clustering)
    reached = None
    if need.wanted_error is not None and error is not None:
        reached = error <= need.wanted_error * (1 + 1e-9)
    return Expected(need, rounds, error, half_width(error, clusters), reached)


def _table(order: Order, anchors: Anchors) -> pa.Table:
    columns: dict[str, Any] = {
        "order": np.arange(len(order.anchor)),
        "block": order.block,
        "repeat": order.repeat,
        "draft_length": order.draft_length,
        "anchor": order.anchor,
    }
    if anchors.position is not None and anchors.context_len is not None:
        columns["generation"] = pa.array(anchors.generation, pa.string()).take(pa.array(order.anchor))
        columns["position"] = anchors.position[order.anchor]
        columns["context_len"] = anchors.context_len[order.anchor]
        columns["category"] = pa.array(anchors.category, pa.string()).take(pa.array(order.anchor))
        columns["cluster"] = pa.array(anchors.cluster, pa.string()).take(pa.array(order.anchor))
    return pa.table(columns)


def _notes(
    request: Request,
    pilot: Pilot | None,
    given: Spread | None,
    expected: Sequence[Expected],
    repeats: int,
    too_short: int,
) -> Iterable[str]:
    guessed = [row.need for row in expected if row.need.spread.extrapolated]
    if guessed:
        listed = ", ".join(str(need.k) for need in guessed)
        yield f"k = {listed}: not in the pilot; spread and residual are extrapolated, so the precision there is a guess"
    if given is not None:
        yield "residual and spread are given, the same for every k of 1 or more; rounds are taken as independent"
    if pilot is not None and pilot.clusters < 10:
        yield f"the pilot has {pilot.clusters} generations: its clustering is hardly known; ten or more are better"
    fixed = [str(row.need.k) for row in expected if not row.need.spread.experts_sd > 0]
    if fixed:
        yield f"k = {', '.join(fixed)}: U does not vary, so there is no alpha to measure; timed as often as the others"
    if request.anchors is None:
        yield from _greedy([row.need for row in expected])
    if repeats > request.repeats:
        yield f"each round is timed {repeats} times, since there are too few anchors; more anchors would be better"
    if too_short:
        yield f"{too_short} generations are too short for k = {max(request.ks)} and have no anchors"
