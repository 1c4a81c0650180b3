"""Verification rounds drawn from known coefficients, for the tests of the latency model."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
from scipy.special import stdtrit

from oracle.latency.estimates import estimates_of
from oracle.latency.forms import verification_form
from oracle.latency.moments import moments_of
from oracle.latency.regression import fit_form
from oracle.rounds import Rounds

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


# ----- The published setting at its full size -------------------------------------------------------------------------
#
# From the source: alpha, beta0, c and the draft line below; 925,752 rounds over K = 1 … 10; 0.3 % zero timings; 0.27 %
# of draft times more than 1 ms off the line, with an R² of 0.61 a round; 14 categories; corr(U, L) = 0.03.
# Ours, since the source gives none: every distribution. They are chosen so that the standardised slopes of the source
# (U 0.20 at K = 1 to 0.93 at K = 10, L 0.96 to 0.31) come out about right:
#   U     mean 8 m^0.58, relative sd 0.10 (m/2)^0.28 (30 % of its variance between questions), a multiple of 1/48,
#         between 8 and min(8 m, 128); exactly 8 at m = 1
#   L     prompt of 50 … 600 tokens + a position that runs evenly through 200 … 1,800 tokens
#   noise of a pass 0.04 + 0.005 m ms, of a draft 0.03 ms, of a question (its level) 0.03 ms, all normal
#   rounds of a question: log-normal weights with sigma 0.8, the same questions at every K, K after K as the source ran
PUBLISHED_ALPHA = dict.fromkeys(range(1, 5), 0.081) | dict.fromkeys(range(5, 12), 0.266)
PUBLISHED_BETA0 = {1: 5.7} | BETA0  # no round at K = 0 in the source: 5.7 is ours
PUBLISHED_ROUNDS = 925_752
CATEGORIES = 14


def published_columns(
    rounds=PUBLISHED_ROUNDS,
    questions=300,
    seed=1,
    ks=tuple(range(1, 11)),
    *,
    heavy_tail=False,
    zero_share=0.0,
    question_ms=0.03,
    unequal=0.8,
):
    """Columns of `rounds` verification rounds as arrays (N,), with `question`, an index, in place of names.

    heavy_tail: 0.27 % of draft times and 0.5 % of passes lie far off. zero_share: of the records (the source: 0.003).
    question_ms: sd of the questions' own level. unequal: sigma of the log-normal weights of the questions.

    The same questions recur at every K, so errors of all alpha(m) go together: with seed 0, one of those draws in
    twenty, levels of questions and their U happen to correlate, and nine of 21 intervals miss at the full size.
    """
    rng = np.random.default_rng(seed)
    prompt, spread = rng.integers(50, 600, questions), rng.integers(200, 1800, questions)
    level, taste = rng.normal(0, question_ms, questions), rng.normal(0, 1, questions)
    weight = rng.lognormal(0, unequal, questions)
    sizes = np.stack([_shared_out(n, weight) for n in _shared_out(rounds, np.ones(len(ks)))])  # (len(ks), questions)
    cell = np.repeat(np.arange(sizes.size), sizes.ravel())
    k, question = np.asarray(ks)[cell // questions], cell % questions
    first = np.cumsum(sizes.ravel()) - sizes.ravel()
    along = (np.arange(rounds) - first[cell]) / sizes.ravel()[cell]
    m = k + 1

    position = np.floor(along * spread[question])
    L = prompt[question] + position
    z = np.sqrt(0.3) * taste[question] + np.sqrt(0.7) * rng.standard_normal(rounds)
    z += 0.03 * (L - L.mean()) / L.std()
    by_m = np.arange(max(ks) + 2)
    mean, sd = 8 * by_m**0.58, 0.8 * by_m**0.58 * (by_m / 2) ** 0.28
    sd[1] = 0.0
    U = np.round(np.clip(mean[m] + sd[m] * z, 8, np.minimum(8 * m, 128)) * 48) / 48

    alpha, beta0 = (np.array([0, *(d[i] for i in by_m[1:])]) for d in (PUBLISHED_ALPHA, PUBLISHED_BETA0))
    noise = (0.04 + 0.005 * m) * rng.standard_normal(rounds)
    late = 0.03 * rng.standard_normal(rounds)
    if heavy_tail:
        noise[rng.random(rounds) < 0.005] *= 8
        far = rng.random(rounds) < 0.0027
        late[far] += 1 + rng.exponential(14, int(far.sum()))
    target = beta0[m] + alpha[m] * U + CONTEXT * L + level[question] + noise
    draft = np.where(k > 0, DRAFT_A * k + DRAFT_B + late, 0.0)
    if zero_share:
        lost = rng.random(rounds) < zero_share
        which = rng.random(rounds) < 0.5
        target[lost & which] = 0.0
        draft[lost & ~which] = 0.0
    buckets = np.array([1, 2, 4, 8, 16, 32])
    return {
        "question": question,
        "draft_length": k,
        "target_ms": target,
        "draft_ms": draft,
        "unique_experts": U,
        "context_len": L,
        "max_unique_experts": np.ceil(U * 1.2 + 0.5 * np.abs(rng.standard_normal(rounds))),
        "kv_usage": np.ceil(L / 16) * 16 / 40_960,
        "graph_bucket": buckets[np.searchsorted(buckets, m)],
        "position": position,
        "round_index": np.arange(rounds),
    }


def _shared_out(total, weight):
    """Whole numbers that sum to `total`, at least 1 each, as close to the weights as rounding allows."""
    ideal = weight / weight.sum() * (total - len(weight))
    whole = np.floor(ideal).astype(np.int64)
    left = total - len(weight) - int(whole.sum())
    whole[np.argsort(whole - ideal, kind="stable")[:left]] += 1
    return whole + 1


def published_rounds(rounds=PUBLISHED_ROUNDS, questions=300, **options):
    """The same as `Rounds`, with generations, clusters (questions) and categories."""
    columns = published_columns(rounds, questions, **options)
    question, k = columns.pop("question"), columns["draft_length"]
    ks = np.unique(k)
    names = [f"q{q:04d}" for q in range(questions)]
    generations = [f"{name}-k{one}" for one in ks for name in names]
    kinds = [f"kind-{c:02d}" for c in range(CATEGORIES)]
    named = {
        "generation": (np.searchsorted(ks, k) * questions + question, generations),
        "cluster": (question, names),
        "category": (question % CATEGORIES, kinds),
    }
    table = {
        name: pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), pa.array(values))
        for name, (codes, values) in named.items()
    }
    return Rounds.from_arrow(
        pa.table(table | {name: pa.array(values) for name, values in columns.items()}), "simulated"
    )


def published_moments(rounds, questions, **options):
    """Moments of unique_experts, context_len, target_ms by (question, m), without a table in between."""
    columns = published_columns(rounds, questions, **options)
    names = ("unique_experts", "context_len", "target_ms")
    clusters = tuple(f"q{q:04d}" for q in range(questions))
    m, question = columns["draft_length"] + 1, columns["question"]
    return moments_of(names, [columns[name] for name in names], m=m, cluster=question, clusters=clusters)


def coverage(simulations, rounds=4000, questions=39, *, ks=(1, 3, 5, 10), first_seed=0, **options):
    """Share of 95 % intervals for alpha(m) and c that hold the truth: (CR3, CR1, number of intervals).

    2,000 simulations of 1,500 rounds take about 6 s on one core and give each share to 0.3 percentage points.
    """
    inside3, inside1, count = 0, 0, 0
    for seed in range(first_seed, first_seed + simulations):
        moments = published_moments(rounds, questions, ks=ks, seed=seed, **options)
        chosen = verification_form(moments.by_m(), "joint")
        estimates = estimates_of(fit_form(moments, chosen.form), chosen.names, chosen.report)
        true = {f"alpha_ms_per_expert[{k + 1}]": PUBLISHED_ALPHA[k + 1] for k in ks} | {"context_ms_per_token": CONTEXT}
        quantile = stdtrit(questions - 1, 0.975)
        for name, value in true.items():
            estimate = estimates[name]
            inside3 += estimate.low <= value <= estimate.high
            inside1 += abs(estimate.value - value) <= quantile * estimate.error_cr1
            count += 1
    return inside3 / count, inside1 / count, count


def executed(draft_length, anchor, cluster, *, drift_ms, seed=0, noise_ms=0.1, k_after_k=False):
    """Rounds of a plan as a machine that drifts by ± `drift_ms` would have timed them, published coefficients.

    draft_length, anchor: (N,) in the planned order. cluster: name of each round's cluster. k_after_k: the same rounds,
    but timed in the order of their draft length.
    """
    rng = np.random.default_rng(seed)
    m, N = np.asarray(draft_length) + 1, len(draft_length)
    taste = rng.standard_normal(int(np.max(anchor)) + 1)[anchor]
    mean = 8 * m**0.58
    U = np.where(m > 1, np.clip(mean * (1 + 0.1 * (0.5 * taste + rng.standard_normal(N))), 8, 8 * m), 8.0)
    L = 200 + 3 * np.asarray(anchor) % 900
    when = np.linspace(0, 1, N)
    if k_after_k:
        turn = np.empty(N, dtype=np.int64)
        turn[np.argsort(draft_length, kind="stable")] = np.arange(N)
        when = when[turn]
    drift = drift_ms * np.sin(2 * np.pi * 0.8 * when)
    alpha, beta0 = (np.array([d[one] for one in m.tolist()]) for d in (PUBLISHED_ALPHA, PUBLISHED_BETA0))
    target = beta0 + alpha * U + CONTEXT * L + drift + noise_ms * rng.standard_normal(N)
    frame = pd.DataFrame(
        {
            "generation": cluster,
            "draft_length": draft_length,
            "target_ms": target,
            "draft_ms": np.where(m > 1, DRAFT_A * (m - 1) + DRAFT_B, 0.0),
            "unique_experts": U,
            "context_len": L,
        }
    )
    return Rounds.from_pandas(frame)
