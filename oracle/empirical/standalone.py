"""Match probabilities from a draft that scores the target's text alone, without drafting.

Given the tokens of the target, a server of the draft reports how probable each was to it. That is the chance that a
draft token *sampled* at the true prefix equals the target's token (match_kind reference), or, where the draft proposes
its most probable token, whether it would have matched (greedy). Sampled decoding accepts with probability Σ min(p, q),
which needs both distributions whole; from the few most probable tokens of each only bounds follow.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from oracle.errors import InputError

_ROUNDING = 1e-4  # of a probability that a server rounded before it took the logarithm
Top = Mapping[int, float]


def probabilities_of(logprobs: NDArray[np.float64], place: str) -> NDArray[np.float32]:
    """Probabilities from natural logarithms, (N,).

    Raises
    ------
    InputError
        One that is missing, or above 0.
    """
    bad = ~(logprobs <= _ROUNDING)  # a NaN fails the comparison
    if bad.any():
        t = int(np.argmax(bad))
        what = "missing" if np.isnan(logprobs[t]) else f"{logprobs[t]:g}"
        raise InputError(
            f"{place}, position {t}: the log-probability is {what}; natural logarithms of probabilities are at most "
            "0: were probabilities recorded?"
        )
    return np.minimum(np.exp(logprobs), 1.0).astype(np.float32)


def overlap_bounds(target: Top, draft: Top) -> tuple[float, float]:
    """Bounds of Σ min(p, q) from the most probable tokens of both distributions.

    Parameters
    ----------
    target, draft
        Probability by token id: of the tokens listed, the most probable of each distribution.

    Returns
    -------
    low, high
        low counts the tokens that both list. A token that only one lists adds at most the smallest probability the
        other lists, and all of those together no more than the other has left; what neither lists adds at most what
        both have left. Exact where both lists are whole.
    """
    both = sum(min(p, draft[token]) for token, p in target.items() if token in draft)
    left_p, left_q = max(0.0, 1 - sum(target.values())), max(0.0, 1 - sum(draft.values()))
    least_p, least_q = min(target.values(), default=1.0), min(draft.values(), default=1.0)
    only_target = min(left_q, sum(min(p, least_q) for token, p in target.items() if token not in draft))
    only_draft = min(left_p, sum(min(q, least_p) for token, q in draft.items() if token not in target))
    neither = min(left_q - only_target, left_p - only_draft)
    return min(both, 1.0), min(both + only_target + only_draft + neither, 1.0)
