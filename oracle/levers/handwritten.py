"""A tree of values that people type: TOML, or JSON."""

import re
import tomllib
from collections.abc import Collection
from typing import Any

from oracle.errors import Faults, InputError, printable
from oracle.latency.strict_json import read_strictly

LONGEST = 1 << 20  # characters of TOML, which people type
_MOST_PARTS = 64
_DOTTED = re.compile(rf"(?:\.[^.=,#\n]*){{{_MOST_PARTS}}}")
_MOST_DIGITS = 1000
_LONG_NUMBER = re.compile(rf"0[xob][0-9a-fA-F_]{{{_MOST_DIGITS}}}")


def tree_from_text(text: str, source: str) -> dict[str, Any]:
    """Parse TOML, or JSON where the text begins with a brace.

    Raises
    ------
    InputError
        It is neither; the message names the place.
    """
    if text.lstrip().startswith("{"):
        tree: dict[str, Any] = read_strictly(text, source)  # what begins with a brace and is JSON is an object
        return tree
    if len(text) > LONGEST:
        raise InputError(
            f"{source}: {len(text)} characters of TOML; at most {LONGEST} are read; is this the right file?"
        )
    if _DOTTED.search(text) is not None:  # the time to read a key grows with the square of its parts
        raise InputError(f"{source}: a key has more than {_MOST_PARTS} parts; write one with fewer dots")
    if _LONG_NUMBER.search(text) is not None:  # which Python reads and then cannot show
        raise InputError(f"{source}: a number has more than {_MOST_DIGITS} digits; write a smaller one")
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # ValueError: a number of thousands of digits, too
        raise InputError(f"{source}: not TOML ({printable(str(error), 200)}); mend it there, or give JSON") from error


def check_format(
    tree: dict[str, Any], source: str, form: str, version: int, of: str, sections: Collection[str], faults: Faults
) -> None:
    """Note a file that does not say what it is; `of` is what it should hold, in some of the `sections`.

    Raises
    ------
    InputError
        It says that it is something else, or looks like it, so that its other faults would mean nothing.
    """
    given = (tree.get("format"), tree.get("version"))
    if given == (form, version) and given[1] is not True:
        return
    found = ", ".join(printable(repr(each), 40) for each in given)
    fault = f'{source}: format and version are {found}; {of} says format = "{form}", version = {version}'
    if given[0] not in (None, form) or not tree.keys() & set(sections):
        raise InputError(fault)
    faults.add(fault)
