"""Policies tuned on training generations and scored on held-out ones.

Generations are split into folds by cluster. For each fold, the parameter (best K, T or L) and all other constants
(mean U by m, best static length by category) come from the other folds, and the fold is scored with them. The same
choice made and scored on all generations is the in-sample score; the difference is its optimism.
"""

from collections.abc import Sequence

from oracle.policies.candidates import POINTS
from oracle.policies.laid_out import Batches
from oracle.tuning.choosing import Family
from oracle.tuning.deployment import RULE, Deployment, deployment
from oracle.tuning.families import FAMILIES, totals_of
from oracle.tuning.holding_out import HeldOut, HeldOutBatch, hold_out
from oracle.tuning.survey import FOLDS, Surveyed, learn, survey
from oracle.tuning.tuned import Compared, Tuned, Tuning, scored, scored_by_category

__all__ = [
    "FAMILIES",
    "FOLDS",
    "RULE",
    "Compared",
    "Deployment",
    "Family",
    "HeldOut",
    "HeldOutBatch",
    "Surveyed",
    "Tuned",
    "Tuning",
    "deployment",
    "hold_out",
    "learn",
    "scored",
    "scored_by_category",
    "survey",
    "totals_of",
    "tune",
]


def tune(
    batches: Batches,
    families: Sequence[str] = FAMILIES,
    *,
    folds: int | None = None,
    points: int = POINTS,
    seed: int = 0,
) -> Tuning:
    """Choose each family's parameter on training generations and score it on held-out ones: see `hold_out`."""
    return scored(hold_out(batches, families, folds=folds, points=points), seed=seed)
