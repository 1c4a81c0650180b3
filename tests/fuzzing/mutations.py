"""Damage to bytes, to text and to parsed trees; every function takes its choices from the `Random` it is given."""

import copy
import json
import random
from collections.abc import Sequence
from typing import Any

MOST_BYTES = 4 << 20  # of one input: what a small file unpacks to is the reader's affair, not the fuzzer's

NUMBERS = (
    *("3", "4", "8", "16", "100", "0.25", "0.75", "0.999", "12.5", "1000", "2048", "1e-3"),
    *("0", "-0", "-1", "1", "2", "0.5", "1.5", "-0.0", "1e400", "-1e400", "1e308", "1e-400", "5e-324", "2147483648"),
    *("4294967296", "9223372036854775807", "9223372036854775808", "-9223372036854775809", "1" + "0" * 400, "NaN"),
    *("Infinity", "-Infinity", "nan", "inf", "1_000", "0x10", "0x" + "f" * 5000, "1e5", "007", "१२", "1" * 5000),
)
TEXTS = (
    *('""', "null", "true", "{}", "[]", "[[]]", "[null]", '"\\ud800"', '"\\u0000"', '"\\u001b[31m"', '"../../etc/x"'),
    *('"/dev/full"', '"CON"', '"a\\u202eb"', '"=1+1"', '"AAAA"', '"k05VTVBZAQA="', "'", '"', "\\", "#", "="),
)
HOSTILE: tuple[Any, ...] = (
    *(None, True, False, -1, 0, 1, 2, 2.5, -0.5, 10**15, 2**31, 2**63, 1e300, -1e300, 1e-300, 10**18),
    *("", "x", "AAAA", "\x1b[31m", "../../x", "/dev/full", "a\x00b", "\u202e", "\u2028", "NaN", "x" * 5000, "1" * 400),
    *([], [0], [[]], [None], [1, 2, 3], [0.5] * 200, [1] * 2000, {}, {"a": 1}, {"": {}}, [{}], [[[[1]]]]),
)
_WORDS = (b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", b"\x00\x00\x00\x80", b"\xff\xff\xff\xff\x0f", b"\x00" * 8, b"PAR1")


def damaged_bytes(raw: bytes, rng: random.Random, others: Sequence[bytes] = ()) -> bytes:
    """A copy with one to four damages: flips, cuts, inserts, repeats, large numbers, or a piece of another input."""
    data = bytearray(raw)
    for _ in range(rng.choice((1, 1, 1, 2, 2, 4))):
        kind = rng.randrange(8)
        at = _place(len(data), rng)
        upto = min(len(data), at + rng.choice((1, 1, 2, 4, 8, 64, 1024)))
        if kind == 0 and data:
            data[min(at, len(data) - 1)] ^= 1 << rng.randrange(8)
        elif kind == 1 and data:
            data[min(at, len(data) - 1)] = rng.choice((0, 1, 0x7F, 0x80, 0xFE, 0xFF, rng.randrange(256)))
        elif kind == 2:
            del data[at:upto]
        elif kind == 3:
            data[at:at] = rng.randbytes(upto - at)
        elif kind == 4:
            data[at:at] = data[at:upto] * rng.choice((1, 2, 16))
        elif kind == 5:
            word = rng.choice(_WORDS)
            data[at : at + len(word)] = word
        elif kind == 6:
            del data[at:]
        elif others:
            other = rng.choice(others)
            start = _place(len(other), rng)
            data[at:] = other[start:]
    return bytes(data[:MOST_BYTES])


def _place(size: int, rng: random.Random) -> int:
    """An offset: anywhere, or near either end, where headers and footers are."""
    near = rng.randrange(min(size, 64) + 1)
    return rng.choice((rng.randrange(size + 1), rng.randrange(size + 1), near, size - near))


def damaged_text(text: str, rng: random.Random) -> bytes:
    """Text with one to three damages that keep it text, or as bytes that are none."""
    for _ in range(rng.choice((1, 1, 2, 3))):
        text = rng.choice(_OF_TEXT)(text, rng)
    raw = text[:MOST_BYTES].encode("utf-8", "surrogatepass")
    if rng.random() < 0.1:
        raw = rng.choice((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff", b"\x00", b"\x1f\x8b\x08\x00")) + raw
    return damaged_bytes(raw, rng) if rng.random() < 0.25 else raw


def _number(text: str, rng: random.Random) -> str:
    """Another number in the place of one."""
    starts = [i for i, c in enumerate(text) if c.isdigit() and (i == 0 or not text[i - 1].isalnum())]
    if not starts:
        return text + rng.choice(NUMBERS)
    at = end = rng.choice(starts)
    while end < len(text) and (text[end].isalnum() or text[end] in ".+-"):
        end += 1
    return text[:at] + rng.choice(NUMBERS) + text[end:]


def _token(text: str, rng: random.Random) -> str:
    at = rng.randrange(len(text) + 1)
    return text[:at] + rng.choice((*TEXTS, *NUMBERS)) + text[at + rng.choice((0, 1, 5)) :]


def _line(text: str, rng: random.Random) -> str:
    """A line left out, repeated, moved, cut or made very long."""
    lines = text.split("\n")
    at = rng.randrange(len(lines))
    kind = rng.randrange(6)
    if kind == 0:
        del lines[at]
    elif kind == 1:
        lines[at:at] = [lines[at]] * _many(lines[at], rng.choice((1, 1, 3, 1000)))
    elif kind == 2:
        lines.insert(rng.randrange(len(lines)), lines.pop(at))
    elif kind == 3:
        lines[at] = lines[at][: rng.randrange(len(lines[at]) + 1)]
    elif kind == 4:
        lines[at] *= _many(lines[at], rng.choice((2, 2, 300, 3000)))
    else:
        lines[at] = lines[at].replace(rng.choice(",=:\"[] \t{}'"), rng.choice((",", "", '"', "\t", ";", "\r", "\x00")))
    return "\n".join(lines)


def _many(line: str, wanted: int) -> int:
    """Repeats that keep an input small."""
    return min(wanted, MOST_BYTES // (len(line) + 1))


def _nest(text: str, rng: random.Random) -> str:
    """Brackets, a thousand deep and more, somewhere."""
    deep = rng.choice((20, 40, 1000, 100_000))
    opened, closed = rng.choice((("[", "]"), ('{"a":', "}"), ("[[", "]]"), ("(", ")"), ("a.", "")))
    at = rng.randrange(len(text) + 1)
    return text[:at] + opened * deep + rng.choice(("", "1")) + closed * rng.choice((0, deep)) + text[at:]


def _character(text: str, rng: random.Random) -> str:
    at = rng.randrange(len(text) + 1)
    odd = rng.choice("\x00\x1b\x7f\x85\xa0\u2028\u202e\ufeff\ud800\udfff𝟙é\t\r\n\"'\\{}[],:=#%\x1c\x0b")
    return text[:at] + odd + text[at + rng.choice((0, 1)) :]


def _cut(text: str, rng: random.Random) -> str:
    at = rng.randrange(len(text) + 1)
    return text[:at] if rng.random() < 0.7 else text[at:]


_OF_TEXT = (_number, _number, _number, _token, _line, _line, _character, _cut, _nest)


def places(tree: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) in a tree."""
    found: list[tuple[Any, Any]] = []
    waiting = [tree]
    while waiting:
        at = waiting.pop()
        keys = list(at) if isinstance(at, dict) else range(len(at)) if isinstance(at, list) else ()
        for key in keys:
            found.append((at, key))
            waiting.append(at[key])
    return found


def damaged_tree(tree: Any, rng: random.Random) -> Any:
    """A copy with one to three values changed, left out, swapped or repeated."""
    tree = copy.deepcopy(tree)
    for _ in range(rng.choice((1, 1, 2, 3))):
        found = places(tree)
        if not found:
            break
        at, key = rng.choice(found)
        kind = rng.randrange(10)
        if kind == 0:
            del at[key]
        elif kind == 1:
            other, its = rng.choice(found)
            if its in other if isinstance(other, dict) else its < len(other):
                at[key] = copy.deepcopy(other[its])
        elif kind == 2 and isinstance(at, dict):
            at[rng.choice(("", "x", "\x1b[31m", "m" * 3000, "__class__", "../x"))] = at.pop(key)
        elif kind == 3 and isinstance(at, list):
            at[key:key] = [copy.deepcopy(at[key]) for _ in range(rng.choice((1, 2, 300)))]
        elif 4 <= kind <= 7 and isinstance(at[key], int | float):  # near the truth: past the first checks
            at[key] = rng.choice((at[key] + 1, at[key] - 1, -at[key], at[key] * 1e6, float(at[key]), str(at[key])))
        elif kind == 8 and isinstance(at[key], str):
            cut = rng.randrange(len(at[key]) + 1)
            at[key] = at[key][:cut] + rng.choice(("", "=", "\x00", "A" * 8, "\x1b", "é")) + at[key][cut + 1 :]
        else:
            at[key] = copy.deepcopy(rng.choice(HOSTILE))
    return tree


def damaged_json(text: str, rng: random.Random) -> bytes:
    """JSON, or JSON lines: a value of the tree changed three times in four, else damage to the text."""
    if rng.random() < 0.25:
        return damaged_text(text, rng)
    try:
        return json.dumps(damaged_tree(json.loads(text), rng)).encode()
    except ValueError:
        rows = text.splitlines()
        at = rng.randrange(len(rows))
    try:
        rows[at] = json.dumps(damaged_tree(json.loads(rows[at]), rng))
    except ValueError:
        return damaged_text(text, rng)
    return "\n".join(rows).encode()
