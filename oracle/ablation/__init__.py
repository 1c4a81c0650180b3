"""What a changed cost model moves: the problem is solved again under other coefficients, nothing else changes.

The first counterfactual is the source's: alpha = 0, every other coefficient kept ("as is"). A second answer refits
beta0, so that each length keeps the mean price of its experts and only what varies between windows is taken out.
Other changes are named in `oracle.changes`.
"""

from oracle.ablation.counting import (
    GenerationShifts,
    Prevalence,
    ShiftSums,
    ShiftTally,
    categories_of,
    join,
    prevalence,
    tally,
)
from oracle.ablation.lengths import every_length
from oracle.ablation.shifts import Shifts, next_match_prob, shifts, shifts_table
from oracle.ablation.terms import TERMS, decompose, q_values

__all__ = [
    "TERMS",
    "GenerationShifts",
    "Prevalence",
    "ShiftSums",
    "ShiftTally",
    "Shifts",
    "categories_of",
    "decompose",
    "every_length",
    "join",
    "next_match_prob",
    "prevalence",
    "q_values",
    "shifts",
    "shifts_table",
    "tally",
]
