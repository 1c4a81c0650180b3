"""What is shown: values of fits and studies gathered into tables."""

from oracle.summaries.fit import fit_tables
from oracle.summaries.study import study_tables

__all__ = ["fit_tables", "study_tables"]
