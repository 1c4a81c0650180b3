"""The rules of a latency model's values, for files and for models made in Python, each fault in words."""

import math
import sys
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any

from oracle.errors import Faults, printable


def kind_of(value: Any) -> str:
    """Name a value's JSON type for a message."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    names = {int: "a number", float: "a number", str: "text", list: "a list", tuple: "a list", dict: "an object"}
    return names.get(type(value), f"a {type(value).__name__}")


def check_keys(
    tree: Mapping[str, Any],
    place: str,
    needed: Sequence[str],
    optional: Sequence[str],
    faults: Faults,
    of: str = "a latency model",
) -> None:
    """Note unknown and missing keys; `place` is the file and the path to `tree`, `of` what the file holds."""
    for key in tree:
        if key not in needed and key not in optional:
            known = ", ".join((*needed, *optional))
            faults.add(f"{place}{printable(key)} is not a key of {of}; known here: {known}")
    for key in needed:
        if key not in tree:
            faults.add(f"{place}{key} is missing; add it")


def check_numbers(values: Any, place: str, faults: Faults, *, whole: bool = False, least: float = -math.inf) -> bool:
    """Note what is not a list of finite numbers (of whole numbers) from `least` on; True if all is well."""
    if not isinstance(values, list | tuple):
        faults.add(f"{place} is {kind_of(values)}; it is a list of numbers")
        return False
    well = True
    for i, value in enumerate(values):
        well &= check_number(value, f"{place}[{i}]", faults, whole=whole, least=least)
    return well


def check_number(value: Any, place: str, faults: Faults, *, whole: bool = False, least: float = -math.inf) -> bool:
    """Note a value that is not a finite number (a whole number) of at least `least`; True if all is well."""
    if isinstance(value, bool) or not isinstance(value, Integral if whole else Real):
        number = isinstance(value, Real) and not isinstance(value, bool)
        shown = printable(repr(value), 40) if number else kind_of(value)
        faults.add(f"{place} is {shown}; it is a {'whole ' if whole else ''}number")
    elif (isinstance(value, int) and abs(value) > sys.float_info.max) or not math.isfinite(float(value)):
        faults.add(f"{place} is {printable(str(value), 40)}; it is a finite number")
    elif value < least:
        faults.add(f"{place} is {value}; it is at least {least:g}")
    else:
        return True
    return False


def check_rising(values: Sequence[float], place: str, faults: Faults) -> None:
    """Note an empty list, and the first value that does not rise."""
    if not values:
        faults.add(f"{place} is empty; give at least one value")
    for i in range(1, len(values)):
        if values[i] <= values[i - 1]:
            faults.add(f"{place}[{i}] is {values[i]} after {values[i - 1]}; values rise strictly")
            return


def check_batch_sizes(values: Sequence[Any], place: str, faults: Faults) -> None:
    """Note batch sizes that are not whole numbers from 1 on, or that do not rise; `place` is the list of blocks."""
    well = True
    for i, value in enumerate(values):
        well &= check_number(value, f"{place}[{i}].batch_size", faults, whole=True, least=1)
    for i in range(1, len(values) if well else 0):
        if values[i] <= values[i - 1]:
            faults.add(f"{place}[{i}].batch_size is {values[i]} after {values[i - 1]}; batch sizes rise strictly")


def check_verify(verify: Mapping[str, Any], place: str, faults: Faults) -> None:
    """Check m and the coefficients; keys that are not there are left to `check_keys`."""
    m: Any = verify.get("m")
    if "m" in verify and check_numbers(m, f"{place}m", faults, whole=True, least=1):
        check_rising(m, f"{place}m", faults)
    for name in ("beta0_ms", "alpha_ms_per_expert", "context_ms_per_token"):
        values = verify.get(name)
        if name == "context_ms_per_token" and name in verify and not isinstance(values, list | tuple):
            check_number(values, f"{place}{name}", faults)
        elif name in verify and check_numbers(values, f"{place}{name}", faults):
            _check_length(values, f"{place}{name}", m, f"{place}m", faults)


def check_draft(draft: Mapping[str, Any], place: str, m: Any, faults: Faults) -> None:
    """Check a line (ms_per_token, base_ms) or a table (k, ms); a time is not negative at any measured k."""
    if "k" in draft or "ms" in draft:
        k = draft.get("k")
        if "k" in draft and check_numbers(k, f"{place}k", faults, whole=True, least=1):
            check_rising(draft["k"], f"{place}k", faults)
        if "ms" in draft and check_numbers(draft["ms"], f"{place}ms", faults, least=0.0):
            _check_length(draft["ms"], f"{place}ms", k, f"{place}k", faults)
        return
    fine = [
        name in draft and check_number(draft[name], f"{place}{name}", faults) for name in ("ms_per_token", "base_ms")
    ]
    if all(fine) and isinstance(m, list | tuple):
        for value in m:
            k = int(value) - 1 if isinstance(value, Integral) else 0
            time = draft["ms_per_token"] * k + draft["base_ms"]
            if k > 0 and time < 0:
                faults.add(
                    f"{place}ms_per_token and base_ms give {time:.4g} ms at k = {k}; a time is not negative: give "
                    "a table "
                    "(k, ms) of measured draft times"
                )
                return


def _check_length(values: Any, place: str, index: Any, index_place: str, faults: Faults) -> None:
    if isinstance(index, list | tuple) and len(values) != len(index):
        other = index_place.rpartition(": ")[2]
        faults.add(f"{place} has {len(values)} values and {other} has {len(index)}; they go together one by one")
