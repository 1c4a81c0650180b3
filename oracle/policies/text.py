"""Text forms of policies, as the command line and reports write them."""

import re
from collections.abc import Callable
from dataclasses import replace

from oracle.errors import InputError, printable
from oracle.policies.adaptive import Confidence, Goodput, Slope, Survival
from oracle.policies.fixed import Blind, Budget, Column, Oracle, Static
from oracle.policies.logged import Logged
from oracle.policies.policy import Capped, Policy

KNOWN_FORMS = (
    "static:K, confidence:T, survival:T, survival!:T, goodput, goodput!, slope:L, slope!:L, budget, logged, blind, "
    "blind:refitted, oracle, column:NAME; followed by @max=K, @min=K or, for confidence and survival, @keep"
)
_FORM = re.compile(r"(?P<name>[a-z]+!?)(?::(?P<value>[^@]*))?(?P<options>(?:@[^@]*)*)")
_CAP = re.compile(r"(max|min)=([0-9]{1,6})")

_WITH_NUMBER: dict[str, Callable[[float], Policy]] = {
    "confidence": Confidence,
    "survival": Survival,
    "survival!": lambda value: Survival(value, informed=True),
    "slope": Slope,
    "slope!": lambda value: Slope(value, informed=True),
}
_ALONE: dict[str, Callable[[], Policy]] = {
    "goodput": Goodput,
    "goodput!": lambda: Goodput(informed=True),
    "budget": Budget,
    "logged": Logged,
    "blind": Blind,
    "oracle": Oracle,
}
_EXAMPLES = {"static": "static:4", "column": "column:my_lengths"} | {
    name: f"{name}:{2.0 if name.startswith('slope') else 0.4}" for name in _WITH_NUMBER
}


def parse_policy(text: str) -> Policy:
    """Read a policy from its text form; ``str`` of a policy gives it back.

    Raises
    ------
    InputError
        No such form, a parameter out of range, or a cap that cannot be; the known forms are listed.

    Examples
    --------
    >>> str(parse_policy("confidence:0.60@max=6"))
    'confidence:0.6@max=6'
    """
    found = _FORM.fullmatch(text)
    if found is None:
        raise InputError(f"policy '{printable(text)}': no such form; known forms: {KNOWN_FORMS}")
    try:
        policy = _named(found["name"], found["value"])
        return _with_options(policy, found["options"].split("@")[1:])
    except InputError as error:
        raise InputError(f"policy '{printable(text)}': {error}") from error


def _named(name: str, value: str | None) -> Policy:
    if name in _EXAMPLES and not value:
        raise InputError(f"{name} needs a value, as in {_EXAMPLES[name]}")
    if name in _WITH_NUMBER:
        assert value is not None
        return _WITH_NUMBER[name](_number(value, _EXAMPLES[name]))
    if name == "static":
        assert value is not None
        if not re.fullmatch("[0-9]{1,6}", value):
            raise InputError(f"'{printable(value)}' is not a draft length; give a whole number, as in static:4")
        return Static(int(value))
    if name == "column":
        assert value is not None
        return Column(value)
    if (name, value) == ("blind", "refitted"):
        return Blind(refitted=True)
    if name not in _ALONE:
        raise InputError(f"no such form; known forms: {KNOWN_FORMS}")
    if value is not None:
        raise InputError(f"{name} takes no value; known forms: {KNOWN_FORMS}")
    return _ALONE[name]()


def _number(text: str, example: str) -> float:
    try:
        if "_" in text or text != text.strip():
            raise ValueError
        return float(text)
    except ValueError:
        raise InputError(f"'{printable(text)}' is not a number; write it as in {example}") from None


def _with_options(policy: Policy, options: list[str]) -> Policy:
    bounds: dict[str, int] = {}
    for option in options:
        cap = _CAP.fullmatch(option)
        if option == "keep" and isinstance(policy, Confidence | Survival):
            policy = replace(policy, keep=True)
        elif option == "keep":
            raise InputError("@keep goes with confidence and survival only: the token that falls under T is verified")
        elif cap is None:
            raise InputError(f"'@{printable(option)}' is not known; known: @max=K, @min=K, @keep")
        elif cap[1] in bounds:
            raise InputError(f"@{cap[1]} is given twice; give it once")
        else:
            bounds[cap[1]] = int(cap[2])
    if bounds and isinstance(policy, Logged):
        raise InputError("logged takes no bounds: where they bite, rounds would start where nothing was logged")
    return Capped(policy, bounds.get("max"), bounds.get("min")) if bounds else policy
