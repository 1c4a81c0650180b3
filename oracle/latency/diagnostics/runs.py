"""Runs of m with one alpha and beta0 linear in m: their residual sums for many weightings of the clusters at once.

Within a run T = a + b m + alpha U + c L. The context coefficient c is shared by all runs, so residual sums of runs do
not simply add up. They do as functions of c: taking (1, m, U) out of T and of L leaves residuals r and l, and a run's
sum is ``s - 2 c t + c² w`` with s = sum r², t = sum r l, w = sum l². These triples add up over the runs of a partition,
whose best c is ``t / w``. A held-out sample has a triple too (with the training sample's coefficients), so training and
held-out error of every partition follow from triples of runs: an exact search is a table look-up for each partition.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from oracle.latency.forms import FEWEST_ROUNDS, REGRESSORS, RESPONSE, varies
from oracle.latency.moments import Floats, Integers, Moments

Levels = Literal["line", "free"]
Run = tuple[int, ...]  # the m of one run, rising
Partition = tuple[Run, ...]

MOST_PARTITIONS = 8192  # all of them up to 14 places; 4 regimes and fewer up to 37 places
LOST = 1e-12  # share of a regressor's squares left by the earlier ones: below it the run does not identify its slope
_CELLS = 1 << 20  # weightings times runs held at a time


@dataclass(frozen=True)
class Candidates:
    """The partitions of the measured m that are compared.

    Parameters
    ----------
    atoms
        The m that stay together, rising: an m where U does not vary has no alpha of its own and joins the next m (the
        last such m the one before).
    runs
        Every run of neighbouring atoms, as (first atom, last atom).
    members
        (P, R) float64, 1 where a partition has the run.
    regimes
        (P,) int64, number of runs of each partition; rising.
    numbers
        The numbers of regimes that occur: 1, 2, …, and always the number of atoms (the categorical form).
    left_out
        m -> why it takes no part.
    """

    atoms: tuple[Run, ...]
    runs: tuple[tuple[int, int], ...]
    members: Floats
    regimes: Integers
    numbers: tuple[int, ...]
    left_out: dict[int, str]

    @property
    def ms(self) -> tuple[int, ...]:
        """All m that take part."""
        return tuple(itertools.chain(*self.atoms))

    def partition(self, index: int) -> Partition:
        """Give the runs of one partition as m."""
        used = sorted(self.runs[r] for r in np.flatnonzero(self.members[index]))
        return tuple(tuple(itertools.chain(*self.atoms[i : j + 1])) for i, j in used)


def candidates(totals: Moments) -> Candidates:
    """List the partitions of the m of `totals` (see `Moments.by_m`) that hold unique_experts."""
    few = {
        int(m): f"{round(n)} rounds; a regime's m needs at least {FEWEST_ROUNDS}"
        for m, n in zip(totals.m.tolist(), totals.n.tolist(), strict=True)
        if n < FEWEST_ROUNDS
    }
    own = varies(totals, REGRESSORS[0])
    atoms: list[list[int]] = [[]]
    for m in (m for m in totals.ms if m not in few):
        atoms[-1].append(m)
        if own[m]:
            atoms.append([])
    last = atoms.pop()
    if last and atoms:
        atoms[-1] += last
    count = len(atoms)
    runs = [(i, j) for i in range(count) for j in range(i, count)]
    place = {run: r for r, run in enumerate(runs)}
    cuts: list[tuple[int, ...]] = []
    most = 0
    while most < count and sum(math.comb(count - 1, r) for r in range(most + 1)) <= MOST_PARTITIONS:
        most += 1
    numbers = [number for number in range(1, count + 1) if number <= most or number == count]
    for number in numbers:
        cuts += itertools.combinations(range(1, count), number - 1)
    members = np.zeros((len(cuts), len(runs)))
    for p, cut in enumerate(cuts):
        ends = (*cut, count)
        for i, j in zip((0, *cut), ends, strict=True):
            members[p, place[i, j - 1]] = 1.0
    regimes = np.array([len(cut) + 1 for cut in cuts], dtype=np.int64)
    return Candidates(tuple(map(tuple, atoms)), tuple(runs), members, regimes, tuple(numbers), few)


@dataclass(frozen=True)
class Search:
    """The best partition of each number of regimes, for B weightings.

    Parameters
    ----------
    best
        (numbers, B) int64, index of the partition with the smallest training sum.
    sse
        (numbers, B) its sum of squared residuals, ms².
    rmse_held_out
        (numbers, B) root mean squared error on the held-out weights, ms; NaN without any.
    complete
        (B,) whether the training weights hold rounds of every m; elsewhere the other fields mean nothing.
    """

    best: Integers
    sse: Floats
    rmse_held_out: Floats
    complete: NDArray[np.bool_]


@dataclass(frozen=True)
class _Sums:
    """Weighted moments of (m, U, L, T) for B weightings, which come last so that sums run over long rows.

    n (…, B), means (V, …, B) about a pivot, centred co-moments (V, V, …, B).
    """

    n: Floats
    mean: Floats
    comoment: Floats

    def joined(self, other: "_Sums") -> "_Sums":
        """Moments of both samples together (Chan, Golub and LeVeque)."""
        n = self.n + other.n
        share = np.divide(other.n, n, out=np.zeros_like(n), where=n > 0)
        apart = other.mean - self.mean
        between = (self.n * share * apart)[:, None] * apart[None]
        return _Sums(n, self.mean + share * apart, self.comoment + other.comoment + between)

    def about(self, centre: "_Sums") -> "_Sums":
        """Squares about the means of another sample in place of its own, and no means: levels of its own taken out."""
        apart = self.mean - centre.mean
        squares = self.comoment + (self.n * apart)[:, None] * apart[None]
        return _Sums(self.n, np.zeros_like(self.mean), squares)


def _by_m(moments: Moments, ms: Sequence[int], weights: Floats) -> list[_Sums]:
    """Weighted moments of each m, one entry an m, (B,) weightings in each."""
    result, totals = [], moments.by_m()
    V = len(moments.names)
    for m in ms:
        cells = moments.where(moments.m == m)
        centre = totals.shifted_mean[totals.m == m][0]
        apart = cells.shifted_mean - centre
        squares = cells.comoment + cells.n[:, None, None] * apart[:, :, None] * apart[:, None, :]
        flat = np.column_stack([cells.n, cells.n[:, None] * apart, squares.reshape(len(cells.n), -1)])
        total = flat.T @ weights[:, cells.cluster].T
        n = total[0]
        shift = np.divide(total[1 : 1 + V], n, out=np.zeros((V, len(n))), where=n > 0)
        comoment = np.zeros((V + 1, V + 1, len(n)))  # m itself comes first and does not vary here
        comoment[1:, 1:] = total[1 + V :].reshape(V, V, -1) - n * shift[:, None] * shift[None]
        mean = np.concatenate([np.full((1, len(n)), float(m)), centre[:, None] + shift])
        result.append(_Sums(n, mean, comoment))
    return result


def _by_run(by_m: Sequence[_Sums], found: Candidates) -> _Sums:
    """Moments of every run: (R, B), (V, R, B), (V, V, R, B)."""
    place = {m: i for i, m in enumerate(found.ms)}
    atoms = []
    for atom in found.atoms:
        whole = by_m[place[atom[0]]]
        for m in atom[1:]:
            whole = whole.joined(by_m[place[m]])
        atoms.append(whole)
    parts = []
    for first in range(len(atoms)):
        run = atoms[first]
        parts.append(run)
        for later in atoms[first + 1 :]:
            run = run.joined(later)
            parts.append(run)
    return _Sums(*(np.stack([getattr(part, name) for part in parts], axis=-2) for name in ("n", "mean", "comoment")))


def _residual_maps(comoment: Floats) -> Floats:
    """(2, V, …): rows that turn deviations of (m, U, L, T) into the residuals of L and T, m and U taken out.

    A slope that the run does not identify (m in a run of one m, U that does not vary) is 0. Without context lengths
    the row of L is 0.
    """
    width = len(comoment)
    left = comoment.copy()
    maps = np.zeros_like(comoment)
    for v in range(width):
        maps[v, v] = 1.0
    for x in (0, 1):
        pivot = left[x, x]
        usable = pivot > LOST * comoment[x, x]
        divisor = np.where(usable, pivot, 1.0)
        for y in range(x + 1, width):
            slope = np.where(usable, left[x, y], 0.0) / divisor
            left[y, x + 1 :] -= slope * left[x, x + 1 :]
            maps[y, : x + 1] -= slope * maps[x, : x + 1]
    return maps[2:] if width == 4 else np.stack([np.zeros_like(maps[2]), maps[2]])


def _triples(maps: Floats, sums: _Sums, about: Floats) -> Floats:
    """(3, …): w, t, s of samples under given maps, whose training means are `about`."""
    apart = (maps * (sums.mean - about)).sum(axis=1)
    carried = [[(maps[a] * sums.comoment[v]).sum(axis=0) for v in range(len(sums.comoment))] for a in (0, 1)]
    pairs = ((0, 0), (0, 1), (1, 1))
    return np.stack(
        [
            sum(maps[b, v] * carried[a][v] for v in range(len(sums.comoment))) + sums.n * apart[a] * apart[b]
            for a, b in pairs
        ]
    )


def search(
    moments: Moments,
    found: Candidates,
    training: Floats,
    held_out: Floats | None = None,
    levels: Levels = "line",
) -> Search:
    """Find the best partition of each number of regimes, exactly, for every weighting.

    Parameters
    ----------
    moments
        Moments by (cluster, m).
    found
        The partitions.
    training
        (B, G) float64 >= 0, how often each cluster counts: 0 and 1 for folds, counts for bootstrap draws.
    held_out
        (B, G) the same for the sample that is predicted; None predicts nothing.
    levels
        ``"line"``: beta0 is linear in m inside a run; ``"free"``: every m has its own beta0, only alpha is shared.
    """
    names = [name for name in (*REGRESSORS, RESPONSE) if name in moments.names]
    cells = moments.of(names)
    at_once = max(1, _CELLS // (16 * len(found.runs)))
    parts = []
    for start in range(0, max(len(training), 1), at_once):
        some = slice(start, start + at_once)
        outside = None if held_out is None else _by_m(cells, found.ms, held_out[some])
        parts.append(_search(found, _by_m(cells, found.ms, training[some]), outside, levels))
    return Search(
        np.concatenate([part.best for part in parts], axis=1),
        np.concatenate([part.sse for part in parts], axis=1),
        np.concatenate([part.rmse_held_out for part in parts], axis=1),
        np.concatenate([part.complete for part in parts]),
    )


def _search(found: Candidates, training: list[_Sums], held_out: list[_Sums] | None, levels: Levels) -> Search:
    complete = np.all([each.n > 0 for each in training], axis=0)
    if levels == "free":
        held_out = held_out and [each.about(own) for each, own in zip(held_out, training, strict=True)]
        training = [each.about(each) for each in training]
    runs = _by_run(training, found)
    maps = _residual_maps(runs.comoment)
    w, t, s = found.members @ _triples(maps, runs, runs.mean)
    c = np.divide(t, w, out=np.zeros_like(t), where=w > 0)
    sse = s - c * t
    best = np.empty((len(found.numbers), len(complete)), dtype=np.int64)
    for row, number in enumerate(found.numbers):
        at = np.flatnonzero(found.regimes == number)
        best[row] = at[sse[at].argmin(axis=0)]
    columns = np.arange(len(complete))
    rmse = np.full(best.shape, np.nan)
    if held_out is not None:
        outside = _by_run(held_out, found)
        w, t, s = np.einsum("nbr,xrb->xnb", found.members[best], _triples(maps, outside, runs.mean))
        chosen = c[best, columns]
        whole = found.runs.index((0, len(found.atoms) - 1))
        with np.errstate(invalid="ignore", divide="ignore"):
            rmse = np.sqrt(np.maximum(s - 2 * chosen * t + chosen**2 * w, 0.0) / outside.n[whole])
    return Search(best, np.maximum(sse[best, columns], 0.0), rmse, np.asarray(complete))
