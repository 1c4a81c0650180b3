"""Draw the tokens that were labelled by hand, without labels: ``python tests/labelled_tokens/draw.py > drawn.jsonl``.

Nothing here knows a label: positions are ordered by a digest of their name, so the first stratum looks at no token, and
no version of a random generator matters. The other strata look for surface signs of what is rare, so that it is there
at all: they say nothing about frequencies.
"""

import hashlib
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

HERE = Path(__file__).parent
TRACES = HERE.parents[1] / "cases" / "tiny-moe" / "traces.parquet"
BEFORE, AFTER = 60, 30  # characters of context in a row
WANTED = {"anywhere": 5, "contact": 1, "keyword": 1, "cue": 1}  # tokens a generation
SAME = 20  # characters: a loop repeats a token after the same text; it is drawn once

CONTACT = re.compile(r"[A-Za-z][^A-Za-zА-яЁё]*[А-яЁё]|[А-яЁё][^A-Za-zА-яЁё]*[A-Za-z]")
KEYWORDS = re.compile(
    "def|class|if|elif|else|for|while|do|switch|case|default|break|continue|return|yield|raise|throw|try|except|catch|"
    "finally|goto|static|int|struct|void|function"
)
# Pieces of the unmarked parts of a snippet: words and numbers with the space before them, signs, white space.
PIECES = re.compile(r" ?[^\W\d_]+| ?\d+| ?(?:[^\w\s]|_)+|\s+(?!\S)|\s+")


def _row(source: str, name: str, texts: list[str], position: int, **more: Any) -> dict[str, Any]:
    """Name a token and show its surroundings."""
    return {
        "source": source,
        "name": name,
        **more,
        "position": position,
        "token": texts[position],
        "before": "".join(texts[max(position - BEFORE, 0) : position])[-BEFORE:],
        "after": "".join(texts[position + 1 : position + 1 + AFTER])[:AFTER],
    }


def _order(generation: str, count: int) -> list[int]:
    """Shuffle the positions after the first by the digest of their names."""
    return sorted(range(1, count), key=lambda t: hashlib.sha256(f"{generation}:{t}".encode()).digest())


def _fits(stratum: str, texts: list[str], t: int) -> bool:
    """Tell whether a position shows the surface sign of a stratum."""
    before = "".join(texts[max(t - 4, 0) : t])
    if stratum == "contact":  # Latin and Cyrillic meet between this token and the few before it
        return len(CONTACT.findall(before + texts[t])) > len(CONTACT.findall(before))
    if stratum == "keyword":  # in sentences too
        return KEYWORDS.fullmatch(texts[t].strip()) is not None
    if stratum == "cue":  # after a blank line or a tag, or where a tag opens
        return bool(texts[t].strip()) and (before.endswith(("\n\n", ">")) or "<" in texts[t])
    return True


def _positions(generation: str, texts: list[str]) -> Iterator[tuple[int, str]]:
    """Choose positions, stratum by stratum."""
    seen: set[str] = set()
    for stratum, wanted in WANTED.items():
        left = wanted
        for t in _order(generation, len(texts)):
            context = "".join(texts[max(t - SAME, 0) : t])[-SAME:] + texts[t]
            if left and context not in seen and _fits(stratum, texts, t):
                seen.add(context)
                left -= 1
                yield t, stratum


def from_traces() -> Iterator[dict[str, Any]]:
    """Rows of recorded tokens, never the first of a generation."""
    columns = ["generation", "category", "decoding", "token_id", "token_text"]
    for trace in pq.read_table(TRACES, columns=columns).to_pylist():
        texts = trace["token_text"]
        for t, stratum in sorted(_positions(trace["generation"], texts)):
            more = {"category": trace["category"], "decoding": trace["decoding"], "stratum": stratum}
            yield _row("trace", trace["generation"], texts, t, **more, token_id=trace["token_id"][t])


def read_snippets() -> dict[str, tuple[list[str], list[int]]]:
    """Token texts of each snippet and the positions of its marked tokens."""
    parts = re.split(r"^%%%% (\S+)\n", (HERE / "snippets.txt").read_text(encoding="utf-8"), flags=re.MULTILINE)
    snippets = {}
    for name, text in zip(parts[1::2], parts[2::2], strict=True):
        texts: list[str] = []
        marked: list[int] = []
        for k, stretch in enumerate(re.split(r"⟦(.+?)⟧", text.removesuffix("\n"), flags=re.DOTALL)):
            if k % 2:
                marked.append(len(texts))
            texts.extend([stretch] if k % 2 else PIECES.findall(stretch))
        snippets[name] = (texts, marked)
    return snippets


def from_snippets() -> Iterator[dict[str, Any]]:
    """Rows of the marked tokens of snippets written for this sample."""
    for name, (texts, marked) in read_snippets().items():
        for t in marked:
            yield _row("snippet", name, texts, t)


def draw() -> list[dict[str, Any]]:
    """All rows of the sample, without labels."""
    return [*from_traces(), *from_snippets()]


if __name__ == "__main__":
    for row in draw():
        sys.stdout.write(json.dumps(row, ensure_ascii=False) + "\n")
