"""A traffic regime: who is there at once, how much of the prompts is shared, how repetitive the text is, how long."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oracle.columns import frozen
from oracle.errors import Faults, printable

Numbers = NDArray[np.float64]
SHARES = ("prefix_share", "repetitiveness")
CHAIN = "autocorrelation"
CHAIN_RULE = (
    "it is at least 0 and below 1: at 1 no mismatch would ever follow a match, which no log can show; where none did, "
    "give the most that the log carries, as draft-oracle observe writes it: with n matches that followed one, an "
    "acceptance after a match of n / (n + 1)"
)
MOST_REQUESTS = 1e7  # in flight on one deployment: more is a slip
MOST_TOKENS = 1e9  # of a request: likewise
_KILO, _FEW = 1000.0, 16.0  # a context some times the prompt, in thousands, is still far less than the prompt


@dataclass(frozen=True)
class Regime:
    """One regime or many side by side: arrays of one shape, read-only.

    Attributes
    ----------
    concurrency : (…,) float64
        C, requests in flight, from 1 to `MOST_REQUESTS`.
    prefix_share : (…,) float64
        rho, share of prompt tokens found in the prefix cache if it is on.
    repetitiveness : (…,) float64
        r, share of draft tokens that the unquantised target would accept.
    prompt_tokens, output_tokens, context_tokens : (…,) float64
        Mean tokens of a prompt, of an answer, and resident in KV cache per request, from 1 to `MOST_TOKENS` each.
    autocorrelation : (…,) float64 or None
        x, of matches that follow one another, in [0, 1); None: the deployment's.
    """

    concurrency: Numbers
    prefix_share: Numbers
    repetitiveness: Numbers
    prompt_tokens: Numbers
    output_tokens: Numbers
    context_tokens: Numbers
    autocorrelation: Numbers | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of all arrays; () for one regime."""
        return self.concurrency.shape

    def at(self, index: Any) -> "Regime":
        """Take some of the regimes."""
        return Regime(**{name: each[index] for name, each in self._given().items()})

    def having(self, **changes: ArrayLike) -> "Regime":
        """Give the regimes with other values, broadcast against the rest; for values that are known to be fine."""
        given = {name: np.asarray(value, dtype=np.float64) for name, value in changes.items()}
        whole = self._given() | given
        return replace(self, **{name: frozen(each) for name, each in zip(whole, _same_shape(whole), strict=True)})

    def values(self) -> dict[str, float]:
        """Give the numbers of one regime by name, those of `NAMES`."""
        return {name: float(getattr(self, name)) for name in NAMES}

    def _given(self) -> dict[str, Numbers]:
        return {f.name: each for f in fields(self) if (each := getattr(self, f.name)) is not None}

    def __iter__(self) -> Iterator["Regime"]:
        return (self.at(i) for i in np.ndindex(self.shape))


NAMES = tuple(f.name for f in fields(Regime) if f.name != CHAIN)


def make_regime(place: str = "traffic", **values: ArrayLike) -> Regime:
    """Check regimes and lay them out.

    Parameters
    ----------
    place
        What messages begin with.
    values
        Every attribute of `Regime`, as numbers or arrays that broadcast against one another; x may be left out.

    Raises
    ------
    InputError
        All faults at once: a name that is missing or unknown, no regimes, a value that is not a number or out of range.
    """
    faults = Faults()
    for name in values.keys() - {*NAMES, CHAIN}:
        faults.add(f"{place}: {printable(name)} is not part of a traffic regime; known: {', '.join(NAMES)}")
    for name in NAMES:
        if name not in values:
            faults.add(f"{place}: {name} is missing; add it")
    faults.raise_if_any()
    arrays = {name: np.asarray(values[name], dtype=np.float64) for name in (*NAMES, CHAIN) if name in values}
    laid = dict(zip(arrays, _same_shape(arrays), strict=True))
    if not laid["concurrency"].size:
        faults.add(f"{place}: holds no regimes; give at least one")
    check_regimes(laid, place, faults)
    faults.raise_if_any()
    return Regime(**{name: frozen(array) for name, array in laid.items()})


def check_regimes(arrays: Mapping[str, Numbers], place: str, faults: Faults) -> None:
    """Note what is out of range or contradicts; some attributes of `Regime` may be missing."""
    for name, array in arrays.items():
        check_range(name, array, place, faults)
    if not {"context_tokens", "prompt_tokens"} <= arrays.keys():
        return
    context, prompt = arrays["context_tokens"], arrays["prompt_tokens"]
    short = context < prompt
    if short.any():
        held, whole = float(context[short].flat[0]), float(prompt[short].flat[0])
        slip = "; tokens are counted one by one, not in thousands" if held < whole / _KILO * _FEW else ""
        faults.add(
            f"{place}{_where(short)}: context_tokens is {held:g}, less than the prompt's {whole:g}; a request holds "
            f"its whole prompt in the KV cache{slip}"
        )


def check_range(name: str, array: Numbers, place: str, faults: Faults) -> None:
    """Note the first value of a regime that is not a number or out of range, and a likely slip of units."""
    if name == CHAIN:
        _check_chain(array, place, faults)
        return
    share = name in SHARES
    most = 1.0 if share else MOST_REQUESTS if name == "concurrency" else MOST_TOKENS
    with np.errstate(invalid="ignore"):
        wrong = ~(np.isfinite(array) & (array >= (0 if share else 1)) & (array <= most))
    if not wrong.any():
        return
    value = float(array[wrong].flat[0])
    rule = "it lies in [0, 1]" if share else "it is a finite number of at least 1"
    rule += f" and at most {most:,.0f}" if not share and most < value < np.inf else ""
    slip = ""
    if share and 1 < value <= 100:
        slip = f"; a percentage is written as a fraction: {value / 100:g}"
    elif name.endswith("_tokens") and 0 < value < 1:
        slip = "; tokens are counted one by one, not in thousands"
    faults.add(f"{place}{_where(wrong)}: {name} is {value:g}; {rule}{slip}")


def _check_chain(array: Numbers, place: str, faults: Faults) -> None:
    wrong = ~((array >= 0) & (array < 1))
    if wrong.any():
        faults.add(f"{place}{_where(wrong)}: {CHAIN} is {float(array[wrong].flat[0]):g}; {CHAIN_RULE}")


def _where(wrong: NDArray[np.bool_]) -> str:
    return f", regime {int(np.argmax(wrong.reshape(-1))) + 1}" if wrong.size > 1 else ""


def _same_shape(arrays: dict[str, Numbers]) -> list[Numbers]:
    return [np.array(each) for each in np.broadcast_arrays(*arrays.values())]
