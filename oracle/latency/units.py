"""Noticing times that are not in milliseconds. Nothing is ever converted: the user is told, and decides.

What is plausible in milliseconds: a verification pass lasts 0.2 ms (a small model on a fast device) to 5 s (a large one
on a processor); a draft 5 µs (a look-up of n-grams) to 2 s, and at most ten times the pass that it is to shorten. A
file in microseconds can still lie inside, as a slow machine does. Then one more token of context tells them apart:
reading its keys and values costs microseconds even at the bandwidth of a processor, never 0.05 ms.

A file in seconds from a machine that needs 0.2 s or more for a pass looks like milliseconds and is not noticed.
"""

import math
from collections.abc import Mapping

MS = "milliseconds"
IN_MS: Mapping[str, float] = {MS: 1.0, "microseconds": 1e-3, "seconds": 1e3, "nanoseconds": 1e-6}
TARGET_MS = (0.2, 5_000.0)
DRAFT_MS = (5e-3, 2_000.0)
USUAL_TARGET_MS, USUAL_DRAFT_MS = 20.0, 2.0  # of several units that fit, the one that comes nearest
SLOW_TARGET_MS, SLOW_DRAFT_MS = 500.0, 50.0  # where both are slower, and a token of context is dearer than …
DEAR_CONTEXT_MS = 0.05  # … this, it is no slow machine but another unit
MOST_DRAFT_FOR_TARGET = 10.0


def suspect_unit(
    target_ms: float, draft_ms: float | None = None, context_ms_per_token: float | None = None, source: str = "rounds"
) -> str | None:
    """Say which columns look as if they were not in milliseconds; None where all is plausible.

    Parameters
    ----------
    target_ms
        Typical (median or mean) target_ms of the decode rounds.
    draft_ms
        Typical draft_ms of the rounds with draft length 1 or more; None or 0 where there is no draft time.
    context_ms_per_token
        Fitted c; None where it is not known.
    source
        File name(s) for the message.

    Examples
    --------
    >>> suspect_unit(9.3, 2.4, 0.0011)
    >>> print(suspect_unit(9300.0, 2400.0))
    rounds: target_ms is typically 9300, which looks like microseconds (9.3 ms); draft_ms is typically 2400, which looks like microseconds (2.4 ms). Nothing was converted; if that is so, multiply these columns by 0.001 and fit again
    """  # noqa: E501  # the message is one line
    if not target_ms > 0:
        return None
    draft = draft_ms if draft_ms is not None and draft_ms > 0 else None
    target_unit, draft_unit = _units(target_ms, draft, context_ms_per_token)
    columns = [("target_ms", target_ms, target_unit)]
    if draft is not None:
        columns.append(("draft_ms", draft, draft_unit))
    odd = [(name, value, unit) for name, value, unit in columns if unit != MS]
    if not odd:
        return None
    if any(unit is None for _, _, unit in odd):
        seen = "; ".join(f"{name} is typically {value:.4g}" for name, value, unit in odd if unit is None)
        return f"{source}: {seen}, which is no plausible time in any unit; check how it was timed"
    looks = "; ".join(
        f"{name} is typically {value:.4g}, which looks like {unit} ({value * IN_MS[unit or MS]:.3g} ms)"
        for name, value, unit in odd
    )
    slope = ""
    if context_ms_per_token is not None and context_ms_per_token > DEAR_CONTEXT_MS:
        slope = f" (one more token of context would cost {context_ms_per_token:.3g} ms)"
    factors = {IN_MS[unit or MS] for _, _, unit in odd}
    way = "these columns" if len(odd) > 1 else odd[0][0]
    by = f"multiply {way} by {factors.pop():g}" if len(factors) == 1 else "bring both to milliseconds"
    return f"{source}: {looks}{slope}. Nothing was converted; if that is so, {by} and fit again"


def _units(target: float, draft: float | None, context: float | None) -> tuple[str | None, str | None]:
    """Units of target and draft: the same one if any fits both, milliseconds before all others; None if none fits."""
    slow = target > SLOW_TARGET_MS and (draft is None or draft > SLOW_DRAFT_MS)
    no_ms = slow and context is not None and context > DEAR_CONTEXT_MS
    units = [unit for unit in IN_MS if unit != MS or not no_ms]
    of_target = _ordered([u for u in units if _inside(target * IN_MS[u], TARGET_MS)], target, USUAL_TARGET_MS)
    if draft is None:
        return (of_target[0] if of_target else None), MS
    for unit in of_target:
        if _inside(draft * IN_MS[unit], DRAFT_MS) and draft <= MOST_DRAFT_FOR_TARGET * target:
            return unit, unit
    first = of_target[0] if of_target else None
    most = MOST_DRAFT_FOR_TARGET * target * IN_MS[first] if first else math.inf
    fits = [u for u in IN_MS if _inside(draft * IN_MS[u], DRAFT_MS) and draft * IN_MS[u] <= most]
    of_draft = _ordered(fits, draft, USUAL_DRAFT_MS)
    return first, (of_draft[0] if of_draft else None)


def _inside(value_ms: float, plausible: tuple[float, float]) -> bool:
    return plausible[0] <= value_ms <= plausible[1]


def _ordered(units: list[str], value: float, usual_ms: float) -> list[str]:
    """Milliseconds first, then the unit that comes nearest to the usual time."""
    return sorted(units, key=lambda unit: (unit != MS, abs(math.log(value * IN_MS[unit] / usual_ms))))
