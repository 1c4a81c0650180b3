"""What requests in a batch are like: the experts they touch together, what they accept, how long their contexts are."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oracle.columns import frozen
from oracle.crossover.formulas import uniform_unique_experts
from oracle.crossover.unique_experts import BatchExperts
from oracle.crossover.windows import Windows
from oracle.errors import Faults, InputError


@dataclass(frozen=True)
class Traffic:
    """Means over rounds of each static draft length, and the same without each group of clusters.

    Attributes
    ----------
    unique_experts : (B, K + 1) float64
        Of batches of 1 … B requests, mean per MoE layer.
    mean_length : (K + 1,) float64
        Tokens a round of one request emits, the bonus token included.
    context_len : (K + 1,) float64, tokens
    left_out_experts : (C, B, K + 1) float64
    left_out_length, left_out_context : (C, K + 1) float64
        C is 0 where nothing can be left out.
    num_experts
        Experts of a layer: more than that cannot be touched; 0 for a dense target.
    distinct_to
        Largest batch size up to which no batch holds a cluster twice; None by formula.
    clusters
        How many clusters it was recorded from; None by formula.
    """

    unique_experts: NDArray[np.float64]
    mean_length: NDArray[np.float64]
    context_len: NDArray[np.float64]
    left_out_experts: NDArray[np.float64]
    left_out_length: NDArray[np.float64]
    left_out_context: NDArray[np.float64]
    num_experts: int
    distinct_to: int | None
    clusters: int | None = None

    @property
    def most(self) -> int:
        """The largest batch size."""
        return len(self.unique_experts)


def by_formula(
    mean_length: NDArray[np.float64],
    context_len: float,
    *,
    num_experts: int,
    top_k: int,
    most: int,
    overlap: float = 0.0,
) -> Traffic:
    """Traffic without traces: independent tokens, uniform routing.

    Parameters
    ----------
    mean_length : (K + 1,) float64
        Mean acceptance length by draft length; see `equal_match_lengths`.
    overlap
        Share of the further rows of a request that touch no expert its first row does not: U is that of
        B (1 + (m - 1)(1 - overlap)) independent tokens.

    Raises
    ------
    InputError
        All faults of the values.
    """
    faults = Faults()
    if not 0 <= overlap <= 1:
        faults.add(f"overlap is {overlap:g}; it is a share and lies in [0, 1]")
    if not (np.isfinite(context_len) and context_len >= 0):
        faults.add(f"context_len is {context_len:g}; it is a finite number of tokens, at least 0")
    if not 0 <= top_k <= num_experts or (num_experts > 0 and top_k == 0):
        faults.add(
            f"top_k is {top_k} and num_experts {num_experts}; a token goes to 1 … num_experts experts of a layer"
        )
    faults.raise_if_any()
    k_max = len(mean_length) - 1
    k = np.arange(k_max + 1)
    tokens = np.arange(1, most + 1)[:, None] * (1 + k * (1 - overlap))
    U = uniform_unique_experts(tokens, num_experts, top_k) if num_experts else np.zeros(tokens.shape)
    return Traffic(
        frozen(U),
        mean_length=frozen(np.asarray(mean_length, np.float64)),
        context_len=frozen(np.full(k_max + 1, float(context_len))),
        left_out_experts=np.zeros((0, most, k_max + 1)),
        left_out_length=np.zeros((0, k_max + 1)),
        left_out_context=np.zeros((0, k_max + 1)),
        num_experts=num_experts,
        distinct_to=None,
    )


def equal_match_lengths(match_prob: float, k_max: int) -> NDArray[np.float64]:
    """Mean acceptance length of K = 0 … k_max where every draft token matches with one probability: (K + 1,).

    Raises
    ------
    InputError
        A probability out of range.
    """
    if not 0 <= match_prob <= 1:
        raise InputError(f"the match probability is {match_prob:g}; a probability lies in [0, 1]")
    return np.asarray(np.cumsum(match_prob ** np.arange(k_max + 1.0)))


def from_windows(windows: Windows, experts: BatchExperts, groups: NDArray[np.int32]) -> Traffic:
    """Traffic as recorded.

    Parameters
    ----------
    groups : (G,) int32
        The groups that were left out of `experts`.
    """
    count = len(experts.left_out)
    sums = np.stack([windows.rounds, windows.tokens, windows.context], axis=1)
    whole = sums.sum(axis=0)
    left = np.zeros((count, *whole.shape))
    if count:
        np.add.at(left, groups, sums)
        left = whole - left
    with np.errstate(divide="ignore", invalid="ignore"):
        return Traffic(
            experts.mean,
            mean_length=frozen(whole[1] / whole[0]),
            context_len=frozen(whole[2] / whole[0]),
            left_out_experts=experts.left_out,
            left_out_length=frozen(left[:, 1] / left[:, 0]),
            left_out_context=frozen(left[:, 2] / left[:, 0]),
            num_experts=windows.num_experts,
            distinct_to=experts.distinct_to,
            clusters=windows.clusters,
        )
