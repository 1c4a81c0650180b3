"""Acceptance of any source as the table that `recommend --acceptance` and `convert --acceptance` read."""

import csv
import io

from oracle.acceptance import Acceptance
from oracle.errors import InputError

COLUMNS = ("position", "rate", "draft_length", "tenant", "rounds")


def as_csv(acceptance: Acceptance) -> str:
    """Write survival by position, one row a position.

    Raises
    ------
    InputError
        Totals, which do not tell positions.
    """
    if not all(curve.by_position for curve in acceptance.curves):
        raise InputError(
            "the inputs hold totals, which do not tell positions, so no table by position can be made; `recommend "
            "--acceptance` reads them as they are"
        )
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for curve in acceptance.curves:
        rounds = "" if curve.rounds is None else round(curve.rounds)
        for j, rate in enumerate(curve.survival.tolist(), 1):
            writer.writerow([j, repr(rate), curve.draft_length, curve.tenant or "", rounds])
    return text.getvalue()
