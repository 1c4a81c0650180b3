"""What a speed-up costs in tenants, what it gives, and where both are the same.

With n tenants in a full pool and a mean acceptance length A, tokens a millisecond are n/step(n) without and
A·n'/round(n') with it, where n' <= n tenants are left. Hence it pays, at a full pool, from

    A* = (n/n') · round(n')/step(n)

on: the share of tenants that is left and the dearer round both have to be earned. A draft of D bytes pays up to

    D* = max over n' of min( pool - n'·kv',  (A n' step(n)/n - fixed(n')) / ms_per_draft_byte ),

the largest size at which n' tenants still fit (first term) and the round is still fast enough (second). With fewer
tenants asked for than fit, memory costs nothing: `pays` lists all numbers of tenants at which the speed-up pays.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from oracle.levers.matches import accept_needed
from oracle.pool.budget import Budget, Served, budget, tenants_in
from oracle.pool.plan import Plan
from oracle.pool.speedup import Speedup
from oracle.pool.times import Numbers, has_two_readings, round_line, round_ms, step_ms, with_reading
from oracle.pool.timing import Reading

MOST_TENANTS = 1 << 17  # looked at one by one


class Verdict(StrEnum):
    """Whether a speed-up pays by all readings, by none, or by some only."""

    PAYS = "pays"
    NOT = "does not pay"
    DEPENDS = "depends"


def verdict(gains: Sequence[float | None]) -> Verdict:
    """Judge gains by every reading."""
    pays = [gain is not None and gain > 1 for gain in gains]
    return Verdict.PAYS if all(pays) else Verdict.DEPENDS if any(pays) else Verdict.NOT


@dataclass(frozen=True)
class Worth:
    """A speed-up at one precision of weights and KV; None is what was left open.

    Attributes
    ----------
    speedup, without, having
        What it is about, and the budgets without and with it.
    wanted
        Tenants asked for, whether they fit or not; 0: none were stated.
    step_ms, round_ms
        At the full pool of each.
    length_needed, acceptance_needed
        A* at a full pool and the acceptance of each draft token that gives it (inf: above what k tokens can give).
    most_draft_bytes
        D*; negative: no draft of any size pays. None also for one without weights, which has no size.
    asked, asked_step_ms
        Tenants asked for, or as many of those as fit without the speed-up, and their step.
    same_step_ms, same_round_ms
        At the tenants asked for, or as many of those as fit with the speed-up.
    pays
        Ranges of tenants, both ends included, at which it emits more; the last one goes on where it pays at a full
        pool (inf).
    hidden
        The same with computing hidden behind reading bytes; None: it makes no difference.
    """

    speedup: Speedup
    without: Budget
    having: Budget
    wanted: int = 0
    step_ms: float | None = None
    round_ms: float | None = None
    length_needed: float | None = None
    acceptance_needed: float | None = None
    most_draft_bytes: float | None = None
    asked: int | None = None
    asked_step_ms: float | None = None
    same_step_ms: float | None = None
    same_round_ms: float | None = None
    pays: tuple[tuple[int, float], ...] | None = None
    hidden: "Worth | None" = None

    @property
    def readings(self) -> "tuple[Worth, ...]":
        """With verification added, and, where that differs, with computing hidden."""
        return (self,) if self.hidden is None else (self, self.hidden)

    @property
    def held(self) -> int:
        """Tenants whose KV its memory is counted at: as many of those asked for as fit with it; 0 where not known."""
        return min(self.wanted, self.having.tenants or 0)

    @property
    def kv_bytes(self) -> int:
        """What it adds to the KV of `held` tenants: slots for its drafts, and KV of its own."""
        return self.having.draft_kv_of(self.held)

    @property
    def taken_bytes(self) -> int:
        """All that it takes from the pool: its resident bytes and `kv_bytes`."""
        return self.having.draft_bytes + self.kv_bytes

    @property
    def pool_share(self) -> float:
        """Share of the pool that `taken_bytes` are; inf where there is no pool."""
        pool = self.without.pool_bytes
        return self.taken_bytes / pool if pool > 0 else math.inf

    @property
    def tenants_lost(self) -> int | None:
        """Tenants that it displaces."""
        if self.without.tenants is None or self.having.tenants is None:
            return None
        return self.without.tenants - self.having.tenants

    @property
    def tokens_per_s_without(self) -> float | None:
        """Tokens a second of a full pool without it."""
        if not self.step_ms or not self.without.tenants:
            return None
        return 1e3 * self.without.tenants / self.step_ms

    @property
    def tokens_per_s_with(self) -> float | None:
        """Tokens a second of a full pool with it; 0 where no tenant is left."""
        if self.having.tenants == 0:
            return 0.0
        if not self.round_ms or not self.having.tenants or self.speedup.length is None:
            return None
        return 1e3 * self.speedup.length * self.having.tenants / self.round_ms

    @property
    def gain(self) -> float | None:
        """Tokens a second of a full pool with it over those without."""
        if self.tokens_per_s_with is None or not self.tokens_per_s_without:
            return None
        return self.tokens_per_s_with / self.tokens_per_s_without

    @property
    def asked_gain(self) -> float | None:
        """Tokens a second at the tenants asked for with it over those without; those that do not fit wait."""
        if not self.asked or self.having.tenants is None or self.asked_step_ms is None:
            return None
        if self.having.tenants == 0:
            return 0.0
        if not self.same_round_ms or self.speedup.length is None:
            return None
        held = min(self.asked, self.having.tenants)
        return self.speedup.length * held / self.same_round_ms / (self.asked / self.asked_step_ms)

    @property
    def same_gain(self) -> float | None:
        """Speed-up of each tenant where both hold the same tenants."""
        if self.same_step_ms is None or not self.same_round_ms or self.speedup.length is None:
            return None
        return self.speedup.length * self.same_step_ms / self.same_round_ms


def weigh(plan: Plan, served: Served, speedup: Speedup) -> Worth:
    """Weigh a speed-up against the KV that it displaces, by both readings of how computing joins reading."""
    added = worth(with_reading(plan, Reading.ADDED), served, speedup)
    if not has_two_readings(plan, served):
        return added
    return replace(added, hidden=worth(with_reading(plan, Reading.HIDDEN), served, speedup))


def worth(plan: Plan, served: Served, speedup: Speedup) -> Worth:
    """Weigh a speed-up by the reading of the plan."""
    without, having = budget(plan, served), budget(plan, served, speedup)
    n, left = without.tenants, having.tenants
    if not n or left is None or round_line(plan, served, speedup, 1) is None:
        return Worth(speedup, without, having, plan.tenants_asked)
    step = _at(step_ms(plan, served, n))
    asked = min(plan.tenants_asked, n)
    asked_step = _at(step_ms(plan, served, asked))
    most = most_draft_bytes(plan, served, speedup) if speedup.resident_bytes else None
    if left == 0:
        most_of = (math.inf, math.inf, most)
        return Worth(speedup, without, having, plan.tenants_asked, step, None, *most_of, asked, asked_step, pays=())
    took = _at(round_ms(plan, served, speedup, left))
    needed = (n / left) * (took / step)
    same = min(plan.tenants_asked, left)
    return Worth(
        speedup,
        without,
        having,
        plan.tenants_asked,
        step,
        took,
        needed,
        float(accept_needed(max(0.0, needed - 1), speedup.draft_length)),
        most,
        asked,
        asked_step,
        _at(step_ms(plan, served, same)),
        _at(round_ms(plan, served, speedup, same)),
        None if speedup.length is None else _pays(plan, served, speedup, n, left),
    )


def most_draft_bytes(plan: Plan, served: Served, speedup: Speedup) -> float | None:
    """D*, the largest draft that pays at a full pool; its own KV and reads keep their proportions."""
    without, having = budget(plan, served), budget(plan, served, speedup)
    n, free = without.tenants, without.pool_bytes
    step = step_ms(plan, served, n or 0)
    if not n or having.tenant_bytes is None or step is None or speedup.length is None:
        return None
    most = min(tenants_in(free, having.tenant_bytes), MOST_TENANTS)
    if most == 0:
        return -math.inf
    left = np.arange(1, most + 1, dtype=np.float64)
    line = round_line(plan, served, speedup, left)
    if line is None:
        return None
    total, count = having.tenant_bytes
    room = np.array([free - -(-i * total // count) for i in range(1, most + 1)], dtype=np.float64)
    spare = speedup.length * left * float(step) / n - line.fixed_ms
    if line.ms_per_draft_byte > 0:
        sizes = np.minimum(room, spare / line.ms_per_draft_byte)
    else:
        sizes = np.where(spare >= 0, room, -np.inf)
    return float(sizes.max())


def _pays(plan: Plan, served: Served, speedup: Speedup, full: int, left: int) -> tuple[tuple[int, float], ...]:
    """Scan numbers of tenants asked for up to a full pool, one by one; beyond, nothing changes."""
    asked = np.arange(1, min(full, MOST_TENANTS) + 1, dtype=np.float64)
    held = np.minimum(asked, left)
    step, took = step_ms(plan, served, asked), round_ms(plan, served, speedup, held)
    if step is None or took is None or speedup.length is None:
        return ()
    on = speedup.length * held * step > asked * took
    edges = np.flatnonzero(np.diff(np.concatenate([[False], on, [False]])))
    last = len(asked)
    return tuple(
        (int(low) + 1, math.inf if high == last else int(high))
        for low, high in zip(edges[::2], edges[1::2], strict=True)
    )


def _at(value: Numbers | None) -> float:
    return math.nan if value is None else float(value)
