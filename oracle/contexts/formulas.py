"""Formulas in prose: LaTeX between its delimiters, and symbols joined by a mathematical sign."""

import re
from collections.abc import Iterator

_LONGEST = 1000  # characters between delimiters: without a bound, unmatched ones cost the square of a text's length
_ENVIRONMENTS = "equation|align|gather|multline|eqnarray|displaymath|math"
_LATEX = re.compile(
    rf"\\\((?:[^\\\n]|\\(?!\)).|\n(?!\s*\n)){{0,{_LONGEST}}}?\\\)"
    rf"|\\\[(?:[^\\\n]|\\(?!\])|\n(?!\s*\n)){{0,{_LONGEST}}}\\\]"
    rf"|\\begin\{{((?:{_ENVIRONMENTS})\*?)\}}.{{0,{_LONGEST}}}?\\end\{{\1\}}"
    rf"|\$\$(?:[^$\n]|\n(?!\s*\n)){{1,{_LONGEST}}}\$\$"
    rf"|(?<![\\$\w])\$(?![\s$])(?:[^$\n]|\n(?!\s*\n)){{0,{_LONGEST}}}?(?<![\s\\])\$(?![\d$])",
    re.DOTALL,
)
_AMOUNT = re.compile(r"\$[\d.,]+\s+\w{2,}[^\\^_=]*\$")  # $5 and then $
_VARIABLE = r"(?:[^\W\d_](?![^\W\d_]))"
_OPERAND = rf"(?:{_VARIABLE}|\d+(?:[.,]\d+)?(?![\w.]))"
_SIGN = r"(?:[ ]?[=+−×·≤≥≠≈±∈→][ ]?|[ ][<>][ ])"
_JOINED = re.compile(
    rf"(?<![\w.,=+<>\"'/-]){_VARIABLE}(?:{_SIGN}{_OPERAND})+(?![\w=+/-])"
    rf"|(?<![\w.,=+<>\"'/-])\d+(?:[.,]\d+)?{_SIGN}{_VARIABLE}(?:{_SIGN}{_OPERAND})*(?![\w=+/-])"
)


def formulas_of(text: str, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Find the formulas of a stretch of prose, in order, delimiters included.

    Examples
    --------
    >>> text = "where $c$ is the speed and α + β = 90, for $5 and $6"
    >>> [text[start:stop] for start, stop in formulas_of(text, 0, len(text))]
    ['$c$', 'α + β = 90']
    """
    at = start
    for match in _LATEX.finditer(text, start, stop):
        yield from _joined(text, at, match.start())
        if not _AMOUNT.fullmatch(match.group()):
            yield match.span()
        at = match.end()
    yield from _joined(text, at, stop)


def _joined(text: str, start: int, stop: int) -> Iterator[tuple[int, int]]:
    yield from (match.span() for match in _JOINED.finditer(text, start, stop))
