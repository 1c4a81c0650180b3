"""Named changes of the cost model: their text forms, their two readings, and the cost lanes they make.

`parse_change` reads a text and documents the forms; `lanes_of` lays several changes out for `solver.solve_many`.
"""

from oracle.changes.change import Change, Lane, lanes_of
from oracle.changes.flat import FlatRegime
from oracle.changes.terms import OtherModel, Priced, Replaced, Scaled, Span, Term
from oracle.changes.text import KNOWN_TERMS, parse_change

__all__ = [
    "KNOWN_TERMS",
    "Change",
    "FlatRegime",
    "Lane",
    "OtherModel",
    "Priced",
    "Replaced",
    "Scaled",
    "Span",
    "Term",
    "lanes_of",
    "parse_change",
]
