"""What a reader of a fit should know, in words."""

from collections.abc import Iterator, Sequence

from oracle.intervals import FEW_CLUSTERS
from oracle.latency.draft import DraftFit
from oracle.latency.metrics import HeldOut
from oracle.latency.tables import CoefficientRow, CoefficientTable, Counts

FEW_ROUNDS = 30


def remarks_on(
    counts: Counts, joint: CoefficientTable, separate: CoefficientTable | None, draft: DraftFit
) -> tuple[str, ...]:
    """Everything remarkable about a fit, one sentence each."""
    return (
        *_on_rows(counts),
        *_on_measured(joint),
        *_on_coefficients(joint),
        *(() if separate is None else _on_separate(joint, separate)),
        *draft.warnings,
        *_on_unpriced(joint, draft),
        *_on_held_out(joint.held_out, "verification"),
        *_on_held_out(draft.table_held_out, "draft table"),
    )


def _listed(ms: Sequence[int]) -> str:
    return "m = " + ", ".join(map(str, ms))


def _on_rows(counts: Counts) -> Iterator[str]:
    decoded = counts.rows - counts.prefill
    if counts.target_not_positive:
        share = 100 * counts.target_not_positive / decoded
        yield (
            f"{counts.target_not_positive} of {decoded} rounds ({share:.2g} %) have a target_ms of 0 or less: left "
            "out of the "
            "verification fit"
        )
    if counts.draft_not_positive:
        yield (
            f"{counts.draft_not_positive} rounds with draft length 1 or more have a draft_ms of 0 or less: left "
            "out of the "
            "draft fit"
        )
    if counts.draft_at_zero:
        yield (
            f"{counts.draft_at_zero} rounds with draft length 0 have a positive draft_ms: not used, drafting "
            "nothing costs 0 by "
            "definition"
        )
    if counts.clusters < FEW_CLUSTERS:
        yield (
            f"{counts.clusters} clusters (generations, or questions that recur): errors and intervals need at least "
            f"{FEW_CLUSTERS} to be trusted"
        )


def _on_measured(joint: CoefficientTable) -> Iterator[str]:
    for m, why in joint.left_out.items():
        yield f"m = {m} is left out of the model: {why}"
    few = [row.m for row in joint.rows if row.rounds < FEW_ROUNDS]
    if few:
        yield f"{_listed(few)}: fewer than {FEW_ROUNDS} rounds; the coefficients there are uncertain"
    for row in joint.rows:
        if row.alpha_source.startswith("borrowed") and row.m > 1:
            yield (
                f"m = {row.m}: unique experts do not vary there, so alpha is {row.alpha_source}; only beta0 + "
                "alpha U is measured"
            )
    if all(row.alpha_source == "no experts" for row in joint.rows):
        yield "unique_experts is 0 in every round: a dense target, alpha is 0"
    if all(row.context_source == "not varying" for row in joint.rows):
        yield "context length varies at no m: c is set to 0, and beta0 holds the time of the context that was measured"


def _on_coefficients(joint: CoefficientTable) -> Iterator[str]:
    own = [row for row in joint.rows if row.alpha_source == "own"]
    for row in own:
        alpha = row.alpha_ms_per_expert
        if alpha.value < 0:
            yield (
                f"m = {row.m}: alpha is negative, {alpha.value:.4g} ms per expert{_interval(row)}: more experts "
                "cannot take less "
                "time; this target's time may not depend on unique experts, or the rounds are too few"
            )
    below = [row.m for row in joint.rows if row.beta0_ms.value < 0]
    if below:
        yield (
            f"{_listed(below)}: beta0, the time of a pass that touches no expert in no context, is negative: the line "
            "holds only near the experts and contexts that were measured, and what a change of experts or context "
            "saves is overstated"
        )
    unclear = [row.m for row in own if row.alpha_ms_per_expert.spans_zero()]
    if unclear:
        yield f"{_listed(unclear)}: alpha cannot be told from 0 (its 95 % interval holds 0)"
    c = joint.rows[0].context_ms_per_token
    if c.spans_zero():
        yield (
            f"c, the time of one more context token, is {c.value:.3g} ms [{c.low:.3g}; {c.high:.3g}]: it cannot "
            "be told from 0"
        )
    unknown = [e for e in joint.estimates.each if e.clusters > 1 and e.error_cr3 is None]
    if unknown:
        names = [n for n, e in zip(joint.estimates.names, joint.estimates.each, strict=True) if e in unknown]
        yield (
            f"no interval for {', '.join(names)}: without one of the clusters it could not be estimated; record "
            "those m in "
            "more generations"
        )
    single = [row.m for row in joint.rows if row.beta0_ms.clusters == 1]
    if single:
        yield f"{_listed(single)}: measured in a single cluster, so there are no errors"


def _interval(row: CoefficientRow) -> str:
    alpha = row.alpha_ms_per_expert
    return "" if alpha.low is None else f" [{alpha.low:.4g}; {alpha.high:.4g}]"


def _on_separate(joint: CoefficientTable, separate: CoefficientTable) -> Iterator[str]:
    for m, why in separate.left_out.items():
        if m not in joint.left_out:
            yield f"m = {m} has no fit of its own: {why}"
    fixed = [row.m for row in separate.rows if row.context_source == "not varying"]
    if fixed and any(row.context_source != "not varying" for row in joint.rows):
        yield (
            f"{_listed(fixed)}: context length does not vary there; in the separate fit c is set to 0 and beta0 "
            "holds it"
        )


def _on_unpriced(joint: CoefficientTable, draft: DraftFit) -> Iterator[str]:
    known = {row.k for row in draft.rows}
    missing = [row.m - 1 for row in joint.rows if row.m > 1 and row.m - 1 not in known]
    if draft.choice == "table" and missing:
        listed = ", ".join(map(str, missing))
        yield f"k = {listed}: no draft time was recorded, so the model cannot price these draft lengths"


def _on_held_out(held_out: Sequence[HeldOut], what: str) -> Iterator[str]:
    for row in held_out:
        if row.m is not None and row.unpredicted:
            yield (
                f"m = {row.m}: {row.unpredicted} held-out rounds have no {what} prediction, since no other fold "
                "measured that m"
            )
