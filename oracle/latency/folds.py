"""Folds of clusters for held-out metrics: all rounds of a cluster fall into the same fold."""

import numpy as np

from oracle.errors import InputError
from oracle.latency.moments import Integers


def fold_of_cluster(sizes: Integers, folds: int) -> Integers:
    """Spread clusters over folds, the largest first, each into the lightest fold.

    This is the assignment of scikit-learn's ``GroupKFold`` without shuffling when clusters are in sorted order: of
    equal sizes the last cluster comes first, of equally light folds the first is filled.

    Parameters
    ----------
    sizes
        (G,) int64, rounds of each cluster, clusters sorted by name.
    folds
        How many folds, from 2 to the number of clusters that have rounds.

    Returns
    -------
    (G,) int64, the fold of each cluster.

    Raises
    ------
    InputError
        Fewer than two folds, or more folds than clusters with rounds.
    """
    occupied = int(np.count_nonzero(sizes))
    if folds < 2:
        raise InputError(f"folds is {folds}; held-out metrics need at least 2 folds")
    if folds > occupied:
        raise InputError(
            f"folds is {folds}, but only {occupied} clusters have rounds; a fold holds at least one cluster: use "
            "at most "
            f"{occupied} folds or record more generations"
        )
    order = np.argsort(sizes, kind="stable")[::-1]
    fold = np.zeros(len(sizes), dtype=np.int64)
    load = np.zeros(folds, dtype=np.int64)
    for cluster in order:
        lightest = int(load.argmin())
        load[lightest] += sizes[cluster]
        fold[cluster] = lightest
    return fold
