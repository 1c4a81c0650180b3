"""The parts of the diagnostics that need moments only, each beside the same numbers from the rows."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from oracle.latency.diagnostics.fold_errors import FoldErrors, fold_errors, joined_by_fold, variant_of
from oracle.latency.diagnostics.ladder import CATEGORICAL_VARIANT
from oracle.latency.diagnostics.runs import candidates, search
from oracle.latency.diagnostics.specification import INTERCEPT, Term, specification
from oracle.latency.evidence import POSITIONS, Evidence
from oracle.latency.forms import REGRESSORS, RESPONSE, verification_form
from oracle.latency.linear_form import LinearForm
from oracle.latency.moments import Floats, Moments, moments_of
from oracle.latency.regression import fit_form

from .fitting_rivals import SCIKIT_LEARN, STATSMODELS, Columns, OnRows

RESAMPLES = 999
AGREE = 1e-9  # of a number, or of its scale where that is larger
EXPERTS, CONTEXT = REGRESSORS
VARIABLES = (*REGRESSORS, RESPONSE)
# The rungs above T ~ U + L.
LADDER: tuple[Columns, ...] = tuple(
    (EXPERTS, CONTEXT, POSITIONS, f"{POSITIONS} * {CONTEXT}", f"{POSITIONS} * {EXPERTS}", "max_unique_experts")[:terms]
    for terms in range(3, 7)
)


@dataclass(frozen=True)
class Part:
    """Numbers that both can make.

    Attributes
    ----------
    name, what
        As in `Row`.
    rival
        Whose they are on the other side.
    ours, theirs
        Make the numbers; the first axis counts the refits, of which `theirs` makes the first few.
    of
        How many refits there are.
    timed
        How many of them `theirs` makes.
    unit
        What a refit is, in the plural.
    scale
        Broadcast against the numbers: how large they are at least taken to be when compared.
    note
        What else to know about our figure.
    """

    name: str
    what: str
    rival: str
    ours: Callable[[], Floats]
    theirs: Callable[[], Floats]
    of: int = 1
    timed: int = 1
    unit: str = "fits"
    scale: float | Floats = 0.0
    note: str = ""

    def compare(self, ours: Floats, theirs: Floats) -> None:
        """Make sure that both say the same.

        Raises
        ------
        AssertionError
            They do not.
        """
        ours = ours[: len(theirs)]
        assert ours.shape == theirs.shape, f"{self.name}: {ours.shape} and {theirs.shape}"
        apart = np.abs(ours - theirs) / np.maximum(np.abs(theirs), self.scale)
        assert (apart <= AGREE).all(), f"{self.name} and {self.rival} differ by {apart.max():.2g} of the value"


def parts(evidence: Evidence, *, refits: int, folds: int) -> Iterator[Part]:
    """Lay out all parts.

    Parameters
    ----------
    evidence
        Rounds with five folds, categories and unique_experts that vary at every m.
    refits, folds
        How many resamples, clusters and categories, and how many folds, the rival is timed on.
    """
    rows = OnRows(evidence)
    form = verification_form(evidence.moments.of(VARIABLES).by_m(), "joint").form
    yield Part(
        "joint OLS, CR1",
        "from columns to coefficients and clustered errors of the joint form",
        STATSMODELS,
        partial(_cr1, evidence, form),
        rows.cr1,
        note="includes the moments, which the other parts begin with: here both read every round",
    )
    models = _models(evidence)
    yield Part(
        "GroupKFold metrics",
        f"out-of-fold R² and RMSE of {len(models) + 1} models",
        SCIKIT_LEARN,
        partial(_out_of_fold, evidence, models),
        partial(rows.out_of_fold, models, folds),
        of=evidence.folds,
        timed=folds,
        unit="folds",
        scale=np.array([1.0, 0.0]),
    )
    yield from _refits(evidence, rows, form, refits)
    yield Part(
        "boundary search",
        f"one boundary between {len(evidence.moments.ms)} m, in each training fold, and its held-out RMSE",
        SCIKIT_LEARN,
        partial(_boundary, evidence),
        partial(rows.boundary, folds),
        of=evidence.folds,
        timed=folds,
        unit="folds",
        note="ours looks at every partition into any number of regimes",
    )


def _refits(evidence: Evidence, rows: OnRows, form: LinearForm, refits: int) -> Iterator[Part]:
    """Lay out the parts that fit the joint form again and again."""
    moments, G, kinds = evidence.moments.of(VARIABLES), len(evidence.clusters), len(evidence.categories)
    counts = np.random.default_rng(0).multinomial(G, np.full(G, 1 / G), size=RESAMPLES).astype(np.float64)
    few = min(refits, RESAMPLES)
    yield Part(
        "cluster bootstrap",
        f"{RESAMPLES} refits of the joint form to resampled clusters",
        SCIKIT_LEARN,
        partial(_weighted, moments, form, counts),
        partial(rows.resampled, counts[:few]),
        of=RESAMPLES,
        timed=few,
        unit="refits",
    )
    few = min(refits, G)
    yield Part(
        "leave a cluster out",
        "refits of the joint form without each cluster",
        SCIKIT_LEARN,
        partial(_without_clusters, moments, form),
        partial(rows.without_each, rows.cluster, few),
        of=G,
        timed=few,
        unit="refits",
        note="ours adds the CR3 errors",
    )
    few = min(refits, kinds)
    yield Part(
        "leave a category out",
        "from columns to refits of the joint form",
        SCIKIT_LEARN,
        partial(_without_categories, evidence, form),
        partial(rows.without_each, rows.category, few),
        of=kinds,
        timed=few,
        unit="refits",
        note="includes moments by category: a cluster may hold several",
    )


def _cr1(evidence: Evidence, form: LinearForm) -> Floats:
    columns = [evidence.columns[name] for name in VARIABLES]
    moments = moments_of(VARIABLES, columns, m=evidence.m, cluster=evidence.cluster, clusters=evidence.clusters)
    fit = fit_form(moments, form)
    return np.stack([fit.theta, np.sqrt(np.diagonal(fit.covariance_cr1()))])


def _models(evidence: Evidence) -> list[Columns]:
    """Each factor alone, each on top of U, and the ladder."""
    alone = [(factor,) for factor in evidence.factors]
    return [*alone, *((EXPERTS, factor) for factor in evidence.factors if factor != EXPERTS), *LADDER]


def _term(name: str) -> Term:
    """Turn a column, or m times one, into a term of a linear form."""
    if name.startswith(f"{POSITIONS} * "):
        return Term(name, name.removeprefix(f"{POSITIONS} * "), float)
    return Term(name, None, float) if name == POSITIONS else Term(name, name)


def _out_of_fold(evidence: Evidence, models: Sequence[Columns]) -> Floats:
    cells, ms = joined_by_fold(evidence), evidence.moments.ms
    found = [fold_errors(cells, variant_of(specification([INTERCEPT, *map(_term, names)], ms))) for names in models]
    found.append(fold_errors(cells, CATEGORICAL_VARIANT))
    return np.stack([_metrics(errors) for errors in found], axis=1)


def _metrics(errors: FoldErrors) -> Floats:
    return np.stack([errors.r2.values, errors.rmse_ms.values], axis=-1)


def _weighted(moments: Moments, form: LinearForm, weights: Floats) -> Floats:
    return fit_form(moments, form).weighted(weights)


def _without_clusters(moments: Moments, form: LinearForm) -> Floats:
    fit = fit_form(moments, form)
    fit.covariance_cr3()
    return fit.weighted(1 - np.eye(len(moments.clusters)))


def _without_categories(evidence: Evidence, form: LinearForm) -> Floats:
    columns = [evidence.columns[name] for name in VARIABLES]
    kinds: NDArray[np.int64] = evidence.category
    cells = moments_of(VARIABLES, columns, m=evidence.m, cluster=kinds, clusters=evidence.categories)
    return _weighted(cells, form, 1 - np.eye(len(evidence.categories)))


def _boundary(evidence: Evidence) -> Floats:
    found = candidates(evidence.moments.by_m())
    inside = np.array([evidence.fold == f for f in range(evidence.folds)], dtype=np.float64)
    result = search(evidence.moments, found, 1 - inside, inside)
    two = found.numbers.index(2)
    first = [found.partition(int(best))[1][0] for best in result.best[two]]
    return np.column_stack([np.array(first, dtype=np.float64), result.rmse_held_out[two]])
