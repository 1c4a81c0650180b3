"""Verification rounds drawn from known coefficients, for the tests of the latency model."""

from types import SimpleNamespace

import numpy as np
import pandas as pd

# The source's published coefficients: alpha 0.078 ... 0.084 up to m = 4, 0.264 ... 0.268 from m = 5 on.
ALPHA = {2: 0.078, 3: 0.081, 4: 0.084, 5: 0.264, 6: 0.265, 7: 0.266, 8: 0.266, 9: 0.267, 10: 0.268, 11: 0.268}
BETA0 = {2: 7.3, 3: 8.9, 4: 10.5} | dict.fromkeys(range(5, 12), 4.7)
CONTEXT = 1.1e-3
DRAFT_A, DRAFT_B = 0.459, 0.073


def simulated(rounds_per_k=400, questions=40, seed=0, ks=range(1, 11), noise_ms=0.15):
    """Rounds of the source's setting: every question decoded once at each k, questions of unequal length."""
    rng = np.random.default_rng(seed)
    level = rng.normal(0, 0.03, questions)
    frames = []
    for k in ks:
        question = np.sort(rng.choice(questions, rounds_per_k, p=rng.dirichlet(np.full(questions, 2.0))))
        m = k + 1
        experts = 128 * (1 - (1 - 8 / 128) ** m) * 0.75 + 2
        U = np.round((experts * (1 + rng.normal(0, 0.08, rounds_per_k))) * 48) / 48
        L = rng.integers(100, 3000, questions)[question] + np.arange(rounds_per_k) % 200
        target = BETA0[m] + ALPHA[m] * U + CONTEXT * L + level[question] + rng.normal(0, noise_ms, rounds_per_k)
        draft = DRAFT_A * k + DRAFT_B + rng.normal(0, 0.03, rounds_per_k)
        frames.append(
            pd.DataFrame(
                {
                    "generation": [f"q{q:03d}-k{k}" for q in question],
                    "cluster": [f"q{q:03d}" for q in question],
                    "draft_length": k,
                    "target_ms": target,
                    "draft_ms": draft,
                    "unique_experts": U,
                    "context_len": L,
                }
            )
        )
    return pd.concat(frames, ignore_index=True)


def close(ours, referee, error=0.0):
    """Agreement to 1e-9 of the value or its error, whichever is larger."""
    ours, referee = np.asarray(ours, dtype=float), np.asarray(referee, dtype=float)
    assert ours.shape == referee.shape
    return bool((np.abs(ours - referee) <= 1e-9 * np.maximum(np.abs(referee), error)).all())


def arrays(frame):
    """The columns of a frame of rounds as the moments take them."""
    clusters, codes = np.unique(frame["cluster"].to_numpy(dtype=object).astype(str), return_inverse=True)
    return SimpleNamespace(
        columns=[frame[c].to_numpy(dtype=np.float64) for c in ("unique_experts", "context_len", "target_ms")],
        m=frame["draft_length"].to_numpy(dtype=np.int64) + 1,
        cluster=codes.astype(np.int64),
        clusters=tuple(clusters.tolist()),
    )
