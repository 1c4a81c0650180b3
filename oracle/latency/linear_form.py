"""Linear forms: how parameters act at each m, and the residuals they leave, from moments.

T = (1, x') A_m theta, where x are the regressors (U, L, ...). With dummies, slopes for each m, one shared slope, or k
itself as a regressor, only the matrices A_m differ, so one routine fits them all.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from oracle.latency.moments import Floats, Moments


@dataclass(frozen=True)
class LinearForm:
    """How the parameters act at each m.

    Parameters
    ----------
    regressors, response
        Names of variables in the moments: X regressors and the explained time.
    parameters
        P names.
    matrices
        m -> (1 + X, P) float64; row 0 is what the parameters add to the intercept, row i to the slope of regressor i.
    """

    regressors: tuple[str, ...]
    response: str
    parameters: tuple[str, ...]
    matrices: Mapping[int, Floats]

    def coefficients(self, theta: Floats) -> dict[int, Floats]:
        """Intercept and slopes at each m, (1 + X,) each."""
        return {m: np.asarray(matrix @ theta) for m, matrix in self.matrices.items()}


def square_roots(comoment: Floats) -> Floats:
    """Upper triangular F with F'F = comoment for a stack of (C, V, V) positive semidefinite matrices.

    A variable that the earlier ones explain to the last digit gives a zero row (plain Cholesky would fail).
    """
    left = comoment.copy()
    width = comoment.shape[1]
    roots = np.zeros_like(left)
    floor = 4 * width * np.finfo(np.float64).eps * np.diagonal(comoment, axis1=1, axis2=2)
    for j in range(width):
        pivot = left[:, j, j]
        usable = pivot > floor[:, j]
        row = np.where(usable[:, None], left[:, j, :], 0.0) / np.sqrt(np.where(usable, pivot, 1.0))[:, None]
        row[:, :j] = 0.0
        roots[:, j, :] = row
        left -= row[:, :, None] * row[:, None, :]
    return roots


def residual_sums(
    cells: Moments, regressors: tuple[str, ...], response: str, coefficients: Mapping[int, Floats]
) -> Floats:
    """Sum of squared residuals of every cell, (C,), under given coefficients; NaN where an m has none."""
    picked = cells.of((*regressors, response))
    roots = square_roots(picked.comoment)
    sums = np.full(len(picked.n), np.nan)
    mean = picked.mean
    for m, beta in coefficients.items():
        at = picked.m == m
        across = np.append(-beta[1:], 1.0)
        within = ((roots[at] @ across) ** 2).sum(axis=1)
        sums[at] = within + picked.n[at] * (mean[at] @ across - beta[0]) ** 2
    return sums
