"""Code, markup and comments against other readers, and what a text that never closes what it opens does to them."""

import difflib
import html.parser
import io
import json.decoder
import keyword
import textwrap
import tokenize
from pathlib import Path

import pytest

from oracle.contexts import FLAGS, Label, Mode, labels_of
from oracle.contexts import name_of as word

CONSTANTS = {"None", "True", "False"}
PAGE = """<html>
 <head><title>The title</title><style>p { color: red }</style></head>
 <body class="main">
  <!-- an old
       entry -->
  <p id='one'>A line<br/>and &amp; another.</p>
  <ul><li>First</li><li><a href="page.html">Second</a></li></ul>
  <script>
  let open = true;
  </script>
 </body>
</html>
"""


def by_character(text):
    """Name of label and of mode of every character as a token of its own."""
    found = labels_of(list(text))
    labels = [word(Label(label)) for label in found.label]
    return labels, [word(Mode(mode)) for mode in found.mode], found


def labels_in(text, part):
    """Labels of the visible characters of the first occurrence of a part of a text."""
    at = text.index(part)
    labels, _, _ = by_character(text)
    return {labels[i] for i in range(at, at + len(part)) if not text[i].isspace()}


def flagged(text, flag):
    """What the characters with a flag spell, blanks left out."""
    found = getattr(labels_of(list(text)), flag)
    return "".join(c for c, there in zip(text, found, strict=True) if there and not c.isspace())


@pytest.mark.parametrize("module", [textwrap, json.decoder, difflib])
def test_python_is_read_as_its_own_tokenizer_reads_it(module):
    text = Path(module.__file__).read_text(encoding="utf-8")
    found = labels_of(list(text))
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    right, wrong = 0, []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        at = starts[token.start[0] - 1] + token.start[1]
        reserved = keyword.iskeyword(token.string) and token.string not in CONSTANTS
        expected = {
            tokenize.NAME: Label.CODE_STRUCTURE if reserved else Label.CODE_VOCABULARY,
            tokenize.OP: Label.CODE_STRUCTURE,
            tokenize.NUMBER: Label.CODE_VOCABULARY,
            tokenize.COMMENT: Label.CODE_STRUCTURE,
        }.get(token.type)
        if expected is None:
            continue
        comment = token.type == tokenize.COMMENT
        ok = found.label[at] == expected and found.comment[at] == comment
        right += ok
        wrong += [] if ok else [token]
    assert right > 500
    assert len(wrong) <= 0.01 * (right + len(wrong)), wrong


class Reader(html.parser.HTMLParser):
    """Offsets of the text between tags, by the parser of the standard library."""

    def __init__(self, text):
        super().__init__(convert_charrefs=False)
        self.starts = [0]
        for line in text.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))
        self.between = set()
        self.feed(text)

    def handle_data(self, data):
        line, column = self.getpos()
        at = self.starts[line - 1] + column
        self.between.update(range(at, at + len(data)))

    def handle_entityref(self, name):
        line, column = self.getpos()
        at = self.starts[line - 1] + column
        self.between.update(range(at, at + len(name) + 2))


def test_tags_are_those_of_an_html_parser():
    between = Reader(PAGE).between
    _, modes, found = by_character(PAGE)
    for i, character in enumerate(PAGE):
        if not character.isspace():
            assert (modes[i] != "markup") == (i in between), PAGE[i : i + 20]
    assert flagged(PAGE, "comment") == "<!--anoldentry-->"
    assert {modes[PAGE.index(part)] for part in ("color", "let open")} == {"code"}
    assert {modes[PAGE.index(part)] for part in ("The title", "Second")} == {"prose"}
    assert labels_in(PAGE, "&amp;") <= {"markup", "mode_change"}
    assert found.mode[PAGE.index("&amp;")] == Mode.PROSE


@pytest.mark.parametrize("quote", ["'", '"'])
def test_an_unclosed_quote_ends_with_its_line(quote):
    text = f"def f(self):\n    name = {quote}open\n    return self.name(1)\n"
    assert labels_in(text, "return") == {"code_structure"}
    assert labels_in(text, "self.name") == {"code_vocabulary", "code_structure"}
    assert flagged(text, "control_flow") == "return"


def test_an_unclosed_docstring_ends_where_code_goes_on():
    text = 'def f(self):\n    """Give the name.\n\n    More words here.\n    if self.name:\n        return 1\n'
    assert labels_in(text, "More words here.") == {"code_comment"}
    assert labels_in(text, "return") == {"code_structure"}
    assert flagged(text, "comment") == '"""Givethename.Morewordshere.'


def test_an_example_in_a_docstring_does_not_end_it():
    text = 'def f(x):\n    """Double it.\n\n    >>> f(2)\n    4\n    y = f(3)\n    """\n    return 2 * x\n'
    assert labels_in(text, "y = f(3)") == {"code_comment"}
    assert labels_in(text, "return") == {"code_structure"}


def test_text_before_a_closing_mark_is_a_comment():
    text = 'the name of the file.\n    """\n    return self.name\n'
    assert labels_in(text, "the name of the file.") == {"code_comment"}
    text = " a copy of the licence;\n   see the file.  */\n\n#include <stdio.h>\n"
    assert labels_in(text, "copy of the licence") == {"code_comment"}
    assert labels_in(text, "#include") == {"code_structure"}
    assert labels_in(text, "stdio") == {"code_vocabulary"}


def test_white_space_in_code_is_formatting_in_strings_and_comments_too():
    text = "x = 'a b'  # the sum\n"
    labels, _, found = by_character(text)
    assert {labels[i] for i, c in enumerate(text) if c.isspace()} == {"code_formatting"}
    assert found.comment[text.index("sum") - 1]
    assert not found.comment[text.index("#") - 1]
    assert not found.comment[-1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import os\n\nasync def close(self):\n    pass\n", "async"),
        ("static int count(const char *s)\n{\n\treturn 0;\n}\n", "static"),
        ("int count(const char *s);\nint n = 0;\n", ""),
        ("class Reader:\n    @cached\n    def read(self):\n        return 1\n", "def"),
        ("function load(name) {\n  return fetch(name);\n}\n", "function"),
        ("```rust\nfn main() {\n}\n```\n", "fn"),
    ],
)
def test_functions_begin_at_the_first_token_of_their_definition(text, expected):
    found = labels_of([piece for piece in text.replace(" ", "\0 ").replace("\n", "\0\n\0").split("\0") if piece])
    pieces = [piece for piece in text.replace(" ", "\0 ").replace("\n", "\0\n\0").split("\0") if piece]
    starts = [p.strip() for p, there in zip(pieces, found.function_start, strict=True) if there]
    assert starts == ([expected] if expected else [])


def test_control_flow_is_used_as_such():
    text = "The loop is for all, if any.\n\n```python\nfor x in xs:\n    if x is not None: s = 'for all if'\n```\n"
    assert flagged(text, "control_flow") == "forif"


@pytest.mark.parametrize("name", ["python", "c", "js", "rust", "no-such-language", ""])
def test_a_fence_is_code_in_any_language(name):
    text = f"Text first:\n\n```{name}\nvalue = read(1)\n```\n\nText after.\n"
    labels, modes, _ = by_character(text)
    inside = range(text.index("```"), text.rindex("```") + 3)
    assert [i for i in range(len(text)) if modes[i] == "code" and not text[i].isspace()] == [
        i for i in inside if not text[i].isspace()
    ]
    assert labels_in(text, "value") == {"code_vocabulary"}
    assert labels_in(text, "= ") == {"code_structure"}
    assert labels[text.rindex("```")] == "markup"
    assert labels[text.index("Text after")] == "mode_change"


def test_a_bare_fence_closes_code_that_the_text_begins_in():
    text = "    return self.name\n```\n\nIt gives the name of the file as it was read.\n"
    _, modes, _ = by_character(text)
    assert modes[text.index("return")] == "code"
    assert modes[text.index("It gives")] == "prose"


def test_names_cited_in_a_sentence_stay_prose():
    text = "The function close() returns O_RDONLY, see /etc/hosts and open(2) for more of it.\n"
    assert set(by_character(text)[1]) == {"prose"}
    assert not any(getattr(labels_of([text]), flag).any() for flag in FLAGS)


def test_lines_of_code_in_russian_text_need_no_fence():
    text = "Затем запишите значение в файл.\n\n    value = read(path)\n    print(value)\n\nПосле этого всё готово.\n"
    _, modes, _ = by_character(text)
    assert modes[text.index("Затем")] == modes[text.index("После")] == "prose"
    assert modes[text.index("value")] == modes[text.index("print")] == "code"
