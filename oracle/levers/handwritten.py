"""A tree of values that people type: TOML, or JSON."""

import tomllib
from typing import Any

from oracle.errors import InputError
from oracle.latency.strict_json import read_strictly


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
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # ValueError: a number of thousands of digits, too
        raise InputError(f"{source}: not TOML ({error}); mend it there, or give JSON") from error
