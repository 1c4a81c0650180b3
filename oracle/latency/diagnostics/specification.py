"""Linear forms written down as terms: a variable of the rounds times a function of m.

The budget enters as a number (m, log m, m times U), as a level for each m, or not at all; each is a list of terms, and
all of them are fitted from the same moments.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from oracle.errors import InputError
from oracle.latency.forms import REGRESSORS, RESPONSE
from oracle.latency.linear_form import LinearForm
from oracle.latency.metrics import Coefficients
from oracle.latency.moments import Moments
from oracle.latency.regression import fit_form

EXPERTS, CONTEXT = REGRESSORS


def _one(m: int) -> float:
    return 1.0


@dataclass(frozen=True)
class Term:
    """One parameter of a linear form; it adds ``parameter * by(m) * variable`` to the time.

    Parameters
    ----------
    name
        Of the parameter.
    of
        A variable of the moments; None adds to the intercept.
    by
        Function of m, the verified positions.
    """

    name: str
    of: str | None = None
    by: Callable[[int], float] = _one


INTERCEPT = Term("beta0_ms")
ALPHA = Term("alpha_ms_per_expert", EXPERTS)
CONTEXT_TERM = Term("context_ms_per_token", CONTEXT)


def specification(terms: Sequence[Term], ms: Sequence[int]) -> LinearForm:
    """Build the linear form of some terms over the measured m."""
    regressors = tuple(dict.fromkeys(term.of for term in terms if term.of is not None))
    row = {name: i + 1 for i, name in enumerate(regressors)}
    matrices = {m: np.zeros((1 + len(regressors), len(terms))) for m in ms}
    for m, matrix in matrices.items():
        for j, term in enumerate(terms):
            matrix[0 if term.of is None else row[term.of], j] = term.by(m)
    return LinearForm(regressors, RESPONSE, tuple(term.name for term in terms), matrices)


def levels(ms: Sequence[int]) -> tuple[Term, ...]:
    """Give each m an intercept of its own."""
    return tuple(Term(f"level[{m}]", None, _indicator(m)) for m in ms)


def _indicator(chosen: int) -> Callable[[int], float]:
    return lambda m: float(m == chosen)


def coefficients_from(cells: Moments, form: LinearForm) -> Coefficients:
    """Fit a form to some of the rounds and give its coefficients at every m it knows, also those they do not hold.

    Raises
    ------
    InputError
        These rounds do not identify the form.
    """
    held = len(cells.ms)
    if held * (len(form.regressors) + 2) < len(form.parameters):
        raise InputError(
            f"{form.response}: rounds at {held} m do not identify {len(form.parameters)} coefficients; "
            "record more draft lengths"
        )
    return form.coefficients(fit_form(cells, form).theta)
