"""Unique experts of a batch by formula: independent tokens, routed uniformly or by the popularity of experts.

With n tokens, each to top_k of E experts of a layer,

    uniform:      U = E (1 - (1 - top_k/E)^n)
    popularity:   U = Σ_e [1 - Π_t (1 - pi_te)^(n_t)]

where pi_te is the share of the tokens of tenant t that go to expert e. One tenant touches no more than the uniform
formula says (Jensen); tenants in equal parts touch no fewer than their mean alone (means of products). Several tenants
may touch more than the uniform formula says. Real tokens of one request are not independent: they repeat experts.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray


def uniform_unique_experts(tokens: ArrayLike, num_experts: int, top_k: int) -> NDArray[np.float64]:
    """Unique experts of a layer that so many independent, uniformly routed tokens touch."""
    n = np.asarray(tokens, dtype=np.float64)
    return np.asarray(
        -num_experts * np.expm1(n * np.log1p(-top_k / num_experts))
        if top_k < num_experts
        else np.where(n > 0, float(num_experts), 0.0)
    )


def mixed_unique_experts(tokens: ArrayLike, popularity: NDArray[np.float64]) -> NDArray[np.float64]:
    """Unique experts, mean over layers, of independent tokens of several tenants.

    Parameters
    ----------
    tokens : (…, T)
        Tokens of each tenant; parts of tokens are allowed.
    popularity : (T, layers, E) float64
        pi, the share of a tenant's tokens that an expert gets.

    Returns
    -------
    (…,) float64
    """
    n = np.asarray(tokens, dtype=np.float64)
    with np.errstate(divide="ignore"):
        missed = np.log1p(-np.minimum(popularity, 1.0))  # -inf where every token goes
    total = np.zeros((*n.shape[:-1], *popularity.shape[1:]))
    for t in range(popularity.shape[0]):
        some = n[..., t, None, None]
        total = total + np.where(some > 0, some * np.where(some > 0, missed[t], 0.0), 0.0)
    return np.asarray(-np.expm1(total).sum(axis=-1).mean(axis=-1))
