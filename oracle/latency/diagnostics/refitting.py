"""One verification fit with its rounds at hand, so that it can be refitted under weights on rounds or on groups."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from oracle.errors import InputError
from oracle.latency.diagnostics.verified import VARIABLES, Verified
from oracle.latency.estimates import Estimate
from oracle.latency.evidence import Evidence
from oracle.latency.linear_form import square_roots
from oracle.latency.moments import Floats, Integers, moments_of
from oracle.latency.regression import RANK_TOLERANCE, fit_form


@dataclass(frozen=True)
class Refitting:
    """Rounds of a fit, sorted by m, centred at each m.

    Parameters
    ----------
    found
        The fit.
    rows
        (N,) places of its rounds in the evidence.
    slices
        Where each m of `found.chosen.ms` lies in `rows`.
    centred
        (N, 3) C-contiguous: unique experts, context length, target_ms minus their means at m.
    mean
        (M, 3) those means.
    """

    found: Verified
    rows: Integers
    slices: tuple[slice, ...]
    centred: Floats
    mean: Floats

    def residual(self, theta: Floats) -> Floats:
        """(N,) residuals, ms."""
        residual = np.empty(len(self.rows))
        for i, (m, at) in enumerate(zip(self.found.chosen.ms, self.slices, strict=True)):
            beta = self.found.chosen.form.matrices[m] @ theta
            across = np.append(-beta[1:], 1.0)
            residual[at] = self.centred[at] @ across + (self.mean[i] @ across - beta[0])
        return residual

    def weighted(self, weights: Floats) -> Floats:
        """Coefficients theta with each round counted `weights` times, (N,) float64 >= 0.

        The rows that `fit_form` would make of the weighted moments, solved at once: a step of a reweighting needs theta
        and nothing else.

        Raises
        ------
        InputError
            The weighted rounds do not identify theta.
        """
        form = self.found.chosen.form
        width = len(VARIABLES)
        X, y = [], []
        for i, (m, at) in enumerate(zip(self.found.chosen.ms, self.slices, strict=True)):
            w, z = weights[at], self.centred[at]
            total = w.sum()
            middle = w @ z / total
            comoment = (z * w[:, None]).T @ z - total * np.outer(middle, middle)
            local = np.zeros((width + 1, width + 1))
            local[0] = np.sqrt(total) * np.append(1.0, self.mean[i] + middle)
            local[1:, 1:] = square_roots(comoment[None])[0]
            X.append(local[:, :width] @ form.matrices[m])
            y.append(local[:, width])
        design = np.concatenate(X)
        length = np.linalg.norm(design, axis=0)
        if not (length > 0).all():
            raise InputError("the weighted rounds do not identify every coefficient")
        theta, _, rank, _ = np.linalg.lstsq(design / length, np.concatenate(y), rcond=RANK_TOLERANCE)
        if rank < len(length):
            raise InputError("the weighted rounds do not identify every coefficient")
        return np.asarray(theta / length)

    def of_groups(self, evidence: Evidence, group: Integers, groups: int, weights: Floats) -> Floats:
        """Coefficients with whole groups of rounds weighted.

        Parameters
        ----------
        group, groups
            (N,) int64 group of each round in the order of `rows`, and how many groups there are.
        weights
            (B, groups) float64 >= 0.

        Returns
        -------
        (B, P) float64, NaN where the rounds left do not identify theta.
        """
        columns = [evidence.columns[name][self.rows] for name in VARIABLES]
        names = tuple(map(str, range(groups)))
        cells = moments_of(VARIABLES, columns, m=evidence.m[self.rows], cluster=group, clusters=names)
        return fit_form(cells, self.found.chosen.form).weighted(weights)


def refitting(evidence: Evidence, found: Verified) -> Refitting:
    """Lay out the rounds of a fit."""
    known = np.zeros(int(evidence.m.max()) + 1, dtype=np.bool_)
    known[list(found.chosen.ms)] = True
    rows = np.flatnonzero(known[evidence.m])
    rows = rows[np.argsort(evidence.m[rows].astype(np.int16), kind="stable")]  # 16 bits sort in linear time
    m = evidence.m[rows]
    edges = np.searchsorted(m, [*found.chosen.ms, np.iinfo(np.int64).max])
    slices = tuple(slice(int(a), int(b)) for a, b in pairwise(edges))
    centred = np.stack([evidence.columns[name][rows] for name in VARIABLES], axis=1)
    mean = np.array([centred[at].mean(axis=0) for at in slices])
    for at, middle in zip(slices, mean, strict=True):
        centred[at] -= middle
    return Refitting(found, rows, slices, centred, mean)


def watched(found: Verified) -> tuple[Floats, Sequence[Estimate]]:
    """Rows that turn theta into each measured alpha and then c (where context varies), and their estimates."""
    names = [f"alpha_ms_per_expert[{m}]" for m in found.own]
    if found.context_name is not None:
        names.append(found.context_name)
    at = [found.chosen.names.index(name) for name in names]
    return found.chosen.report[at], [found.estimates.each[i] for i in at]
