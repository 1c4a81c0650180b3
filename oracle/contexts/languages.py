"""Programming languages: which one a stretch of code is in, and the lexer of each."""

import re
from functools import cache

from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

_SIGNS = {
    "python": re.compile(
        r'(?m)^\s*(?:def|class|elif|except|import|from|with|try:|else:|@)\b|\bself\b|\bNone\b|:\s*$|"""|^\s*#\s'
    ),
    "c": re.compile(
        r"(?m);\s*$|^\s*\}|\{\s*$|^\s*#\s*(?:include|define|if|ifdef|ifndef|endif)\b|->|/\*|\*/"
        r"|^\s*(?:static|struct|int|char|void|unsigned|const char)\b"
    ),
    "javascript": re.compile(r"\bfunction\b|(?m:^\s*(?:const|let|var)\b)|=>|===|\bnew\b|\$\{|document\."),
    "bash": re.compile(
        r"(?m)^\s*(?:\$ |#!/|sudo\b|cd\b|git\b|pip3?\b|python3? -|apt\b|make\b|cc\b|gcc\b|echo\b|export\b)|\s--?[a-z]"
    ),
}
_WEIGHTS = {"python": 1.0, "c": 1.0, "javascript": 2.0, "bash": 1.0}


def guessed_language(code: str) -> str:
    """Guess the language of code from words and signs that others lack; Python where nothing speaks for any.

    Examples
    --------
    >>> guessed_language("int main(void) { return 0; }")
    'c'
    """
    scores = {name: _WEIGHTS[name] * len(signs.findall(code)) for name, signs in _SIGNS.items()}
    return max(scores, key=lambda name: scores[name])


@cache
def lexer_of(name: str) -> Lexer | None:
    """Give the lexer of a language by the name a fence calls it; None for a name that Pygments does not know."""
    try:
        lexer: Lexer = get_lexer_by_name(name, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None
    return lexer
