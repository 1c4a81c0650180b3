"""The same numbers from statsmodels and scikit-learn, refitted on the rows, for the tests of the diagnostics."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import statsmodels.api as sm
from latency_simulation import simulated
from scipy import stats
from sklearn.metrics import mean_absolute_percentage_error, r2_score, root_mean_squared_error
from sklearn.model_selection import GroupKFold

from oracle.latency.evidence import gather_evidence
from oracle.rounds import Rounds

TINY_MOE = Path(__file__).parents[1] / "cases" / "tiny-moe"


def recorded(name="rounds"):
    """Recorded rounds of the small trained model."""
    return pd.read_parquet(TINY_MOE / f"{name}.parquet")


def with_factors(frame, seed=1):
    """Add the optional factors of the source."""
    rng = np.random.default_rng(seed)
    m = frame["draft_length"] + 1
    return frame.assign(
        kv_usage=frame["context_len"] / 40_000 + rng.normal(0, 0.002, len(frame)),
        graph_bucket=np.select([m <= 2, m <= 4, m <= 8], [2, 4, 8], 16),
        max_unique_experts=np.round(frame["unique_experts"] + np.abs(rng.normal(0, 4, len(frame)))),
    )


def evidence_of(frame, **options):
    return gather_evidence(Rounds.from_pandas(frame), **options)


def drawn(rounds_per_k=150, questions=12, seed=0, **options):
    """Simulated rounds with every factor."""
    return with_factors(simulated(rounds_per_k=rounds_per_k, questions=questions, seed=seed, **options))


def column(frame, name):
    values = frame["draft_length"] + 1 if name == "verified_positions" else frame[name]
    return values.to_numpy(dtype=np.float64)


def designed(frame, *names):
    """Intercept and named columns."""
    return np.column_stack([np.ones(len(frame)), *(column(frame, name) for name in names)])


def held_out(frame, design, rows=None):
    """Metrics of an OLS refitted for each fold; `rows` restricts what is scored."""
    y = column(frame, "target_ms")
    groups = pd.factorize(frame["cluster"], sort=True)[0]
    found = SimpleNamespace(r2=[], rmse=[], mape=[], predicted=np.full(len(frame), np.nan))
    for train, test in GroupKFold(5).split(design, y, groups):
        found.predicted[test] = design[test] @ sm.OLS(y[train], design[train]).fit().params
        scored = test if rows is None else test[rows[test]]
        found.r2.append(r2_score(y[scored], found.predicted[scored]) if len(scored) > 1 else np.nan)
        found.rmse.append(root_mean_squared_error(y[scored], found.predicted[scored]))
        found.mape.append(100 * mean_absolute_percentage_error(y[scored], found.predicted[scored]))
    return SimpleNamespace(**{k: np.array(v) for k, v in vars(found).items()})


def summary(values):
    """Mean and t interval over folds."""
    low, high = stats.t.interval(0.95, len(values) - 1, np.mean(values), stats.sem(values))
    return [np.mean(values), low, high]


def numbers(over_folds):
    return [over_folds.mean, over_folds.low, over_folds.high]


def clustered(y, design, cluster):
    """OLS with CR1 errors, and CR3 from its definition."""
    codes = pd.factorize(cluster)[0]
    fit = sm.OLS(y, design).fit(cov_type="cluster", cov_kwds={"groups": codes})
    G = codes.max() + 1
    moved = [sm.OLS(y[codes != g], design[codes != g]).fit().params - fit.params for g in range(G)]
    return fit, (G - 1) / G * np.array(moved).T @ np.array(moved)
