"""HTML and XML: tags, comments and entities, and what stands between tags that mark code."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from oracle.contexts.characters import Characters
from oracle.contexts.labels import Label, Mode

PAGE_SHARE = 0.1  # of a text's characters inside tags: more, and its text stands between tags, not in lines of code
_NAMES = (
    "a|abbr|acronym|address|article|aside|b|blockquote|body|br|button|caption|center|cite|code|col|dd|del|details|div|dl|"
    "dt|em|figcaption|figure|font|footer|form|h[1-6]|head|header|hr|html|i|iframe|img|input|ins|kbd|label|li|link|main|"
    "meta|nav|ol|option|p|pre|q|s|samp|script|section|select|small|span|strong|style|sub|summary|sup|svg|table|tbody|td|"
    "textarea|tfoot|th|thead|title|tr|tt|u|ul|var|video"
)
_VALUE = r"(?:\"[^\"<>]*\"|'[^'<>]*'|[^\s<>\"']+)"
_KNOWN = rf"</?(?:{_NAMES})(?=[\s>/]|\Z)"
_TAG = re.compile(
    rf"<!--.*?(?:-->|(?=\n\s*\n)|\Z)|<!DOCTYPE[^>]*>|<\?xml[^>]*>"
    r"|</?\Z"
    rf"|(?:{_KNOWN}|</[A-Za-z][\w:.-]*|<[A-Za-z][\w:.-]*(?=\s+[\w:-]+\s*=\s*[\"']|\s*/>))"
    rf"(?:(?:\s+[\w:@-]+(?:\s*=\s*{_VALUE})?)*\s*/?>|[^<>\n]*(?:\n(?!\s*\n)[^<>\n]*)*>?)",
    re.DOTALL,
)
_ENTITY = re.compile(r"&(?:#\d{1,7}|#x[0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
_CLOSES_A_TAG = re.compile(r"[^<>\n]*(?:\n(?!\s*\n)[^<>\n]*)*>")
_IN_A_TAG = re.compile(r"[^<>]*?[\w-]=\"[^<>]*?(?=\n\s*\n|<|\Z)|[^<>\n]*\"[^<>\n]*>|\s*[\w/-]*\s*/?>")
_OPENS_CODE = re.compile(r"<(pre|code|script|style)\b", re.IGNORECASE)
_LANGUAGE_OF = {"script": "javascript", "style": "css"}


class Marked(NamedTuple):
    """A stretch that tags mark as code, and the language if they say so."""

    start: int
    stop: int
    language: str | None


def is_page(text: str) -> bool:
    """Tell whether a text is HTML or XML through and through."""
    tags = list(_TAG.finditer(text))
    inside = sum(tag.end() - tag.start() for tag in tags)
    return len(tags) >= 2 and inside >= PAGE_SHARE * len(text)


def tags_of(text: str, start: int, stop: int, *, page: bool) -> list[tuple[int, int]]:
    """Find the tags of a stretch, in order.

    A tag that is never closed ends before the next one or a blank line. In a page, the text may begin inside a tag.
    """
    found = []
    if page and start == 0 and (first := _begins_inside(text)):
        found.append((0, first))
        start = first
    found.extend((match.start(), match.end()) for match in _TAG.finditer(text, start, stop))
    return found


def _begins_inside(text: str) -> int:
    """Give where the tag ends that a text begins in, 0 if it begins in none."""
    match = _IN_A_TAG.match(text)
    if match is None:
        return 0
    closing = _CLOSES_A_TAG.match(text)
    return closing.end() if closing is not None else match.end()


def marked_code(text: str, tags: list[tuple[int, int]]) -> Iterator[Marked]:
    """Find what stands between the tags of ``pre``, ``code``, ``script`` and ``style``."""
    closing_name, language, begin = "", None, 0
    for start, stop in tags:
        tag = text[start:stop].lower()
        if closing_name and tag.startswith(closing_name):
            yield Marked(begin, start, language)
            closing_name = ""
        elif not closing_name and not tag.endswith("/>") and (opening := _OPENS_CODE.match(tag)) is not None:
            closing_name, begin = f"</{opening[1]}", stop
            language = _LANGUAGE_OF.get(opening[1])


def paint_tags(characters: Characters, text: str, tags: list[tuple[int, int]]) -> None:
    """Label tags and HTML comments."""
    for start, stop in tags:
        characters.paint(start, stop, Label.MARKUP, Mode.MARKUP)
        characters.control_flow[start:stop] = False
        characters.function_start[start:stop] = False
        if text.startswith("<!--", start):
            characters.comment[start:stop] = True


def paint_entities(characters: Characters, text: str, start: int, stop: int) -> None:
    """Label entities; they stay in the mode they stand in."""
    for match in _ENTITY.finditer(text, start, stop):
        characters.paint(match.start(), match.end(), Label.MARKUP)
