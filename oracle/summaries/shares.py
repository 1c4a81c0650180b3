"""Shares in words and in tables: nothing is called 0 or 100 % that is not exactly that."""

import math
import re
from typing import Any

from oracle.tables import NOT_AVAILABLE, Column, show

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


def amount(value: float) -> str:
    """Show a number of requests or tokens: a whole one whole, any other in the digits that tell it apart.

    Examples
    --------
    >>> amount(16.0), amount(9.89568), amount(0.906061), amount(2268.18), amount(math.inf)
    ('16', '9.896', '0.9061', '2,268', '–')
    """
    if not math.isfinite(value):
        return NOT_AVAILABLE
    return f"{value:,.0f}" if value == round(value) or abs(value) >= _FOUR_DIGITS else f"{value:.4g}"


def several(count: float, noun: str) -> str:
    """Say how many of something.

    Examples
    --------
    >>> several(1, "request"), several(4, "draft token"), several(9.89568, "request")
    ('1 request', '4 draft tokens', '9.896 requests')
    """
    return f"{amount(count)} {noun}{'' if count == 1 else 's'}"


def amounts(head: str, key: str) -> Column:
    """Give a column of numbers of requests or tokens."""
    return Column(head, lambda row: NOT_AVAILABLE if row[key] is None else amount(row[key]))


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
