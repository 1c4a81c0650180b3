"""The text form of changes, as the command line takes it."""

import math
import re
from collections.abc import Iterator

from oracle.changes.change import Change
from oracle.changes.flat import FlatRegime
from oracle.changes.terms import QUANTITIES, OtherModel, Quantity, Replaced, Scaled, Span, Term, place
from oracle.errors import MOST_DRAFT_TOKENS, Faults, InputError, printable
from oracle.latency.model import LatencyModel

KNOWN_TERMS = (
    "experts=, context=, draft=, base=, reject= a factor, or a value with its unit as 1.2ms; alpha[M], beta0[M], "
    "context[M], draft[K], of one length or of a range as alpha[2-4], followed by *FACTOR or =VALUEms; regime=flat; "
    "model=PATH"
)
_WHOLE = {quantity.whole: quantity for quantity in QUANTITIES}
_SINGLE = {quantity.single: quantity for quantity in QUANTITIES if quantity.single}
_PIECE = re.compile(r'(?:[^,"]|"(?:[^"]|"")*"|")*')
_FORM = re.compile(r"(?P<name>\w+)\s*(?:\[(?P<span>[^\]]*)\])?\s*(?P<sign>[=*])\s*(?P<rest>.*)", re.DOTALL)
_SPAN = re.compile(r"\s*([0-9]{1,6})\s*(?:-\s*([0-9]{1,6})\s*)?")
_NUMBER = re.compile(r"(?P<number>[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)\s*(?P<unit>.*)")
_QUOTED = re.compile(r'"((?:[^"]|"")*)"')


def parse_change(text: str, *, model: LatencyModel | None = None, batch_size: int | None = None) -> Change:
    """Read a change of the cost model from its text form; ``str`` of a change gives it back.

    One or several terms, separated by commas and applied in this order:

    - ``experts=0.5``: a whole part of the cost times a factor of 0 or more: `experts` (alpha), `context` (c),
      `draft`, `base` (beta0), `reject`. With a unit, ``draft=1.2ms``, every length gets that value.
    - ``alpha[5]*0.5``: one coefficient times a factor; ``alpha[5]=0.08ms``: replaced by a value. Brackets name m for
      `alpha`, `beta0` and `context`, k for `draft`, and may hold a range, ``alpha[2-4]``. ``alpha[5]=0.08``, which
      could be either, is refused.
    - ``regime=flat``: one alpha for all m and beta0 on a line in m (`FlatRegime`).
    - ``model=PATH``: all coefficients from another latency model file; it comes first. A path with a comma stands in
      double quotes, a double quote in it is doubled.

    Parameters
    ----------
    text
        The text form.
    model
        The latency model to be changed, so that lengths it lacks are refused here with all other faults.
    batch_size
        Which block of ``model=PATH`` to take, if it holds several batch sizes.

    Raises
    ------
    InputError
        All faults at once, each with its term.

    Examples
    --------
    >>> str(parse_change("experts = 0.50,draft[3]=1.20 ms"))
    'experts=0.5, draft[3]=1.2ms'
    """
    if not text.strip():
        raise InputError(f"change '{printable(text)}': is empty; known terms: {KNOWN_TERMS}")
    faults = Faults()
    terms: list[Term] = []
    for at, piece in enumerate(_pieces(text), 1):
        where = place(text, at, piece)
        try:
            term = _term(piece, batch_size)
        except InputError as error:
            for fault in error.faults:
                faults.add(where + fault)
            continue
        if isinstance(term, OtherModel) and at > 1:
            faults.add(f"{where}another model replaces all that was changed before it; write it first")
        for fault in [] if model is None else term.faults(model):
            faults.add(where + fault)
        model = term.model if isinstance(term, OtherModel) else model
        if any(term.repeats(earlier) for earlier in terms):
            faults.add(f"{where}the same is changed twice; keep one of the two")
        terms.append(term)
    faults.raise_if_any()
    return Change(tuple(terms))


def _pieces(text: str) -> Iterator[str]:
    """Split at the commas outside double quotes."""
    at = 0
    while at <= len(text):
        found = _PIECE.match(text, at)
        assert found is not None
        yield found[0].strip()
        at = found.end() + 1


def _term(text: str, batch_size: int | None) -> Term:
    if not text:
        raise InputError("the term is empty; remove the comma or write a term")
    found = _FORM.fullmatch(text)
    if found is None:
        raise InputError(f"no such form; known terms: {KNOWN_TERMS}")
    name, span, sign, rest = found["name"], found["span"], found["sign"], found["rest"]
    if name in ("model", "regime") and span is None and sign == "=":
        return _other_model(rest, batch_size) if name == "model" else _regime(rest)
    if span is None:
        return _of_whole(name, rest)
    if name in _SINGLE:
        return _of_single(_SINGLE[name], _span(name, span), sign, rest)
    if name in _WHOLE:
        single = _WHOLE[name].single
        way = f"write {single}[{printable(span, 20)}]" if single else f"it is one time for all k >= 1: write {name}="
        raise InputError(f"{name} takes no brackets; {way}")
    raise InputError(f"'{printable(name, 40)}' is not a term; known terms: {KNOWN_TERMS}")


def _of_whole(name: str, rest: str) -> Term:
    """Read ``experts=0.5``, ``draft=1.2ms``; ``experts*0.5`` says the same as ``experts=0.5``."""
    if name in _SINGLE and name not in _WHOLE:
        whole, letter = _SINGLE[name].whole, _SINGLE[name].letter
        raise InputError(f"{name} needs brackets that name {letter}, as in {name}[5]; for all {letter} write {whole}=")
    if name not in _WHOLE:
        raise InputError(f"'{printable(name, 40)}' is not a term; known terms: {KNOWN_TERMS}")
    number, unit = _number(rest, f"{name}=0.5 or {name}=1.2ms")
    return _coefficients(_WHOLE[name], None, number, unit)


def _of_single(quantity: Quantity, span: Span, sign: str, rest: str) -> Term:
    """Read ``alpha[5]*0.5``, ``alpha[5]=0.08ms``."""
    name = f"{quantity.single}{span}"
    number, unit = _number(rest, f"{name}*0.5 or {name}=0.08ms")
    if sign == "=" and not unit:
        raise InputError(
            f"{printable(rest, 40)} can be a factor or a value; write {name}*{printable(rest, 40)} or "
            f"{name}={printable(rest, 40)}ms"
        )
    if sign == "*" and unit:
        raise InputError(f"a factor has no unit; write {name}*{number:g}, or {name}={number:g}ms for a value")
    return _coefficients(quantity, span, number, unit)


def _coefficients(quantity: Quantity, span: Span | None, number: float, unit: str) -> Term:
    if unit and number < quantity.least_ms:
        raise InputError(f"the value is {number:g} ms; a time is a finite number of 0 or more milliseconds")
    if not unit and number < 0:
        raise InputError(f"the factor is {number:g}; a factor is a finite number of 0 or more")
    return (Replaced if unit else Scaled)(quantity, span, number)


def _number(text: str, example: str) -> tuple[float, str]:
    """Read a finite number and its unit, which is ms or nothing."""
    found = _NUMBER.fullmatch(text)
    if found is None or not math.isfinite(float(found["number"])):
        raise InputError(
            f"'{printable(text, 40)}' is not a finite number; give a factor of 0 or more, or a value in milliseconds, "
            f"as in {example}"
        )
    if found["unit"] not in ("", "ms"):
        raise InputError(
            f"the unit '{printable(found['unit'], 20)}' is not known; values are in milliseconds, as in {example}"
        )
    return float(found["number"]) + 0.0, found["unit"]


def _span(name: str, text: str) -> Span:
    letter = _SINGLE[name].letter
    first, most = (1, MOST_DRAFT_TOKENS + 1 if letter == "m" else MOST_DRAFT_TOKENS)
    found = _SPAN.fullmatch(text)
    numbers = [] if found is None else [int(number) for number in found.groups() if number]
    if not numbers or not all(first <= number <= most for number in numbers) or numbers[0] > numbers[-1]:
        raise InputError(
            f"[{printable(text, 40)}] names no {letter}; brackets hold one {letter} from {first} to {most}, or a "
            f"rising range, as in {name}[5] or {name}[2-4]"
        )
    return Span(numbers[0], numbers[-1])


def _regime(text: str) -> Term:
    if text != "flat":
        raise InputError(f"'{printable(text, 40)}' is no regime; the only change of regimes is regime=flat")
    return FlatRegime()


def _other_model(text: str, batch_size: int | None) -> Term:
    quoted = _QUOTED.fullmatch(text)
    path = quoted[1].replace('""', '"') if quoted else text
    if not path or (quoted is None and '"' in text):
        raise InputError(
            "model= needs the path of a latency model file; a path with a comma or a double quote stands in double "
            'quotes, as in model="a,b.json"'
        )
    return OtherModel(path, LatencyModel.load(path).at_batch_size(batch_size))
