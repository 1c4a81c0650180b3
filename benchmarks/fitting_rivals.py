"""What one would use instead of the moments: statsmodels and scikit-learn on the rows.

Errors come from statsmodels, everything that only needs coefficients or predictions from scikit-learn, whose least
squares takes a fifth of the time here.
"""

from collections.abc import Sequence
from functools import cached_property
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.latency.evidence import Evidence
from oracle.latency.forms import REGRESSORS, RESPONSE

STATSMODELS, SCIKIT_LEARN = "statsmodels", "scikit-learn"
_MODULES = {STATSMODELS: "statsmodels", SCIKIT_LEARN: "sklearn"}
FOLDS = 5

Floats = NDArray[np.float64]
Columns = tuple[str, ...]  # factors of a model with an intercept; "a * b" is their product


def installed(name: str) -> bool:
    """Say whether a rival is there."""
    return find_spec(_MODULES[name]) is not None


def _least_squares(X: Floats, y: Floats) -> Floats:
    from sklearn.linear_model import LinearRegression  # noqa: PLC0415

    return np.asarray(LinearRegression(fit_intercept=False).fit(X, y).coef_, dtype=np.float64)


class OnRows:
    """Rounds as rows of design matrices.

    Parameters
    ----------
    evidence
        Where the columns come from.
    """

    def __init__(self, evidence: Evidence) -> None:
        self.columns, self.cluster, self.category = evidence.columns, evidence.cluster, evidence.category
        self.m, self.target = evidence.m, evidence.columns[RESPONSE]
        self.ms = evidence.moments.ms

    def joint_design(self) -> Floats:
        """Levels and slopes of U at every m, one slope of L; (N, 2 M + 1)."""
        dummies = (self.m[:, None] == np.array(self.ms)).astype(np.float64)
        experts, context = (self.columns[name] for name in REGRESSORS)
        return np.column_stack([dummies, dummies * experts[:, None], context])

    @cached_property
    def joint(self) -> Floats:
        """The same, built once for all refits."""
        return self.joint_design()

    @cached_property
    def splits(self) -> list[tuple[NDArray[Any], NDArray[Any]]]:
        """Training and test rows of each fold."""
        from sklearn.model_selection import GroupKFold  # noqa: PLC0415

        return list(GroupKFold(FOLDS).split(self.target, groups=self.cluster))

    @cached_property
    def rows_of_cluster(self) -> list[NDArray[np.int64]]:
        """Rows of each cluster, for resampling."""
        order = np.argsort(self.cluster, kind="stable")
        return np.split(order, np.cumsum(np.bincount(self.cluster))[:-1])

    def cr1(self) -> Floats:
        """Coefficients and CR1 errors of the joint form; (2, P)."""
        from statsmodels.api import OLS  # noqa: PLC0415

        model = OLS(self.target, self.joint_design())
        fit = model.fit(cov_type="cluster", cov_kwds={"groups": self.cluster})
        return np.stack([fit.params, fit.bse])

    def out_of_fold(self, models: Sequence[Columns], folds: int) -> Floats:
        """R² and RMSE of models with an intercept, and of the joint form last; (folds, models + 1, 2)."""
        from sklearn.linear_model import LinearRegression  # noqa: PLC0415
        from sklearn.metrics import r2_score, root_mean_squared_error  # noqa: PLC0415

        found = np.empty((folds, len(models) + 1, 2))
        for i, names in enumerate([*models, None]):
            X = self.joint if names is None else np.column_stack([self._product(name) for name in names])
            for f, (train, test) in enumerate(self.splits[:folds]):
                fit = LinearRegression(fit_intercept=names is not None).fit(X[train], self.target[train])
                predicted = fit.predict(X[test])
                found[f, i, 0] = r2_score(self.target[test], predicted)
                found[f, i, 1] = root_mean_squared_error(self.target[test], predicted)
        return found

    def _product(self, name: str) -> Floats:
        return np.asarray(np.prod([self.columns[each] for each in name.split(" * ")], axis=0), dtype=np.float64)

    def resampled(self, counts: Floats) -> Floats:
        """Refit the joint form to clusters drawn `counts` times, (B, G); (B, P)."""
        found = []
        for row in counts.astype(np.int64):
            drawn = np.repeat(np.arange(len(row)), row)
            rows = np.concatenate([self.rows_of_cluster[g] for g in drawn])
            found.append(_least_squares(self.joint[rows], self.target[rows]))
        return np.stack(found)

    def without_each(self, group: NDArray[np.int64], groups: int) -> Floats:
        """Refit the joint form without the rounds of group 0, 1, …; (groups, P)."""
        kept = [group != g for g in range(groups)]
        return np.stack([_least_squares(self.joint[rows], self.target[rows]) for rows in kept])

    def boundary(self, folds: int) -> Floats:
        """First m of the second regime and held-out RMSE, searched inside each training fold; (folds, 2)."""
        best = np.full((folds, 3), np.inf)  # training sum of squares, boundary, held-out RMSE
        for first in self.ms[1:]:
            X = self._two_regimes(first)
            for f, (train, test) in enumerate(self.splits[:folds]):
                theta = _least_squares(X[train], self.target[train])
                left = self.target[train] - X[train] @ theta
                if left @ left < best[f, 0]:
                    outside = self.target[test] - X[test] @ theta
                    best[f] = left @ left, first, np.sqrt(outside @ outside / len(test))
        return best[:, 1:]

    def _two_regimes(self, first: int) -> Floats:
        """Alpha and a line of beta0 for m < first and for m >= first, one slope of L."""
        experts, context = (self.columns[name] for name in REGRESSORS)
        columns = [context]
        for ms in ([m for m in self.ms if m < first], [m for m in self.ms if m >= first]):
            inside = ((self.m >= ms[0]) & (self.m <= ms[-1])).astype(np.float64)
            columns += [inside, inside * experts]
            if len(ms) > 1:
                columns.append(inside * self.m)
        return np.column_stack(columns)
