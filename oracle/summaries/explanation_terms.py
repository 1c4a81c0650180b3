"""What every draft length would cost at one decision, term by term and component by component."""

from oracle.ablation import TERMS
from oracle.explanation import COMPONENTS, Comparison, Explanation
from oracle.tables import Column, Row, Table, number, show, words

_TERM_HEADS = ("beta0", "more\nexperts", "dearer\nexperts", "context", "draft", "rejection", "continuation")
_COMPONENT_HEADS = ("beta0", "experts", "context", "draft", "rejection")


def q_value_table(found: Explanation, shared_context: bool) -> Table:
    """Q of every length, and its difference from Q(k*) term by term."""
    rows: list[Row] = [
        {
            "draft_length": int(k),
            "marker": _marker(found, int(k)),
            "q_ms": float(found.q_ms[i]),
            "changed_q_ms": float(found.changed_q_ms[i]),
            **dict(zip(TERMS, found.terms_ms[i].tolist(), strict=True)),
            "q_difference_ms": float(found.terms_ms[i].sum()),
        }
        for i, k in enumerate(found.lengths)
    ]
    columns = (
        number("k", "draft_length"),
        words("", "marker"),
        number("Q − V(t + 1)", "q_ms", ".4f"),
        *(number(head, term, "+.3f") for head, term in zip(_TERM_HEADS, TERMS, strict=True)),
        number("= Q − Q(k*)", "q_difference_ms", "+.4f"),
    )
    notes = ["Q(t, k) − V(t + 1): cost of the round less the price of the positions it is expected to save"]
    notes += ["dearer experts: this length's alpha on the same experts; continuation: minus the positions saved"]
    if shared_context:
        notes.append("one context coefficient for all m: the context term of the round is 0")
    return Table("q_values", "What every draft length would cost, and why, milliseconds", columns, rows, notes)


def _marker(found: Explanation, k: int) -> str:
    names = [
        name for name, at in (("k*", found.draft_length), ("k0*", found.changed_length), ("2nd", found.runner_up))
        if at == k
    ]  # fmt: skip
    return " ".join(names)


def attribution_table(found: Explanation) -> Table:
    """The same difference by cost component, the price of the positions saved split as well."""
    rows = []
    for k in found.lengths.tolist():
        parts = found.attributed_ms(k)
        rows.append(
            {
                "draft_length": k,
                "marker": _marker(found, k),
                **{name: float(parts[c].sum()) for c, name in enumerate(COMPONENTS)},
                **{f"round_{name}": float(parts[c, 0]) for c, name in enumerate(COMPONENTS)},
                **{f"saved_{name}": float(parts[c, 1]) for c, name in enumerate(COMPONENTS)},
                "q_difference_ms": float(parts.sum()),
            }
        )
    there = [
        (head, name) for head, name in zip(_COMPONENT_HEADS, COMPONENTS, strict=True) if any(row[name] for row in rows)
    ]
    columns = (
        number("k", "draft_length"),
        words("", "marker"),
        *(_split(head, name) for head, name in there),
        number("= Q − Q(k*)", "q_difference_ms", "+.4f"),
    )
    notes = [
        "in brackets: in this round; at the positions saved. With the oracle's policy followed afterwards the cost is "
        "linear in the coefficients, so the price of a position splits by what would be paid there"
    ]
    title = "Q − Q(k*) by cost component, all that follows included, milliseconds"
    return Table("attribution", title, columns, rows, notes)


def _split(head: str, name: str) -> Column:
    def cell(row: Row) -> str:
        total, here, saved = (show(row[key], "+.3f") for key in (name, f"round_{name}", f"saved_{name}"))
        return f"{total} [{here}; {saved}]"

    return Column(head, cell)


def changed_table(found: Explanation, change: str) -> Table:
    """How the changed cost turns Q - Q(k*) into Q0 - Q0(k*): in this round, and in the continuation."""
    pairs: list[tuple[str, Comparison | None]] = [("k* + 1", found.next_one), ("k0*", found.ablated)]
    rows: list[Row] = [
        {
            "against": f"{name} = {one.draft_length}",
            "draft_length": one.draft_length,
            "q_difference_ms": float(one.full_ms.sum()),
            "direct_ms": one.direct_ms,
            "continuation_ms": one.continuation_ms,
            "changed_q_difference_ms": float(one.changed_ms.sum()),
        }
        for name, one in pairs
        if one is not None
    ]
    columns = (
        words("against k*", "against"),
        number("Q − Q(k*)", "q_difference_ms", "+.4f"),
        number("this round\nchanges by", "direct_ms", "+.4f"),
        number("continuation\nchanges by", "continuation_ms", "+.4f"),
        number("= Q0 − Q0(k*)", "changed_q_difference_ms", "+.4f"),
    )
    notes = [
        "continuation: the positions saved are priced by the policy that is optimal under the changed cost, d0 for d"
    ]
    return Table("changed", f"What {change} changes of the comparison, milliseconds", columns, rows, notes)
