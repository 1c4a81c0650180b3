"""Texts of a page as markup: flags, settings and commands as code, cells of numbers in pieces that stay whole."""

import re

from markupsafe import Markup, escape

# `quoted`, a flag with its value, a setting as a file states it, a command
_CODE = re.compile(
    r"`([^`\n]+)`"
    r"|((?<![\w-])--[a-z][a-z-]*(?:[ =][A-Z]+\b)?"
    r"|(?:\[[a-z_]+\] )?\b[a-z]+(?:_[a-z]+)+ = [\w.]+"
    r"|\[\[[a-z_]+\]\]"
    r"|\bdraft-oracle [a-z]+\b)"
)
_LONG = 36  # characters: more do not fit a telephone, and scroll
_BETWEEN = re.compile(r" (?=\[)|(?<= /) ")  # a number and its interval, or one number by two readings


def coded(text: str) -> Markup:
    """Mark what is typed somewhere as code, so that no line ends within it.

    Examples
    --------
    >>> print(coded("give --deployment FILE or [assumptions] reads_grow = true, `a<b`"))
    give <code>--deployment FILE</code> or <code>[assumptions] reads_grow = true</code>, <code>a&lt;b</code>
    """
    found, last = Markup(""), 0
    for match in _CODE.finditer(text):
        found += escape(text[last : match.start()])
        typed = match[1] or match[2]
        found += Markup('<code class="long">{}</code>' if len(typed) > _LONG else "<code>{}</code>").format(typed)
        last = match.end()
    return found + escape(text[last:])


def pieces(cell: str) -> list[str]:
    """Cut a cell of numbers where a line may end: before an interval, and after the slash between two readings.

    Examples
    --------
    >>> pieces("3.604 [3.397; 3.789]"), pieces("51.27 / 43.11"), pieces("–")
    (['3.604', '[3.397; 3.789]'], ['51.27 /', '43.11'], ['–'])
    """
    return _BETWEEN.split(cell)
