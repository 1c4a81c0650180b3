"""How strongly a line looks like code rather than prose, by its own characters alone."""

import re
from functools import lru_cache

STRONG = 4.0  # no sentence looks like this
UNDECIDED = 0.0

_WORDS_OF_CODE = re.compile(r"[_()\[\]{}=<>\"'.:;*&|+-]|\d")
_STATEMENTS = re.compile(
    r"""(?x)
    (?:async[ ]+)?def\b[ ]*[^\W\d]?.*[(:,] | class[ ]+\w+[ ]*(?:\(.*\))?:$ | class[ ]\w+.*[{]$
    | @[A-Za-z_][\w.]*(?:\(.*\)?)?$
    | (?:else|try|finally):$ | except(?:[ ][\w.,() ]+)?:$ | \}?[ ]*else[ ]*\{?$ | (?:pass|break|continue);?$
    | import[ ]+[\w.]+(?:[ ]as[ ]\w+)?;?$ | from[ ]+[\w.]+[ ]+import\b | (?:export|import)[ ].*[ ]from[ ]["']
    | \#[ ]*(?:include|define|if|ifdef|ifndef|endif|elif|else|undef|pragma|error)\b(?![.,])
    | (?:"[^"]*"|'[^']*')[ ]*: | [A-Za-z_]\w*(?:\.\w+)+\(["'\w] | =[ ]*\w
    | /\* | //[ ] | >>>[ ] | \.\.\.[ ]{4} | \$[ ]+[a-z][\w./-]+ | \#!/
    | (?:const|let|var)[ ]+[\w{[].*= | (?:export[ ]+)?(?:async[ ]+)?function\b[ *]*\w*[ ]*\(
    | (?:public|private|protected)[ ]+(?:static[ ]+)?\w+ | (?:pub[ ]+)?fn[ ]+\w+ | func[ ]+[(\w]
    | [})\]]+[;,]?$ | [}][ ]*(?:else|catch|while)\b
    | (?:switch|while|for|if)[ ]*\(.*[{;)]$ | case[ ][\w'".]+:$ | (?:return|goto|break)\b[^.,]*;$
    | (?:return|raise|throw|yield|assert|del)(?:[ ]+[\w.]+[(\[]|[ ]+(?:None|True|False|self|not|0|-?\d+)\b|$)
    | [\w.\[\]'"*>-]+(?:[ ]*,[ ]*[\w.\[\]'"*]+)*[ ]*(?:[-+*/|&^%@]|//|\*\*|<<|>>|:)?=(?!=)[ ]*[\w"'(\[{\-~!&*f]
    | (?:struct|enum|union|typedef)[ ][\w ]*\{?$(?<=\{)
    """
)
_CONDITIONS = re.compile(r"(?:if|elif|while|for|with|return|raise|yield|assert|print|lambda|del|in|and|or|not)\b")
_BRANCH = re.compile(
    r"(?:if|elif|while)[ ](?:not[ ])?[\w.]+(?:\(.*\)|\[.*\])?:|for[ ]\w+(?:,[ ]\w+)*[ ]in[ ][\w.]+(?:\(.*\)|\[.*\])?:"
)
_SHELL = re.compile(
    r"(?:sudo[ ]|git[ ]|cd[ ]|pip3?[ ]|python3?[ ]|apt(?:-get)?[ ]|[gc]cc?[ ]|make[ ]|npm[ ]|docker[ ]|curl[ ]|wget[ ]|"
    r"echo[ ]|export[ ]|cat[ ]|mkdir[ ]|dpkg[ ]|tar[ ]|chmod[ ]|rm[ ]|cp[ ]|mv[ ]|ls[ ])"
)
_DECLARATION = re.compile(
    r"(?:static|extern|const|unsigned|signed|struct|int|char|void|long|short|double|float|bool|size_t|[a-z]\w*_t)\b"
)
_OPTION = re.compile(r"(?:^|\s)-{1,2}[a-z][\w-]*(?:[= ]|$)")
_CALL = re.compile(r"[\w.\])]\((?!\d?[a-z]?\))(?=[^\W\d]|[\"'(\[*&]|-?\d+[,)])")
_MANUAL = re.compile(r"\w\(\d[a-z]?\)")  # open(2): a page of the manual
_OPERATORS = re.compile(r"->|[=!<>]=|[-+*/|&]=|&&|\|\||::|=>|\b\w+\[[\w.:-]*\]|\*\w+[,)]|\\n\"")
_SNAKE = re.compile(r"(?:\b[a-z]+(?:_[a-z0-9]+)+|\b_\w+|\b[a-z]+[A-Z]\w*)\b(?!\(\d?\))")
_FOREIGN = re.compile(r"[^\W\d_a-zA-Z]+")  # names in code are ASCII
_QUOTED = re.compile(r"\"[^\"]*\"?|'[^']*'?|#.*|//.*|/\*.*")
_PLAIN = re.compile(r"[(«\"“„‘'¿¡*_`]*[^\W\d_]+(?:[-'’/][^\W\d_]+)*[)»\"”’'*_`]*[.,;:!?…]?[)»\"”]?")
_TRAILING = re.compile(r"(?<=\S)\s+(?:/\*[^*]*\*/|//\s.*|#\s.*)$")  # a comment behind code
_CITED = re.compile(r"\w+\(\d?[a-z]?\)[.,;:]?")  # close() or close(2) in a sentence
_ADDRESS = re.compile(r"!?\[[^\[\]]*\]\([^()\s]*\)|\bhttps?://[^\s<>\"')]+|^([=~^-])\1{3,}$")  # or an underline
_TABLE = re.compile(r"\S\t\S")


@lru_cache(maxsize=65536)
def code_evidence(line: str) -> float:
    """Weigh a line: positive looks like code, negative like prose, about zero says nothing.

    Parameters
    ----------
    line
        One line with its indentation, without its line break.

    Examples
    --------
    >>> code_evidence("    return self.name") >= STRONG
    True
    >>> code_evidence("The file is read again when it has changed.") < -2
    True
    """
    bare = line.strip()
    if not bare:
        return UNDECIDED
    indented = line[0] in " \t"
    if bare.startswith("#") and not re.match(r"#[ ]*(?:include|define|if|ifdef|ifndef|endif|undef|pragma)\b", bare):
        return _evidence_of_hash(bare, indented)
    bare = _ADDRESS.sub("word", bare)
    told = _TRAILING.search(bare)
    if told is not None:
        bare = bare[: told.start()].rstrip()
    prose = _prose(bare)
    if _STATEMENTS.match(bare) and not _MANUAL.search(_QUOTED.sub("", bare)):
        return STRONG if prose < 4 or bare.endswith((":", ";", "{", "}", ")")) else STRONG - prose / 2
    return _signs(bare, indented) - prose + (1.5 if told is not None else 0)


def _evidence_of_hash(bare: str, indented: bool) -> float:
    """Weigh a line that opens with ``#``: an indented one is a comment, others may be headings."""
    if indented:
        return STRONG
    if bare.startswith("##"):
        return -2.0
    return -1.0 if re.match(r"#[ ]+[^\W\d_][^.,]*$", bare) else 0.5


def _signs(bare: str, indented: bool) -> float:
    """Add up the signs of code in a line."""
    manual = bool(_MANUAL.search(_QUOTED.sub("", bare)))
    found = 0.0
    if bare.endswith(";") and re.search(r"[()=*\[\]&]|->", bare):
        found += 1.5
    if bare.endswith(("{", "({", "[", "= (")):
        found += 2
    found += min(1.5 * len(_OPERATORS.findall(bare)), 3)
    found += min(1.0 * len(_CALL.findall(bare)), 2)
    found += min(0.5 * len(_SNAKE.findall(bare)), 1)
    if indented and _BRANCH.fullmatch(bare):
        found += STRONG
    elif indented and _CONDITIONS.match(bare) and _WORDS_OF_CODE.search(bare):
        found += 2 if bare.endswith(":") else 1.5
    if _DECLARATION.match(bare) and bare.endswith((";", "{", ",", ")")):
        found += 2
    if _OPTION.search(bare):
        found += STRONG if indented and re.match(r"[a-z][\w.-]* ", bare) else 1 if _SHELL.match(bare) else 0
    if _SHELL.match(bare):
        found += 2
    return found - 3 if manual else found


def _prose(bare: str) -> float:
    """Weigh the plain words of a line and the signs of a sentence or a table."""
    words = bare.split()
    plain = sum(1 for word in words if _PLAIN.fullmatch(word) or _CITED.fullmatch(word))
    found = 2.0 if _TABLE.search(bare) else 0.0
    foreign = min(len(_FOREIGN.findall(_QUOTED.sub("", bare))), 3)
    if plain >= 3 and plain >= 0.6 * len(words):
        found += max(min(plain, 10) / 2, foreign)
    elif plain == len(words):
        found += max(0.5, foreign)
    else:
        found += foreign
    if bare.lstrip('«"“(')[:1].isupper() and bare.endswith((".", "!", "?", ":")):
        found += 1
    return found
