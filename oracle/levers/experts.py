"""Experts that a pass reads, where the deployment states that it serves a mixture.

Of n tokens, each to k of E experts of a layer, uniformly and independently, some go to a share 1 - (1 - k/E)^n of the
experts. With N_read parameters read by a full batch, X of them in experts, a pass over n positions reads

    N_read - X (1 - k/E)^n.

The source's model reads N_read in every pass; `reads_grow` takes the line above instead, in a step (n = B) as in a
round (n = B (g + 1)). A round then reads more than a step unless the batch alone hits all experts.
"""

import math
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oracle.levers.deployment import Deployment

MOST_HIT = 0.9  # share of the experts from which on the rest is taken as small


def missed_share(deployment: Deployment, tokens: ArrayLike) -> NDArray[np.float64]:
    """Share of the experts that so many tokens leave out; 0 where no mixture is stated."""
    return np.asarray(np.exp(np.asarray(tokens, dtype=np.float64) * log_missed(deployment)))


def log_missed(deployment: Deployment) -> float:
    """Logarithm of the share of the experts that one token leaves out."""
    E, k = deployment.experts, deployment.experts_per_token
    return -math.inf if E is None or k is None or k >= E else math.log1p(-k / E)


def hit_share(deployment: Deployment, tokens: ArrayLike) -> NDArray[np.float64]:
    """Share of the experts that so many tokens, one or more, go to; 1 where no mixture is stated."""
    return np.asarray(1 - missed_share(deployment, tokens))


def left_out_share(deployment: Deployment) -> float:
    """Share of N_read that a pass can leave out: of the experts if reads grow with it, 0 if one token goes to all."""
    if not deployment.reads_grow or deployment.expert_parameters is None or math.isinf(log_missed(deployment)):
        return 0.0
    return deployment.expert_parameters / deployment.parameters_read


def read_share(deployment: Deployment, tokens: ArrayLike) -> NDArray[np.float64]:
    """Share of N_read that a pass over so many positions, one or more, reads."""
    most = left_out_share(deployment)
    return np.asarray(1 - most * missed_share(deployment, tokens)) if most else np.ones(np.shape(tokens))


def batch_hitting(deployment: Deployment, share: float = MOST_HIT) -> int | None:
    """Smallest batch size whose step without drafts goes to such a share of the experts.

    None where it makes no difference: no mixture is stated, or reads grow with the pass.
    """
    if deployment.experts is None or deployment.reads_grow:
        return None
    return max(1, math.ceil(math.log1p(-share) / log_missed(deployment)))


def experts_counted(deployment: Deployment, batch: ArrayLike) -> Deployment | None:
    """Give the deployment with reads that grow where its own numbers call for it: some batch hits less than `MOST_HIT`.

    None where they do not: no mixture is stated, reads grow already, or every batch hits that share of the experts.
    """
    least = batch_hitting(deployment)
    few = least is not None and bool((np.asarray(batch) < least).any())
    return replace(deployment, reads_grow=True) if few else None
