"""What is said of one decision: in words, token by token, and term by term."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.explanation import Explained, Explanation
from oracle.panels import BYTE_PIECE, CUT, MODE, SIGNS, Panel
from oracle.summaries.explanation_terms import attribution_table, changed_table, q_value_table
from oracle.tables import Column, Row, Table, number, show, words

_TERM_WORDS = ("beta0", "more experts", "dearer experts", "context", "draft", "rejection", "continuation")
_EVEN = 0.5e-3  # milliseconds: what rounds to 0.000
_SIGNED = frozenset({"next_q_changed_ms"})


def explanation_tables(one: Explained) -> list[Table]:
    """All tables of one decision: in words, its texts, every length by term and by component, the changed cost."""
    found = one.explanation
    tables = [_decision(one), _panel(one), q_value_table(found, one.costs.shared_context), attribution_table(found)]
    return [*tables, *([changed_table(found, one.changed.name)] if found.next_one or found.ablated else [])]


def _decision(one: Explained) -> Table:
    found, panel, change = one.explanation, one.panel, one.changed.name
    k, k0 = found.draft_length, found.changed_length
    next_q = None if found.next_one is None else float(found.next_one.changed_ms.sum())
    reach = float(found.survival[k - 1]) if k else 1.0
    scale = found.scale
    values: list[tuple[str, str, Any]] = [
        ("before", "text before the round", panel.context),
        ("context_len", "context length L, tokens", int(found.context_len)),
        ("draft_length", "k*, cost-optimal draft length", k),
        ("changed_length", f"k0*, with {change} and solved again", k0),
        ("shift", "shift, k0* − k*", found.shift),
        ("next_q_changed_ms", f"Q0(k* + 1) − Q0(k*) with {change}, ms", next_q),
        ("next_match_prob", "match probability of the token after k*", found.next_match_prob),
        ("survival", "survival S of k* draft tokens", reach),
        ("expected_advance", "expected advance, tokens", found.expected_advance),
        ("modal_advance", "modal advance, tokens", found.modal_advance),
        ("visit_prob", "probability that a round of the oracle starts here", found.visit_prob),
        ("runner_up", "runner-up, draft length", found.runner_up),
        ("q_gap_ms", "gap to the runner-up, ms", found.q_gap_ms),
        ("rest_ms", "V(t + 1), cost of all that follows, ms", found.rest_ms),
        ("scale_below", "the cut moves if all alpha are multiplied by less than", scale.below),
        ("draft_length_below", "k* then", scale.draft_length_below),
        ("scale_above", "the cut moves if all alpha are multiplied by more than", scale.above),
        ("draft_length_above", "k* then", scale.draft_length_above),
    ]
    rows = [{"key": key, "what": what, "value": value} for key, what, value in values]
    columns = (words("", "what"), Column("", _value, text=True))
    said = [*_sentences(found, panel, change), *one.notes, panel.caption]
    return Table("decision", panel.title, columns, rows, said)


def _value(row: Row) -> str:
    value = row["value"]
    if isinstance(value, str):
        return value
    return f"{value:+d}" if row["key"] == "shift" else show(value, "+.4f" if row["key"] in _SIGNED else ".4f")


def _sentences(found: Explanation, panel: Panel, change: str) -> list[str]:
    k = found.draft_length
    said = [f"the oracle drafts {_tokens(k)} here{_matched(panel, k)}"]
    if found.runner_up is not None:
        close = ": as good as a tie" if found.q_gap_ms < _EVEN else ""
        said.append(
            f"drafting {_tokens(found.runner_up)} instead would cost {show(found.q_gap_ms, '.4f')} ms more{close}; "
            f"{_why(found.terms_ms[int(np.searchsorted(found.lengths, found.runner_up))])}"
        )
    if found.ablated is not None:
        one = found.ablated
        more, gain = float(one.full_ms.sum()), -float(one.changed_ms.sum())
        said.append(
            f"with {change} it would draft {_tokens(found.changed_length)}, {show(gain, '.4f')} ms better there than "
            f"{_tokens(k)}; at the full cost that length is {show(more, '.4f')} ms worse: the change moves the "
            f"difference by {show(one.direct_ms, '+.4f')} ms in this round, and by {show(one.continuation_ms, '+.4f')} "
            "ms because the positions saved have another price"
        )
    else:
        said.append(f"with {change} the decision stays as it is")
    said.append(_moves(found))
    return said


def _matched(panel: Panel, k: int) -> str:
    matches = panel.recorded_matches
    if panel.draft is None:
        return "; the trace holds no proposals of the draft, so only match probabilities can be shown"
    if matches is None or not panel.draft:
        return ""
    if matches == len(panel.draft):
        return f"; all {len(panel.draft)} recorded proposals match"
    first = panel.marks[matches]
    place = "the text ends" if first == "past the end" else "the first mismatch is"
    return f"; in the recorded proposals {place} at draft token {matches + 1}, {_side(matches + 1, k)}"


def _side(j: int, k: int) -> str:
    return "beyond the cut" if j > k else "before the cut"


def _why(terms: NDArray[np.float64]) -> str:
    """Name the terms that speak most against and most for the other length."""
    worst, best = int(np.argmax(terms)), int(np.argmin(terms))
    against = f"most against it is {_TERM_WORDS[worst]} ({show(float(terms[worst]), '+.3f')} ms)"
    in_favour = f"most for it {_TERM_WORDS[best]} ({show(float(terms[best]), '+.3f')} ms)"
    return ", ".join(text for text, there in ((against, terms[worst] > 0), (in_favour, terms[best] < 0)) if there)


def _moves(found: Explanation) -> str:
    scale = found.scale
    parts = [
        f"k* becomes {k} if all alpha are multiplied by {side} than {show(at, '.4f')}"
        for side, at, k in (
            ("less", scale.below, scale.draft_length_below),
            ("more", scale.above, scale.draft_length_above),
        )
        if not math.isnan(at)
    ]
    return ", ".join(parts) or f"no scale of all alpha from 0 to {show(scale.searched_to, 'g')} moves the cut"


def _tokens(k: int) -> str:
    return "no token" if k == 0 else "1 token" if k == 1 else f"{k} tokens"


def _panel(one: Explained) -> Table:
    found, panel = one.explanation, one.panel
    rows: list[Row] = []
    for j in range(max(len(panel.target), len(panel.draft or ()))):
        emitted = panel.target[j] if j < len(panel.target) else None
        proposed = panel.draft[j] if panel.draft is not None and j < len(panel.draft) else None
        mark = panel.marks[j] if proposed is not None else None
        rows.append(
            {
                "step": j + 1,
                "target_text": None if emitted is None else emitted.text,
                "target_id": None if emitted is None else emitted.token_id,
                "draft_text": None if proposed is None else proposed.text,
                "draft_id": None if proposed is None else proposed.token_id,
                "target": None if emitted is None else emitted.cut(24),
                "draft": None if proposed is None else proposed.cut(24),
                "mark": mark,
                "sign": None if mark is None else SIGNS[mark],
                "beyond_the_cut": j >= panel.draft_length,
                "lines": _lines(panel, j),
                "match_prob": _at(found.match_prob, j),
                "survival": _at(found.survival, j),
                "new_experts": _at(panel.new_experts, j),
                "unique_experts": _at(found.unique_experts, j),
            }
        )
    draft = panel.draft is not None
    columns = (
        number("j", "step"),
        words("target", "target"),
        *((words("draft", "draft"), words("", "sign")) if draft else ()),
        words("cut", "lines"),
        number("match\nprob", "match_prob"),
        number("survival", "survival"),
        number("new\nexperts", "new_experts", ".2f"),
        number("U", "unique_experts", ".2f"),
    )
    title = f"Target and draft from position {found.position} on, k* = {panel.draft_length}"
    return Table("panel", title, columns, rows, _panel_notes(found, panel, one.problem.experts_from))


def _at(values: NDArray[np.float64], j: int) -> float | None:
    return float(values[j]) if j < len(values) else None


def _lines(panel: Panel, j: int) -> str:
    """What stands between the tokens, in the row of the token behind it; then the modal advance's last token."""
    cut = CUT if j == panel.draft_length else " "
    beyond = "beyond" if j >= panel.draft_length else "drafted"
    return f"{cut} {beyond}{f' {MODE}' if j + 1 == panel.modal_advance else ''}"


def _panel_notes(found: Explanation, panel: Panel, experts_from: str) -> list[str]:
    legend = f"{CUT} the cut: rows from here on are not drafted; {MODE} the last token of the modal advance"
    signs = "; = match, × first mismatch, · behind it (no comparison), – past the end of the text"
    said = [legend + (signs if panel.draft is not None else ""), "␣ space, ↵ line break, ⇥ tab"]
    if not panel.has_text:
        said.append("the trace holds no texts: tokens are shown by id" if panel.target[0].token_id is not None else
                    "the trace holds neither texts nor ids of tokens")  # fmt: skip
    if panel.byte_pieces:
        said.append(
            f"{BYTE_PIECE} stands for a byte piece of a character: a token may hold part of one; the id follows"
        )
    if panel.draft is not None:
        said.append(
            "a sign compares the recorded proposal with the text; the oracle counts match probabilities, not signs"
        )
    said.append(
        {
            "recorded": "U as recorded: of the tokens really verified, wrong continuations included",
            "routing": "U from routing along the text: experts of rejected proposals are not in it",
            "none": "the trace holds no expert columns: experts cost nothing here",
        }[experts_from]
    )
    if experts_from == "routing" and found.position + int(found.lengths[-1]) >= found.positions:
        said.append("a pass that reaches past the end of the text touches no known experts there: U is a lower bound")
    return said
