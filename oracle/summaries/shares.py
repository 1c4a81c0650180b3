"""Shares in words and in tables: nothing is called 0 or 100 % that is not exactly that."""

import re
from typing import Any

from oracle.tables import Column, show

_EXACT = 1e-12  # nearer to 0 or 1 is a rounding error of the arithmetic
_LEAST = 0.01  # percent
_FOUR_DIGITS = 1000.0


def percent(share: float) -> str:
    """Show a share as a percentage.

    Examples
    --------
    >>> percent(0.0478), percent(0.0), percent(3e-6), percent(0.99999), percent(1.22), percent(12.34)
    ('4.78 %', '0 %', 'under 0.01 %', 'over 99.9 %', '122 %', '1,234 %')
    """
    value = 100 * share
    if abs(share) < _EXACT:
        return "0 %"
    if abs(value) < _LEAST:
        return f"{'' if value > 0 else 'less, '}under {_LEAST:g} %"
    if 99.95 <= value < 100 and 1 - share > _EXACT:
        return "over 99.9 %"
    return f"{value:.3g} %" if abs(value) < _FOUR_DIGITS else f"{value:,.0f} %"


def counted(some: int, of: int) -> str:
    """Say how many of a number.

    Examples
    --------
    >>> counted(64, 64), counted(63, 64), counted(0, 64), counted(1, 1)
    ('all 64', '63 of 64', 'none of 64', 'all of 1')
    """
    if some == of:
        return f"all {of:,}" if of > 1 else "all of 1"
    return f"{some:,} of {of:,}" if some else f"none of {of:,}"


def part(head: str, key: str, spec: str, scale: float = 1.0) -> Column:
    """Give a column of numbers in which what rounds to 0 and is not 0 is shown as less than the last digit.

    Of a share (`scale` 100) what rounds to 100 and is less is shown as more than the number before.
    """
    return Column(head, lambda row: _cell(row[key], spec, scale))


def _cell(value: Any, spec: str, scale: float) -> str:
    text = show(value, spec, scale)
    if value is None or abs(value) < _EXACT:
        return text
    digits = int(spec.strip("+,f").lstrip("."))
    last = 10.0**-digits
    if not re.search("[1-9]", text):
        return f"{'<' if value > 0 else '>-'}{last:.{digits}f}"
    if scale == 100 and value < 1 - _EXACT and text.lstrip("+") == format(100.0, f".{digits}f"):
        return f">{100 - last:.{digits}f}"
    return text
