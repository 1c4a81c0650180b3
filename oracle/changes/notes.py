"""What a reader of a changed cost model must know, in words."""

from collections.abc import Iterator, Sequence

import numpy as np

from oracle.changes.flat import FlatRegime, counted, rounds_told
from oracle.changes.record import borrowed
from oracle.changes.terms import BASE, CONTEXT, EXPERTS, QUANTITIES, OtherModel, Priced, Term, kept_mean_ms
from oracle.costs import LengthCosts
from oracle.files import shown


def notes_of(terms: Sequence[Term], now: Priced, *, refitted: bool) -> Iterator[str]:
    """Follow the terms as they are and say what each does not do, or does beside."""
    for term in terms:
        after = term.as_is(now)
        changed = [q.array for q in QUANTITIES if _differs(now.costs, after.costs, q.array)]
        if isinstance(term, OtherModel):
            yield (
                f"model={shown(term.path)}: other coefficients over the same traces; unique experts, match "
                "probabilities and context lengths stay"
            )
        elif not changed:
            yield _nothing(term, now.costs)
        else:
            yield from _on_flat(term, now, after)
            yield from _on_context(changed, now.costs, after.costs)
            yield from _on_loans(now, after, changed)
            yield from _on_negative(now.costs, after.costs)
            if refitted:
                yield from _on_refit(term, now, after)
        now = after


def _differs(one: LengthCosts, other: LengthCosts, array: str) -> bool:
    return not np.array_equal(getattr(one, array), getattr(other, array))


def _nothing(term: Term, costs: LengthCosts) -> str:
    """Say that a term changes nothing, and why if that is plain."""
    quantity = getattr(term, "quantity", None)
    why = "the coefficients are what they were, or no allowed length has them"
    if quantity is not None and not getattr(costs, quantity.array).any():
        what = {EXPERTS: "experts cost nothing in this model, as for a dense target"}
        why = what.get(quantity, f"{quantity.whole} costs nothing in this model")
    return f"{term} changes nothing: {why}"


def _on_flat(term: Term, now: Priced, after: Priced) -> Iterator[str]:
    if not isinstance(term, FlatRegime):
        return
    count = counted(now)
    by = "by rounds" if rounds_told(now, count) else "equally"
    m = ", ".join(str(k + 1) for k in np.flatnonzero(count))
    yield (
        f"regime=flat: alpha is {after.costs.alpha_ms[count][0]:.4g} ms per expert, the mean over m = {m} weighted "
        f"{by}; beta0 is a line in m, as is through the beta0 of these, refitted through what the mean cost leaves at "
        "every m, so that the mean over all m is kept and each one's is not"
    )
    for reading, costs in (("as is", after), ("refitted", term.refitted(now))):
        kept = None if costs is None else kept_mean_ms(now, costs.costs)
        if costs is not None and kept is not None:
            more = costs.costs.verify_ms - now.costs.verify_ms - kept
            k = int(np.abs(more).argmax())
            yield (
                f"regime=flat, {reading}: no line fits every m; farthest off, a mean round at m = {k + 1} costs "
                f"{more[k]:+.2g} ms against the measured one, and decisions for or against k = {k} move by that too"
            )


def _on_context(changed: list[str], now: LengthCosts, after: LengthCosts) -> Iterator[str]:
    if CONTEXT.array in changed and now.shared_context and after.shared_context:
        yield (
            "one context coefficient for all m, before and after: the context term of every decision is zero; "
            "decisions move only because each further round costs more or less"
        )


def _on_loans(now: Priced, after: Priced, changed: list[str]) -> Iterator[str]:
    if EXPERTS.array not in changed and BASE.array not in changed:
        return
    for k, source in borrowed(now.model, now.costs.k_max).items():
        same = all(getattr(now.costs, q.array)[k] == getattr(after.costs, q.array)[k] for q in (EXPERTS, BASE))
        if now.costs.allowed[k] and not same:
            boundary = f"{k} → {k + 1}" if k == 0 else f"{k - 1} → {k} and {k} → {k + 1}"
            yield (
                f"alpha at m = {k + 1} is {source}: only beta0 + alpha · U is measured there; what the change does at "
                f"the boundary {boundary} rests on that loan"
            )


def _on_negative(now: LengthCosts, after: LengthCosts) -> Iterator[str]:
    for quantity in (EXPERTS, BASE, CONTEXT):
        old, new = getattr(now, quantity.array), getattr(after, quantity.array)
        at = np.flatnonzero((new < 0) & (new != old))
        if len(at):
            worst = at[new[at].argmin()]
            yield (
                f"{quantity.single} is negative at m = {', '.join(str(k + 1) for k in at)} after the change (least: "
                f"{new[worst]:.4g} ms at m = {worst + 1}); no device works backwards: read decisions there with doubt"
            )


def _on_refit(term: Term, now: Priced, after: Priced) -> Iterator[str]:
    if term.moves(now) and kept_mean_ms(now, after.costs) is None:
        what = "U" if _differs(now.costs, after.costs, EXPERTS.array) else "L"
        yield f"{term}: the model file does not tell the mean {what} of its rounds, so beta0 is not refitted"
