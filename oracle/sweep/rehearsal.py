"""A simulated execution of a plan on a machine that drifts: whether alpha comes back, and what the order is for.

Times are ``level(m) + alpha(m) U + noise``. The noise of a round has the planned residual standard deviation; a share
of its variance is drift over the run (a trend and three slow waves), so recorded neighbours err alike. U varies between
clusters and between anchors. The truth is known, so the plan's intervals can be checked; the same rounds timed K after
K on the same machine show what interleaving is for. Distributions are normal, and ours.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from oracle.latency.estimates import Estimate, estimates_of
from oracle.latency.forms import REGRESSORS, RESPONSE, verification_form
from oracle.latency.moments import Floats, Integers, moments_of
from oracle.latency.regression import fit_form
from oracle.sweep.needs import Spread
from oracle.sweep.order import Order

DRIFT_SHARE = 0.6  # of the residual variance; 63 % was measured on recorded rounds of a small model
BETWEEN_CLUSTERS = 0.3  # share of the variance of U
NOMINAL_ALPHA = 0.1  # ms per expert without a pilot; the error of least squares does not depend on it


@dataclass(frozen=True)
class RehearsedAlpha:
    """alpha of one draft length in the rehearsal.

    Parameters
    ----------
    k
        Draft length.
    truth_ms_per_expert, estimate
        What was put in, and what came back; None where U does not vary.
    level_error_ms, level_error_k_after_k_ms
        Error of the pass at mean U, about its mean over k: with the planned order, and timed K after K.
    """

    k: int
    truth_ms_per_expert: float | None
    estimate: Estimate | None
    level_error_ms: float
    level_error_k_after_k_ms: float

    @property
    def inside(self) -> bool | None:
        """Whether the interval holds the truth."""
        if self.estimate is None or self.truth_ms_per_expert is None or self.estimate.low is None:
            return None
        assert self.estimate.high is not None
        return self.estimate.low <= self.truth_ms_per_expert <= self.estimate.high


def rehearse(order: Order, spreads: Sequence[Spread], clusters: Integers, seed: int) -> tuple[RehearsedAlpha, ...]:
    """Simulate a plan and fit what it would have recorded.

    Parameters
    ----------
    spreads
        Of each draft length in the plan.
    clusters
        (A,) int64, cluster of each anchor, numbered from 0.
    """
    rng = np.random.default_rng(seed)
    by_k = {spread.m - 1: spread for spread in spreads}
    k, N, G = order.draft_length, len(order.draft_length), int(clusters.max()) + 1
    at = np.searchsorted(list(by_k), k)
    sd, mean, residual = (
        np.array([getattr(spread, name) for spread in spreads])[at]
        for name in ("experts_sd", "mean_experts", "residual_ms")
    )
    truth = np.array([NOMINAL_ALPHA if s.alpha_ms_per_expert is None else s.alpha_ms_per_expert for s in spreads])
    cluster = clusters[order.anchor]
    taste = rng.standard_normal(G)[cluster] * np.sqrt(BETWEEN_CLUSTERS)
    own = rng.standard_normal((len(clusters), len(spreads)))[order.anchor, at]
    U = mean + sd * (taste + np.sqrt(1 - BETWEEN_CLUSTERS) * own)
    noise = residual * np.sqrt(1 - DRIFT_SHARE) * rng.standard_normal(N)
    drift = np.sqrt(DRIFT_SHARE) * _drift(N, rng)
    in_turn = np.empty(N, dtype=np.int64)
    in_turn[np.argsort(k, kind="stable")] = np.arange(N)  # when each round would come, K after K
    varied = [spread.experts_sd > 0 for spread in spreads]
    planned = _fitted(k + 1, cluster, U, truth[at] * U + noise + residual * drift, G) if any(varied) else {}
    levels, levels_in_turn = (_levels(k, noise + residual * when) for when in (drift, drift[in_turn]))
    return tuple(
        RehearsedAlpha(
            one,
            float(truth[i]) if varied[i] else None,
            planned.get(one + 1) if varied[i] else None,
            float(levels[i]),
            float(levels_in_turn[i]),
        )
        for i, one in enumerate(by_k)
    )


def _drift(N: int, rng: np.random.Generator) -> Floats:
    """(N,) slow drift over the run, mean 0 and variance 1."""
    t = np.linspace(0, 1, N)
    wave = np.sin(2 * np.pi * (3 * t + rng.random()))
    drift = np.sqrt(12) * (t - 0.5) + np.sqrt(2) * wave
    return np.asarray((drift - drift.mean()) / max(float(drift.std()), 1e-300))


def _levels(k: Integers, off: Floats) -> Floats:
    """Mean error of each k, about the mean over k."""
    means = np.array([off[k == one].mean() for one in np.unique(k)])
    return np.asarray(means - means.mean())


def _fitted(m: Integers, cluster: Integers, U: Floats, T: Floats, G: int) -> dict[int, Estimate]:
    """Fit the simulated rounds as recorded ones are fitted; alpha of each m."""
    names = tuple(f"{g:09d}" for g in range(G))
    moments = moments_of((*REGRESSORS, RESPONSE), [U, np.zeros(len(U)), T], m=m, cluster=cluster, clusters=names)
    chosen = verification_form(moments.by_m(), "joint")
    estimates = estimates_of(fit_form(moments, chosen.form), chosen.names, chosen.report)
    return {one: estimates[f"alpha_ms_per_expert[{one}]"] for one in chosen.ms}
