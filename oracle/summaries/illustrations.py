"""What is shown of chosen decisions: one row a decision, and the rules they were chosen by."""

import math
from collections.abc import Sequence

from oracle.illustrations import Chosen, Illustration
from oracle.panels import Token, visible
from oracle.tables import Column, Row, Table, number, show, words

_BEFORE, _AFTER = 24, 12  # characters of the text around
_MOST_TEXT = 120  # characters
_NOT_DRAFTED = 3  # tokens shown after the cut


def illustration_tables(cases: Chosen | None = None, gallery: Chosen | None = None) -> list[Table]:
    """One table of the cases, one of the gallery; with the rules, what was gone through and what was not found."""
    tables = []
    if cases is not None:
        title = f"{_many(cases, 'case')} in which {cases.change} moves the cut, chosen by rule: no sample"
        tables.append(_table("cases", title, cases, ()))
    if gallery is not None:
        title = f"Gallery of {_many(gallery, 'decision')}, chosen by rule: no sample"
        tables.append(_table("gallery", title, gallery, (words("rule", "rule"),)))
    return tables


def _many(chosen: Chosen, what: str) -> str:
    count = len(chosen.illustrations)
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _table(name: str, title: str, chosen: Chosen, rule: Sequence[Column]) -> Table:
    rows = [_row(number, one) for number, one in enumerate(chosen.illustrations, 1)]
    columns = (
        number("no.", "number"),
        *rule,
        words("generation", "generation"),
        number("t", "position"),
        words("category", "category"),
        number("k*", "draft_length"),
        number("k0*", "changed_length"),
        number("next\nmatches", "next_match_prob"),
        number("Q0(k* + 1)\n− Q0(k*)", "next_q_changed_ms", "+.3f"),
        number("Q(k* + 1)\n− Q(k*)", "next_q_ms", "+.3f"),
        number("of that\nexperts", "next_expert_ms", "+.3f"),
        number("visit", "visit_prob", ".2f"),
        Column("cut moves at\nalpha ×", _scales),
        words("text ▸ drafted | not drafted", "text", _MOST_TEXT),
    )
    said = [one for illustration in chosen.illustrations for one in illustration.explained.notes]
    notes = [
        *(f"not found: {sentence}" for sentence in chosen.missing),
        f"k0*, Q0: with {chosen.change}, solved again; milliseconds; visit: the probability that a round starts there",
        "of that experts: more experts and dearer experts, in this round; ␣ space, ↵ line break, ⇥ tab",
        *chosen.rules,
        *chosen.found,
        *dict.fromkeys(said),
    ]
    return Table(name, title, columns, rows, notes)


def _scales(row: Row) -> str:
    parts = [
        f"{show(row[f'scale_{side}'], '.3f')} → {row[f'draft_length_{side}']}"
        for side in ("below", "above")
        if row[f"draft_length_{side}"] is not None
    ]
    return ", ".join(parts) or f"none to {show(row['searched_to'], 'g')}"


def _row(order: int, one: Illustration) -> Row:
    found, candidate, panel = one.explained.explanation, one.candidate, one.explained.panel
    next_one, scale, k = found.next_one, found.scale, found.draft_length
    expert = None if next_one is None else float(next_one.full_ms[1] + next_one.full_ms[2])
    before, drafted, after = panel.before, panel.target[:k], panel.target[k : k + _NOT_DRAFTED]
    known = any(token.text is not None or token.token_id is not None for token in panel.target)
    return {
        "number": order,
        "group": one.group,
        "rule": candidate.rule,
        "differs_in": list(one.differs_in),
        "generation": candidate.generation,
        "position": candidate.position,
        "category": candidate.category or None,
        "cluster": candidate.cluster,
        "draft_length": k,
        "changed_length": found.changed_length,
        "next_match_prob": found.next_match_prob,
        "next_q_changed_ms": None if next_one is None else float(next_one.changed_ms.sum()),
        "next_q_ms": None if next_one is None else float(next_one.full_ms.sum()),
        "next_expert_ms": expert,
        "visit_prob": found.visit_prob,
        "effect": candidate.effect,
        "scale_below": None if math.isnan(scale.below) else scale.below,
        "draft_length_below": scale.draft_length_below,
        "scale_above": None if math.isnan(scale.above) else scale.above,
        "draft_length_above": scale.draft_length_above,
        "searched_to": scale.searched_to,
        "recorded_matches": panel.recorded_matches,
        "before": _joined(before),
        "drafted": _joined(drafted),
        "not_drafted": _joined(after),
        "text": None if not known else f"{_end(_joined(before))} ▸ {_joined(drafted)} | {_start(_joined(after))}",
    }


def _joined(tokens: Sequence[Token]) -> str:
    """The text of tokens, made visible; their ids where there is no text."""
    if all(token.text is not None for token in tokens):
        return visible("".join(token.text or "" for token in tokens))
    return " ".join(token.shown for token in tokens)


def _end(text: str) -> str:
    return text if len(text) <= _BEFORE else "…" + text[1 - _BEFORE :]


def _start(text: str) -> str:
    return text if len(text) <= _AFTER else text[: _AFTER - 1] + "…"
