"""Prompt lookup: a drafter that needs no model proposes what followed the same n-gram earlier in the text."""

import numpy as np
from numpy.typing import NDArray

Tokens = NDArray[np.int64]


def proposals(text: Tokens, k: int, longest: int) -> Tokens:
    """Propose up to `k` tokens that may follow `text`.

    The last `longest` tokens are looked for, then one fewer, down to one; of several places the earliest counts. So do
    transformers (`prompt_lookup_num_tokens`) and vLLM (`ngram`); others take the latest.

    Parameters
    ----------
    text : (n,) int64
        The tokens in context.

    Returns
    -------
    (≤ k,) int64; empty where nothing is found.
    """
    for size in range(min(longest, len(text) - 1), 0, -1):
        windows = np.lib.stride_tricks.sliding_window_view(text, size)[:-1]  # the last one is the n-gram itself
        found = np.flatnonzero((windows == text[-size:]).all(axis=1))
        if len(found):
            begin = int(found[0]) + size
            return text[begin : begin + k]
    return text[:0]


def conditional(own: NDArray[np.bool_], first: NDArray[np.float32], chain: NDArray[np.float32]) -> NDArray[np.float32]:
    """Conditional match probabilities of a lookup, which depend on the depth from the anchor.

    As long as the chain agrees with the text, its own tokens count; once it does not, a round in which all earlier
    tokens matched would stand on another proposal, and the one made from that position is taken.

    Parameters
    ----------
    own : (N, K) bool
        Whether the first j tokens of the chain from t are those of the text, j = 0 … K-1 (so always at j = 0).
    first : (N,) float32
        Probability that the first token proposed at a position matches; 0 where nothing is proposed.
    chain : (N, K) float32
        Probability that token j of the chain from t matches the text there; 0 where there is none.

    Returns
    -------
    (N, K) float32, `match_probs`; 0 beyond the end of the text.
    """
    count, depth = chain.shape
    padded = np.concatenate([first, np.zeros(depth, np.float32)])
    elsewhere = np.lib.stride_tricks.sliding_window_view(padded, depth)[:count]
    return np.where(own, chain, elsewhere).astype(np.float32)
