"""Break-evens by batch size and precision."""

from typing import Any

import numpy as np

from oracle.errors import printable
from oracle.levers.advised import set_in
from oracle.levers.answer import Answer
from oracle.levers.break_even import prefix_share_needed, repetitiveness_needed
from oracle.levers.cost import capacity
from oracle.summaries.levers import usable
from oracle.summaries.levers_chains import needed_share
from oracle.summaries.shares import amounts
from oracle.tables import NOT_AVAILABLE, Column, Row, Table


def by_batch_table(found: Answer) -> Table:
    """Show r* of every precision and rho* at powers of two, at the batch of this traffic and at each knee."""
    deployment, regime = found.deployment, found.regime
    precisions = [deployment.precisions[i] for i in usable(found)]
    knees = [float(capacity(deployment, p, regime)) for p in precisions]
    powers = 2.0 ** np.arange(int(np.log2(max(knees))) + 1)
    here = float(set_in(found)[0].batch)
    rows: list[dict[str, Any]] = []
    for B in sorted({*powers.tolist(), *knees, here}):
        batch = np.array(B)
        row: dict[str, Any] = {"batch": B, "here": here == B}
        for p, knee in zip(precisions, knees, strict=True):
            fits = knee >= B
            r, rho = (each(deployment, p, regime, batch) for each in (repetitiveness_needed, prefix_share_needed))
            row[f"repetitiveness_needed_{p.name}"] = float(r) if fits else None
            row[f"prefix_share_needed_{p.name}"] = float(rho) if fits else None
        rows.append(row)
    own = [p.name for p in precisions] if deployment.prefill_by_precision else [_roomiest(found)]
    columns = (
        amounts("batch", "batch"),
        *(_needed(f"r*\n{printable(p.name)}", f"repetitiveness_needed_{p.name}") for p in precisions),
        *(_needed("rho*" if len(own) == 1 else f"rho*\n{printable(n)}", f"prefix_share_needed_{n}") for n in own),
        Column("", lambda row: "here" if row["here"] else "", text=True),
    )
    notes = ("speculation pays above r*, the prefix cache above rho*; – is more than the KV cache holds",)
    return Table("levers_by_batch", "Break-evens by batch size and precision", columns, rows, notes)


def _roomiest(found: Answer) -> str:
    """Name a precision whose KV cache holds the largest batch."""
    deployment = found.deployment
    each = [deployment.precisions[i] for i in usable(found)]
    return max(each, key=lambda p: float(capacity(deployment, p, found.regime))).name


def _needed(head: str, key: str) -> Column:
    def cell(row: Row) -> str:
        return NOT_AVAILABLE if row[key] is None else needed_share(row[key])

    return Column(head, cell)
