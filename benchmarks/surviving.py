"""Contests of the survival kernels: from one match probability a position, and from one a depth."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from oracle.columns import frozen

from . import needs, numpy_rivals, rivals
from .contests import Bout, Contest, Rival
from .inputs import K, match_probabilities, offsets_of

GROUP = "survival"


def contests(generations: int) -> Iterator[Contest]:
    """Both kernels beside NumPy."""
    from kernels.survival import survival_along, survival_by_depth  # noqa: PLC0415

    rng = np.random.default_rng(5)
    offsets = offsets_of(generations)
    n = int(offsets[-1])
    along = match_probabilities(rng, n)
    by_depth = frozen(match_probabilities(rng, n * K).reshape(n, K))
    survival, to_end = np.empty((n, K)), np.empty(n)

    def ours_along() -> None:
        survival_along(along, offsets, survival, to_end)

    def theirs_along() -> NDArray[np.float64]:
        return rivals.survival_in_numpy(along, generations, K)

    def ours_by_depth() -> None:
        survival_by_depth(by_depth, offsets, survival, to_end)

    def theirs_by_depth() -> NDArray[np.float64]:
        return numpy_rivals.survival_by_depth(by_depth, generations)

    def check_along() -> None:
        ours_along()
        np.testing.assert_array_equal(theirs_along(), survival)

    def check_by_depth() -> None:
        ours_by_depth()
        np.testing.assert_array_equal(theirs_by_depth(), survival)

    yield Contest(
        name="survival_along",
        what=f"one match probability a position, K = {K}",
        needs=needs.survival_along(K),
        bouts=(Bout(n, ours_along, {"NumPy": Rival(theirs_along, check_along, "products over a sliding window")}),),
    )
    yield Contest(
        name="survival_by_depth",
        what=f"one match probability a depth, K = {K}",
        needs=needs.survival_by_depth(K),
        bouts=(Bout(n, ours_by_depth, {"NumPy": Rival(theirs_by_depth, check_by_depth, "cumulative products")}),),
    )
