"""Traffic that can be meant but rarely is: units that slipped, a context that no paged KV cache would hold."""

import warnings
from collections.abc import Mapping

from oracle.errors import InputWarning
from oracle.levers.regime import Numbers

_SHORT = 32.0  # tokens of a prompt or a context: no server holds fewer, and few as many thousands
_LONG = 4.0  # of prompt and output, the most that a request writes into the KV cache


def warn_of_traffic(source: str, arrays: Mapping[str, Numbers]) -> None:
    """Warn of regimes of one source, the attributes of `Regime` as arrays of shape (T,)."""
    said = []
    for name in ("context_tokens", "prompt_tokens"):
        shortest = float(arrays[name].min())
        if shortest < _SHORT:
            said.append(f"{name} is {shortest:g}; tokens are counted one by one, not in thousands")
    if not said:
        said += _context(arrays)
    for each in said:
        warnings.warn(f"{source}: {each}", InputWarning, stacklevel=4)


def _context(arrays: Mapping[str, Numbers]) -> list[str]:
    """Compare what a request holds with the most that it ever writes."""
    whole, context = arrays["prompt_tokens"] + arrays["output_tokens"], arrays["context_tokens"]
    far = context > _LONG * whole
    if not far.any():
        return []
    return [
        f"context_tokens is {context[far][0]:g}, far above prompt and output together ({whole[far][0]:g}); it is the "
        "mean number of tokens that a request in flight holds in the KV cache, not the longest context allowed, unless "
        "the engine sets that aside for each"
    ]
