"""What observed break-evens tell of a deployment's parameters, and what they leave open.

Where speculation breaks even at repetitiveness r*, with u = a0 + (1 - a0) r* and gain(a) = Abar(a) - 1,

    gain(eta(p) u) · tau b(p) = host + tau b(p) kappa(p) v(B).

Where the experts read grow with the pass, the gain is times what the step reads, and the host work is joined by what
the round reads more. Host work does not depend on precision or batch size, the verification v(B), as a share of reading
the weights, not on the precision. So two precisions at two batch sizes are four equations for four unknowns: the ratio
of both eta, the host work and v at either batch size. Fewer leave a curve of solutions; draft length, kappa and a0 are
taken as stated, and only the ratio of eta is told, never its scale. An observation is an interval (its rounding, say),
so each unknown gets the interval of all values that some solution within the observations has: not a matter of chance.
Where that is empty, the stated assumptions are excluded.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from oracle.errors import InputError, printable
from oracle.levers.cost import more_read_ms, weights_ms
from oracle.levers.deployment import Deployment, Precision
from oracle.levers.fitted import Measured
from oracle.levers.matches import mean_length

Numbers = NDArray[np.float64]
_GRID = 2001
_HALVINGS = 60


class Range(NamedTuple):
    """Ends of a parameter over all solutions, both included."""

    low: float
    high: float


@dataclass(frozen=True)
class Verification:
    """v at one batch size, all solutions; `verify_batch` is B_v of the deployment that it means."""

    batch_size: float
    share: Range
    verify_batch: Range


@dataclass(frozen=True)
class Identified:
    """What break-evens of two precisions tell.

    Attributes
    ----------
    reference, precision
        The wider one, whose eta is taken as stated, and the other.
    batch_sizes
        At which both were observed.
    is_point
        Whether exact observations would leave one solution; else a curve.
    eta, round_host_ms
        Ranges of all solutions; None where there is none.
    verification
        By batch size, from the smallest; empty where there is no solution.
    growth
        v at the largest batch size over that at the smallest; None for one batch size.
    """

    reference: str
    precision: str
    batch_sizes: tuple[float, ...]
    is_point: bool
    eta: Range | None = None
    round_host_ms: Range | None = None
    verification: tuple[Verification, ...] = ()
    growth: Range | None = None

    @property
    def is_excluded(self) -> bool:
        """Whether nothing within the model gives what was observed."""
        return self.eta is None


@dataclass(frozen=True)
class _Pair:
    """Two precisions: gains at the observed ends, by batch size (M,), and tau b kappa of both."""

    deployment: Deployment
    low: tuple[Numbers, Numbers]
    high: tuple[Numbers, Numbers]
    reference: Precision
    other: Precision
    batch_sizes: Numbers

    def added_ms(self, which: int, end: int, eta: Numbers) -> Numbers:
        """What a round adds to a step at its break-even, ms: (n, M)."""
        p = (self.reference, self.other)[which]
        how = self.deployment.speculation
        r = (self.low, self.high)[end][which]
        base = how.base_match + (1 - how.base_match) * r
        etas = eta[:, None] if which else np.full((len(eta), 1), p.eta)
        a = np.minimum(etas * base, 1.0)
        length = mean_length(a, how.draft_length, how.reading, how.autocorrelation)
        step = weights_ms(self.deployment, p, self.batch_sizes)
        return (length - 1) * step - more_read_ms(self.deployment, p, self.batch_sizes, how.draft_length)

    def verify_weight(self, which: int) -> float:
        """What v is multiplied by, ms."""
        p = (self.reference, self.other)[which]
        return self.deployment.read_ms_per_byte * p.bytes_per_parameter * p.kappa

    def host_range(self, eta: Numbers) -> tuple[Numbers, Numbers]:
        """Host work that some v >= 0 goes with at every batch size, ms, for each eta: twice (n,); empty if crossed."""
        weights = self.verify_weight(0), self.verify_weight(1)
        wide, narrow = (0, 1) if weights[0] > weights[1] else (1, 0)
        room = weights[wide] - weights[narrow]
        y = [[self.added_ms(which, end, eta) for end in (0, 1)] for which in (0, 1)]
        low = (weights[wide] * y[narrow][0] - weights[narrow] * y[wide][1]) / room
        high = (weights[wide] * y[narrow][1] - weights[narrow] * y[wide][0]) / room
        high = np.minimum(high, np.minimum(y[0][1], y[1][1]))
        return np.maximum(low.max(axis=1), 0.0), high.min(axis=1)

    def share_range(self, eta: Numbers, host: Numbers) -> tuple[Numbers, Numbers]:
        """Both ends of v that go with host work at each eta: twice (n, M)."""
        ends = []
        for end, pick in ((0, np.maximum), (1, np.minimum)):
            each = [(self.added_ms(i, end, eta) - host[:, None]) / self.verify_weight(i) for i in (0, 1)]
            ends.append(pick(*each))
        return np.maximum(ends[0], 0.0), ends[1]


def identify(deployment: Deployment, rows: Sequence[Measured]) -> tuple[Identified, ...]:
    """Say what observed break-evens tell, for the widest precision with each other one.

    Raises
    ------
    InputError
        KV reads are on, or verification weighs the same at both precisions.
    """
    by_name: dict[str, dict[float, tuple[float, float]]] = {}
    for row in rows:
        if row.break_even is not None and row.batch_size is not None:
            by_name.setdefault(row.precision, {})[row.batch_size] = row.break_even
    if len(by_name) < 2:
        return ()
    if deployment.kv_read_share:
        raise InputError(
            "break-evens tell parameters of a step that reads weights only; set kv_read_share to 0, or leave "
            "break_even out"
        )
    reference, *others = sorted(by_name, key=lambda name: -deployment.named(name).bytes_per_parameter)
    found = []
    for name in others:
        shared = sorted(by_name[reference].keys() & by_name[name].keys())
        if shared:
            found.append(_of_pair(deployment, reference, name, shared, by_name))
    return tuple(found)


def _of_pair(
    deployment: Deployment,
    reference: str,
    name: str,
    shared: Sequence[float],
    by_name: dict[str, dict[float, tuple[float, float]]],
) -> Identified:
    ends = [[np.array([by_name[each][B][end] for B in shared]) for each in (reference, name)] for end in (0, 1)]
    pair = _Pair(
        deployment,
        (ends[0][0], ends[0][1]),
        (ends[1][0], ends[1][1]),
        deployment.named(reference),
        deployment.named(name),
        np.array(shared),
    )
    if np.isclose(pair.verify_weight(0), pair.verify_weight(1), rtol=1e-9):
        raise InputError(
            f"verification weighs the same at {printable(reference)} and {printable(name)} (bytes times kappa), so "
            "their break-evens do not tell it from host work; leave break_even of one of them out"
        )
    told = Identified(reference, name, tuple(shared), len(shared) > 1)
    eta = _etas(pair)
    return told if eta is None else _solutions(told, pair, eta)


def _etas(pair: _Pair) -> Numbers | None:
    """Etas of all solutions, from the least to the largest, up to 1; None: there is none.

    With host work of either batch size written as a function of eta, one solution is where both are the same.
    """
    grid = np.linspace(0.0, 1.0, _GRID)[1:]
    low, high = pair.host_range(grid)
    gap = low - high
    best = int(np.argmin(gap))
    least = _minimised(pair, grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)])
    if _gap(pair, least) > _tolerance(pair):
        return None
    start, end = _edge(pair, least, 1e-9), _edge(pair, least, 1.0)
    return np.linspace(start, end, _GRID)


def _gap(pair: _Pair, eta: float) -> float:
    low, high = pair.host_range(np.array([eta]))
    return float(low[0] - high[0])


def _tolerance(pair: _Pair) -> float:
    """Rounding of the arithmetic: observations without a width have solutions to that only."""
    return 1e-9 * pair.verify_weight(0)


def _minimised(pair: _Pair, low: float, high: float) -> float:
    """Eta of the least gap between two neighbours of the grid, where the gap falls and then rises."""
    for _ in range(_HALVINGS):
        third = (high - low) / 3
        left, right = low + third, high - third
        low, high = (low, right) if _gap(pair, left) <= _gap(pair, right) else (left, high)
    return (low + high) / 2


def _edge(pair: _Pair, inside: float, outside: float) -> float:
    """Last eta that has a solution on the way outside."""
    if _gap(pair, outside) <= _tolerance(pair):
        return outside
    for _ in range(_HALVINGS):
        middle = (inside + outside) / 2
        inside, outside = (middle, outside) if _gap(pair, middle) <= _tolerance(pair) else (inside, middle)
    return inside


def _solutions(told: Identified, pair: _Pair, eta: Numbers) -> Identified:
    """Put the intervals of all solutions in."""
    least, most = pair.host_range(eta)
    most = np.maximum(least, most)
    how, B = pair.deployment.speculation, np.array(told.batch_sizes)
    longer = how.draft_length / how.reference_draft_length
    steps = np.linspace(0.0, 1.0, 101)
    both = [pair.share_range(eta, least + step * (most - least)) for step in steps]
    low, high = (np.stack([each[end] for each in both]) for end in (0, 1))
    high = np.maximum(low, high)
    share = low.min(axis=(0, 1)), high.max(axis=(0, 1))
    with np.errstate(divide="ignore", invalid="ignore"):
        least_growth, most_growth = low[..., -1] / high[..., 0], high[..., -1] / low[..., 0]
        batch = longer * B / share[1], longer * B / share[0]
    # no verification at either batch size grows by any factor
    growth = np.nan_to_num(least_growth, nan=0.0, posinf=np.inf), np.nan_to_num(most_growth, nan=np.inf, posinf=np.inf)
    return replace(
        told,
        eta=Range(float(eta[0]), float(eta[-1])),
        round_host_ms=Range(float(least.min()), float(most.max())),
        verification=tuple(
            Verification(float(B[i]), *(Range(float(ends[0][i]), float(ends[1][i])) for ends in (share, batch)))
            for i in range(len(B))
        ),
        growth=Range(float(growth[0].min()), float(growth[1].max())) if told.is_point else None,
    )
