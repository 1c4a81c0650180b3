"""A factorial list of serving runs over the levers that interact: precision, speculation and prefix cache by traffic.

Traffic (concurrency, prefix sharing, repetitiveness) can change while an engine runs; precision, speculation with its
draft length, and the cache cannot. So this is a split plot: a *session* is one start of the engine with its three
settings, and goes through every traffic cell in random order; sessions follow one another in random order, and each
repeat starts every one of them anew. Differences between engine settings can only be told from differences between
sessions where there are repeats.
"""

import itertools
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np
import pyarrow as pa

from oracle.errors import Faults, printable

TRAFFIC = ("concurrency", "prefix_sharing", "repetitiveness")
LEVELS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "concurrency": ("1", "8", "32", "128", "256"),
        "prefix_sharing": ("0", "0.3", "0.6", "0.9"),
        "repetitiveness": ("0.1", "0.3", "0.6"),
        "precision": ("fp16", "fp8", "nvfp4"),
        "speculation": ("off", "on"),
        "cache": ("off", "on"),
    }
)


def read_levels(given: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Read levels such as ``concurrency=1,32``; levers that are not named keep those of `LEVELS`.

    Raises
    ------
    InputError
        All faults: an unknown lever, no or repeated values, a value out of range.
    """
    levels, faults = dict(LEVELS), Faults()
    for text in given:
        name, equals, values = text.partition("=")
        chosen = tuple(value.strip() for value in values.split(",") if value.strip())
        if name not in LEVELS or not equals:
            faults.add(f"--level '{printable(text)}': is not LEVER=VALUE,VALUE; the levers are {', '.join(LEVELS)}")
        elif not chosen or len(set(chosen)) < len(chosen):
            faults.add(
                f"--level '{printable(text)}': {'a value is repeated' if chosen else 'no values'}; name each once"
            )
        else:
            for value in chosen:
                _check(name, value, faults)
            levels[name] = chosen
    faults.raise_if_any()
    return levels


def _check(name: str, value: str, faults: Faults) -> None:
    shown = printable(value)
    if name == "precision":
        return
    if name in ("speculation", "cache"):
        if value not in ("off", "on"):
            faults.add(f"--level {name}: '{shown}' is neither off nor on")
        return
    try:
        number = float(value)
    except ValueError:
        faults.add(f"--level {name}: '{shown}' is not a number")
        return
    if name == "concurrency" and not (number >= 1 and number.is_integer()):
        faults.add(f"--level {name}: {shown} is not a whole number of requests, 1 or more")
    if name != "concurrency" and not 0 <= number <= 1:
        faults.add(f"--level {name}: {shown} is not a share between 0 and 1")


def lever_plan(levels: Mapping[str, Sequence[str]], ks: Sequence[int], repeats: int, seed: int) -> pa.Table:
    """List the runs in the order in which they are to be made.

    Parameters
    ----------
    ks
        Draft lengths; with speculation on each of those above 0 is a setting of its own, off it is 0.
    """
    rng = np.random.default_rng(seed)
    lengths = [
        (mode, k) for mode in levels["speculation"] for k in (ks if mode == "on" else (0,)) if k or mode == "off"
    ]
    sessions = list(itertools.product(levels["precision"], lengths, levels["cache"]))
    traffic = list(itertools.product(*(levels[name] for name in TRAFFIC)))
    rows: list[tuple[int, int, str, str, int, str, int, float, float]] = []
    session = 0
    for repeat in range(repeats):
        for s in rng.permutation(len(sessions)):
            precision, (mode, k), cache = sessions[s]
            for t in rng.permutation(len(traffic)):
                concurrency, sharing, repetitiveness = (float(value) for value in traffic[t])
                rows.append((repeat, session, precision, mode, k, cache, int(concurrency), sharing, repetitiveness))
            session += 1
    names = ("repeat", "session", "precision", "speculation", "draft_length", "cache", *TRAFFIC)
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    return pa.table({"order": np.arange(len(rows)), **columns})
