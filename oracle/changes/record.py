"""What the record of a fit tells about the rounds behind each length."""

import numpy as np
from numpy.typing import NDArray

from oracle.latency.model import LatencyModel


def recorded(model: LatencyModel, what: str, k_max: int) -> NDArray[np.float64]:
    """One number of ``fit.per_m`` by draft length, as `mean_unique_experts`, `mean_context_len` or `rounds`.

    Returns
    -------
    (K + 1,) float64
        NaN where the model file does not tell it.
    """
    rows = (model.fit or {}).get("per_m")
    found = np.full(k_max + 1, np.nan)
    for row in rows if isinstance(rows, list) else []:
        if isinstance(row, dict) and isinstance(row.get("m"), int) and 1 <= row["m"] <= k_max + 1:
            value = row.get(what)
            found[row["m"] - 1] = value if isinstance(value, int | float) else np.nan
    return found


def borrowed(model: LatencyModel, k_max: int) -> dict[int, str]:
    """The draft lengths whose alpha was not measured, and where it comes from, as ``borrowed from m = 2``."""
    sources = (model.fit or {}).get("alpha_source")
    if not isinstance(sources, list) or len(sources) != len(model.m):
        return {}
    return {
        m - 1: source
        for m, source in zip(model.m, sources, strict=True)
        if m <= k_max + 1 and isinstance(source, str) and source.startswith("borrowed")
    }
