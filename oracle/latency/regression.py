"""Least squares from moments: coefficients, clustered errors, leave-outs and resamples without a second look at rows.

The totals of each m are factored, R_m = F_m' F_m, one row sqrt(n)(1, mean) and one row per variable from the Cholesky
factor of the centred co-moments. The rows F_m A_m are an exact compression of the design matrix (same X'X, X'y, y'y),
and QR of it keeps the digits that X'X would lose: where each m has its own intercept it is triangular from the start.
Everything by cluster is then computed in the coordinates phi = R theta, in which the whole sample has X'X = I.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from oracle.errors import InputError
from oracle.latency.linear_form import LinearForm, residual_sums, square_roots
from oracle.latency.moments import Floats, Integers, Moments

RANK_TOLERANCE = 1e-11  # of a column's length: less of it left after the earlier columns means it is one of them
LOST_WITHOUT = 1e-9  # an eigenvalue of I - H_g below this: only cluster g knows that direction
CLUSTERS_AT_ONCE = 4096


@dataclass(frozen=True)
class Fit:
    """A fitted linear form; build with `fit_form`.

    Parameters
    ----------
    form, moments
        What was fitted, and the cells (regressors and response, only the m of the form).
    theta
        (P,) coefficients.
    triangle
        (P, P) upper triangular R with R'R = X'X.
    whitened
        m -> (1 + X, P): (1, x - mean_m)' A_m inverse(R), the regressors in coordinates where X'X = I.
    mean_residual
        m -> mean residual of that m, ms.
    sse
        Sum of squared residuals, ms².
    """

    form: LinearForm
    moments: Moments
    theta: Floats
    triangle: Floats
    whitened: Mapping[int, Floats]
    mean_residual: Mapping[int, float]
    sse: float

    @cached_property
    def _locals(self) -> tuple[Floats, Floats]:
        """Score (C, 1 + X) and Gram matrix (C, 1 + X, 1 + X) of every cell about its m's mean."""
        cells, width = self.moments, len(self.form.regressors)
        score = np.zeros((len(cells.n), width + 1))
        gram = np.zeros((len(cells.n), width + 1, width + 1))
        totals = cells.by_m()
        slopes = self.form.coefficients(self.theta)
        for i, m in enumerate(totals.m.tolist()):
            at = cells.m == m
            n, beta = cells.n[at], slopes[m][1:]
            apart = cells.shifted_mean[at] - totals.shifted_mean[i]
            x, inner = apart[:, :width], cells.comoment[at]
            residual = apart[:, width] - x @ beta + self.mean_residual[m]
            score[at, 0] = n * residual
            score[at, 1:] = (n * residual)[:, None] * x + inner[:, :width, width] - inner[:, :width, :width] @ beta
            gram[at, 0, 0] = n
            gram[at, 0, 1:] = gram[at, 1:, 0] = n[:, None] * x
            gram[at, 1:, 1:] = inner[:, :width, :width] + n[:, None, None] * x[:, :, None] * x[:, None, :]
        return score, gram

    @cached_property
    def _scores(self) -> Floats:
        """(G, P) scores of the clusters in whitened coordinates."""
        scores = np.zeros((len(self.moments.clusters), len(self.theta)))
        for m, white in self.whitened.items():
            at = self.moments.m == m
            scores[self.moments.cluster[at]] += self._locals[0][at] @ white  # one cell for each cluster at an m
        return scores

    def _leverage(self, clusters: Integers) -> Floats:
        """(len(clusters), P, P): X_g'X_g of some clusters in whitened coordinates."""
        place = np.full(len(self.moments.clusters), -1, dtype=np.int64)
        place[clusters] = np.arange(len(clusters))
        leverage = np.zeros((len(clusters), len(self.theta), len(self.theta)))
        for m, white in self.whitened.items():
            at = np.flatnonzero((self.moments.m == m) & (place[self.moments.cluster] >= 0))
            leverage[place[self.moments.cluster[at]]] += white.T @ self._locals[1][at] @ white
        return leverage

    def _unwhiten(self, phi: Floats) -> Floats:
        """Turn rows of whitened coordinates (B, P) into differences of theta."""
        return np.asarray(solve_triangular(self.triangle, phi.T).T)

    @cached_property
    def clusters_of(self) -> Integers:
        """(P,) number of clusters that hold rounds at an m where the parameter acts (degrees of freedom: one less)."""
        touched = np.zeros((len(self.moments.clusters), len(self.theta)), dtype=np.bool_)
        for m, matrix in self.form.matrices.items():
            at = self.moments.cluster[self.moments.m == m]
            touched[at] |= (matrix != 0).any(axis=0)
        return np.asarray(touched.sum(axis=0), dtype=np.int64)

    @cached_property
    def _blocks(self) -> tuple[Floats, Floats, Floats]:
        """Clusters G, rounds N and parameters P, (P,) each, of the block of parameters estimated together."""
        uses = np.array([(matrix != 0).any(axis=0) for matrix in self.form.matrices.values()])
        together = np.eye(len(self.theta), dtype=np.bool_) | ((uses.T.astype(np.int64) @ uses.astype(np.int64)) > 0)
        for _ in range(len(self.theta).bit_length()):
            together = (together.astype(np.int64) @ together.astype(np.int64)) > 0
        sizes = dict(zip(self.form.matrices, uses, strict=True))
        G, N = np.zeros(len(self.theta)), np.zeros(len(self.theta))
        for j in range(len(self.theta)):
            ms = [m for m, used in sizes.items() if (used & together[j]).any()]
            at = np.isin(self.moments.m, ms)
            G[j], N[j] = len(np.unique(self.moments.cluster[at])), self.moments.n[at].sum()
        return G, N, together.sum(axis=1).astype(np.float64)

    def covariance_cr1(self) -> Floats:
        """(P, P) clustered covariance with the factor G/(G-1) (N-1)/(N-P), as Stata and statsmodels have it.

        Where the form falls into blocks that share no parameter (a separate fit for each m), each block has its own
        factor, and a covariance between blocks the geometric mean of theirs.
        """
        G, N, P = self._blocks
        with np.errstate(divide="ignore", invalid="ignore"):
            factor = np.sqrt(G / (G - 1) * (N - 1) / (N - P))
        factor[(G < 2) | (P >= N)] = np.nan
        spread = self._unwhiten(self._scores) * factor
        return np.asarray(spread.T @ spread)

    def covariance_cr3(self) -> Floats:
        """(P, P) leave-one-cluster-out covariance, (G-1)/G sum_g (theta_g - theta)(theta_g - theta)'.

        theta_g is the exact refit without cluster g. A parameter that some refit cannot identify has NaN in its row and
        column.
        """
        present = np.unique(self.moments.cluster)
        total, lost = np.zeros((len(self.theta), len(self.theta))), np.zeros(len(self.theta), dtype=np.bool_)
        for start in range(0, len(present), CLUSTERS_AT_ONCE):
            some = present[start : start + CLUSTERS_AT_ONCE]
            values, vectors = np.linalg.eigh(np.eye(len(self.theta)) - self._leverage(some))
            known = values > LOST_WITHOUT
            along = np.einsum("gpk,gp->gk", vectors, self._scores[some])
            step = np.where(known, along / np.where(known, values, 1.0), 0.0)
            moved = self._unwhiten(np.einsum("gpk,gk->gp", vectors, step))
            total += moved.T @ moved
            unknown = np.swapaxes(vectors, 1, 2)[~known]
            if len(unknown):
                direction = np.abs(self._unwhiten(unknown)) * np.linalg.norm(self.triangle, axis=0)
                lost |= (direction > 1e-6 * direction.max(axis=1, keepdims=True)).any(axis=0)
        G = self._blocks[0]
        total *= np.sqrt(np.outer((G - 1) / G, (G - 1) / G))
        total[lost, :] = total[:, lost] = np.nan
        return total

    def weighted(self, weights: Floats) -> Floats:
        """Refit with clusters counted `weights` times, (B, G) float64 >= 0: (B, P) coefficients.

        Zeros leave clusters out, counts are a bootstrap draw. A draw that does not identify theta gives a row of NaN,
        which the caller counts and reports.
        """
        gram = np.zeros((len(weights), len(self.theta), len(self.theta)))
        for m, white in self.whitened.items():
            at = self.moments.m == m
            inner = self._locals[1][at]
            local = (weights[:, self.moments.cluster[at]] @ inner.reshape(len(inner), -1)).reshape(-1, *inner.shape[1:])
            gram += white.T @ local @ white
        values = np.linalg.eigvalsh(gram)
        known = values[:, 0] > LOST_WITHOUT * values[:, -1]
        refits = np.full((len(weights), len(self.theta)), np.nan)
        score = weights[known] @ self._scores
        phi = np.asarray(np.linalg.solve(gram[known], score[:, :, None])[:, :, 0], dtype=np.float64)
        refits[known] = self.theta + self._unwhiten(phi)
        return refits

    def residual_by_m(self) -> dict[int, float]:
        """Sum of squared residuals of every m, ms²."""
        totals = self.moments.by_m()
        sums = residual_sums(totals, self.form.regressors, self.form.response, self.form.coefficients(self.theta))
        return dict(zip(totals.m.tolist(), sums.tolist(), strict=True))


def _compressed(totals: Moments, form: LinearForm) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """Rows with the X'X, X'y and y'y of all rounds; returns X, y and the m of each row (its mean's row comes first)."""
    roots = square_roots(totals.comoment)
    mean, width = totals.mean, len(form.regressors)
    X, y = [], []
    for i, m in enumerate(totals.m.tolist()):
        root_n = np.sqrt(totals.n[i])
        local = np.zeros((width + 2, width + 2))
        local[0, 0] = root_n
        local[0, 1:] = root_n * mean[i]
        local[1:, 1:] = roots[i]
        X.append(local[:, : width + 1] @ form.matrices[m])
        y.append(local[:, width + 1])
    return np.concatenate(X), np.concatenate(y), np.repeat(totals.m, width + 2)


def fit_form(moments: Moments, form: LinearForm) -> Fit:
    """Fit a linear form by least squares from moments.

    Parameters
    ----------
    moments
        Cells that hold the form's variables; cells of an m that the form does not know are left out.

    Raises
    ------
    InputError
        The rounds do not identify a parameter (it is named), or there are no more rounds than parameters.
    """
    cells = moments.of((*form.regressors, form.response))
    cells = cells.where(np.isin(cells.m, list(form.matrices)))
    if cells.rounds <= len(form.parameters):
        raise InputError(
            f"{form.response}: {cells.rounds} rounds for {len(form.parameters)} coefficients; record more rounds"
        )
    totals = cells.by_m()
    X, y, row_m = _compressed(totals, form)
    if len(X) < X.shape[1]:
        raise InputError(
            f"{form.response}: {len(form.parameters)} coefficients cannot be told apart with rounds at "
            f"m = {', '.join(map(str, totals.ms))} only; record rounds at more m"
        )
    Q, R = np.linalg.qr(X)
    alone = np.abs(np.diagonal(R)) <= RANK_TOLERANCE * np.linalg.norm(X, axis=0)
    if alone.any():
        named = ", ".join(np.array(form.parameters)[alone])
        raise InputError(
            f"{form.response}: the rounds do not identify {named}: its regressor does not vary, or moves exactly "
            "with the "
            "others; record more varied rounds"
        )
    phi = Q.T @ y
    phi += Q.T @ (y - Q @ phi)  # once more for the digits that a good fit cancels
    residual = y - Q @ phi
    theta = np.asarray(solve_triangular(R, phi))
    whitened, mean_residual = {}, {}
    ms = totals.m.tolist()
    # one solve for all m: with other work on the cores, every small call costs milliseconds
    stacked = np.concatenate([np.asarray(form.matrices[m])[1:] for m in ms])
    slopes = solve_triangular(R, stacked.T, trans="T").T.reshape(len(ms), len(form.regressors), len(R))
    for i, m in enumerate(ms):
        row = int(np.flatnonzero(row_m == m)[0])
        whitened[m] = np.vstack([Q[row] / np.sqrt(totals.n[i]), slopes[i]])
        mean_residual[m] = float(residual[row] / np.sqrt(totals.n[i]))
    return Fit(form, cells, theta, R, whitened, mean_residual, float(residual @ residual))
