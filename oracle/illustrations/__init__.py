"""Single decisions chosen by stated rules: cases in which a change of the costs moves the cut, and a gallery of twelve.

Illustrations show what stands behind the counts; they are no sample and say nothing of how often anything happens.
"""

from oracle.illustrations.cases import CASE_RULES, choose_cases
from oracle.illustrations.chosen import Chosen, Illustration
from oracle.illustrations.gallery import GALLERY_RULES, choose_gallery
from oracle.illustrations.gallery_rules import GROUPS
from oracle.illustrations.search import COLUMNS, Search

__all__ = [
    "CASE_RULES",
    "COLUMNS",
    "GALLERY_RULES",
    "GROUPS",
    "Chosen",
    "Illustration",
    "Search",
    "choose_cases",
    "choose_gallery",
]
