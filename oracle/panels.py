"""A decision as text: what the target emitted, what the draft proposed, where they part, and where the cut lies.

A panel is data only, so that one decision or a gallery of many can be shown in a table, a figure or a page.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from oracle.errors import printable
from oracle.traces import Traces

Mark = Literal["match", "first mismatch", "after the mismatch", "past the end", "unknown"]
SIGNS: dict[Mark, str] = {
    "match": "=",
    "first mismatch": "×",
    "after the mismatch": "·",
    "past the end": "–",
    "unknown": "?",
}
CUT, MODE = "|", "^"
BYTE_PIECE = "\ufffd"
CONTEXT_TOKENS = 24
CONTEXT_CHARACTERS = 72
LONGEST = 14  # characters of a token
COLUMNS = ("token_id", "token_text", "draft_token_id", "draft_text")

_FEW_SPACES = 3
_SIGN = re.compile(r"\\(?:x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8}|[nrt])|␣\(\d+\)|.", re.DOTALL)  # read as one


def visible(text: str) -> str:
    r"""Write a text so that every character can be seen and none does anything.

    Spaces at either end show as ``␣``, more than three of them as their number; a line break shows as ``↵``, a tab as
    ``⇥``; other control characters, and those that turn the direction of writing, are escaped.

    Examples
    --------
    >>> visible(" of"), visible("\n        x"), visible("\x1b[2J")
    ('␣of', '↵␣(8)x', '\\x1b[2J')
    """

    def spaces(found: re.Match[str]) -> str:
        count = len(found.group())
        return "␣" * count if count <= _FEW_SPACES else f"␣({count})"

    shown = re.sub(r"^ +| +$|(?<=[\n\t]) +| +(?=[\n\t])| {2,}", spaces, text)
    return printable(shown.replace("\n", "↵").replace("\t", "⇥"), most=10 * len(shown) + 10)


@dataclass(frozen=True)
class Token:
    """A token as a trace holds it; either part may be missing."""

    text: str | None
    token_id: int | None

    @property
    def shown(self) -> str:
        """Its text made visible; its id where there is no text, or only a byte piece of a character."""
        number = "" if self.token_id is None else f"#{self.token_id}"
        if self.text is None:
            return number or "?"
        return visible(self.text) + (number if BYTE_PIECE in self.text else "")

    def cut(self, most: int = LONGEST) -> str:
        """The same, cut to `most` characters; never inside an escape or a count of spaces."""
        if len(self.shown) <= most:
            return self.shown
        kept = self.shown[: most - 1]
        whole = (found.end() for found in _SIGN.finditer(self.shown))
        return kept[: max((end for end in whole if end <= len(kept)), default=0)] + "…"


@dataclass(frozen=True)
class Panel:
    """One decision.

    Attributes
    ----------
    title, caption
        What it is, and what it rests on.
    before
        The last tokens before the round starts.
    target
        What the target emitted from the position on, up to K + 1 tokens; fewer at the end of the text.
    draft
        The recorded proposals from the position on, up to K tokens; None where the trace has none.
    marks
        Of each proposal against the target's token.
    match_prob : (K,) float64
        Conditional match probability of each draft token, NaN past the end of the text.
    new_experts : (K + 1,) float64
        Experts that each position adds to the pass, mean per layer.
    draft_length, changed_length
        k*, and the optimum under the changed cost: cuts after so many draft tokens.
    modal_advance
        The most probable number of tokens that the round emits.
    """

    title: str
    caption: str
    before: tuple[Token, ...]
    target: tuple[Token, ...]
    draft: tuple[Token, ...] | None
    marks: tuple[Mark, ...]
    match_prob: NDArray[np.float64]
    new_experts: NDArray[np.float64]
    draft_length: int
    changed_length: int
    modal_advance: int

    @property
    def context(self) -> str:
        """The end of the text before the round, made visible; ids where there is no text."""
        if all(token.text is not None for token in self.before):
            whole = visible("".join(token.text or "" for token in self.before))
        else:
            whole = " ".join(token.shown for token in self.before)
        return whole if len(whole) <= CONTEXT_CHARACTERS else "…" + whole[1 - CONTEXT_CHARACTERS :]

    @property
    def has_text(self) -> bool:
        """Whether every target token shown has a text."""
        return all(token.text is not None for token in self.target)

    @property
    def byte_pieces(self) -> bool:
        """Whether a token shown is only a piece of a character."""
        everything = (*self.before, *self.target, *(self.draft or ()))
        return any(BYTE_PIECE in (token.text or "") for token in everything)

    @property
    def recorded_matches(self) -> int | None:
        """How many recorded proposals match before the first that does not; None without proposals."""
        if self.draft is None or "unknown" in self.marks:
            return None
        return self.marks.count("match")


def make_panel(
    traces: Traces,
    position: int,
    k_max: int,
    *,
    title: str,
    caption: str,
    match_prob: NDArray[np.float64],
    new_experts: NDArray[np.float64],
    draft_length: int,
    changed_length: int,
    modal_advance: int,
) -> Panel:
    """Gather one decision's texts.

    Parameters
    ----------
    traces
        One generation, with those of `COLUMNS` that there are.
    position
        t, 0 … N - 1.
    k_max
        K: so many proposals are shown, and one token more of the target.

    The other parameters are those of `Panel`.
    """
    columns = {name: _column(traces, name) for name in COLUMNS}
    begin, end = max(0, position - CONTEXT_TOKENS), min(position + k_max + 1, traces.positions)
    emitted = columns["token_text"], columns["token_id"]
    target = _tokens(*emitted, position, end)
    texts, ids = (
        None if rows is None else rows[position] for rows in (columns["draft_text"], columns["draft_token_id"])
    )
    draft = None
    if texts is not None or ids is not None:
        draft = _ended(_tokens(texts, ids, 0, min(k_max, max(len(texts or ()), len(ids or ())))))
    return Panel(
        title=title,
        caption=caption,
        before=_tokens(*emitted, begin, position),
        target=target,
        draft=draft,
        marks=marks_of(target, draft or ()),
        match_prob=match_prob,
        new_experts=new_experts,
        draft_length=draft_length,
        changed_length=changed_length,
        modal_advance=modal_advance,
    )


def marks_of(target: Sequence[Token], draft: Sequence[Token]) -> tuple[Mark, ...]:
    """Compare proposals with what the target emitted: ids where both have them, else texts.

    After the first mismatch the draft goes on from its own token: nothing behind it counts as a match.
    """
    marks: list[Mark] = []
    parted = False
    for j, proposed in enumerate(draft):
        mark: Mark = "after the mismatch" if parted else _mark(target[j] if j < len(target) else None, proposed)
        parted = parted or mark == "first mismatch"
        marks.append(mark)
    return tuple(marks)


def _mark(emitted: Token | None, proposed: Token) -> Mark:
    if emitted is None:
        return "past the end"
    for had, said in ((emitted.token_id, proposed.token_id), (emitted.text, proposed.text)):
        if had is not None and said is not None:
            return "match" if had == said else "first mismatch"
    return "unknown"


def _column(traces: Traces, name: str) -> list[Any] | None:
    """One generation's column as Python lists; None where the trace lacks it."""
    if name not in traces.table.column_names:
        return None
    found: list[Any] = traces.table.column(name)[0].as_py()
    return found


def _tokens(texts: list[Any] | None, ids: list[Any] | None, begin: int, end: int) -> tuple[Token, ...]:
    def at(values: list[Any] | None, i: int) -> Any:
        return None if values is None or i >= len(values) else values[i]

    return tuple(Token(at(texts, i), at(ids, i)) for i in range(begin, end))


def _ended(chain: tuple[Token, ...]) -> tuple[Token, ...]:
    """A negative id ends a chain."""
    ends = (j for j, token in enumerate(chain) if token.token_id is not None and token.token_id < 0)
    return chain[: next(ends, len(chain))]
