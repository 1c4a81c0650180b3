"""What a reader of a latency model must distrust, in words, the worst first.

Each sentence is earned by a rule with a threshold that stands at the top of the module that says it
(`doubts_about_coefficients`, `doubts_about_rounds`); no sentence, no finding: the list says nothing about what was not
recorded.
"""

from collections.abc import Iterator, Sequence

from oracle.errors import InputError
from oracle.latency.diagnostics import doubts_about_coefficients as coefficients
from oracle.latency.diagnostics import doubts_about_rounds as recorded
from oracle.latency.diagnostics.column_comparison import ColumnComparison, compare_columns
from oracle.latency.diagnostics.residuals import Residuals, residual_diagnostics
from oracle.latency.diagnostics.robustness import Robustness, robustness
from oracle.latency.diagnostics.verified import verified
from oracle.latency.diagnostics.weak_spot import Severity, WeakSpot
from oracle.latency.evidence import Evidence

__all__ = ["ColumnComparison", "Severity", "WeakSpot", "compare_columns", "weak_spots"]

EXPERTS = "unique_experts"
SEVERITIES: tuple[Severity, ...] = ("high", "medium", "low")


def weak_spots(
    evidence: Evidence,
    *,
    robust: Robustness | None = None,
    residuals: Residuals | None = None,
    boundaries: Sequence[int] | None = None,
    compared_with: Sequence[str] | None = None,
) -> tuple[WeakSpot, ...]:
    """Gather the weak spots, by falling severity.

    Parameters
    ----------
    robust
        Robustness of the joint fit (the second of `robustness`); None computes it.
    residuals
        Residual diagnostics; None computes them.
    boundaries
        The first m of every regime but the lowest, from a search for regimes; empty if it found none, None if nobody
        looked.
    compared_with
        Other columns of unique experts; None takes every gathered column whose name begins with ``unique_experts``.

    Raises
    ------
    InputError
        The rounds do not identify the joint fit.
    """
    joint = verified(evidence)
    residuals = residual_diagnostics(evidence) if residuals is None else residuals
    if robust is None and joint.own:
        robust = robustness(evidence)[1]
    alpha = tuple(coefficients.on_alpha(evidence, joint))
    used = not any(spot.severity == "high" for spot in alpha)  # a slope that is not there has no regimes
    found = [
        *coefficients.on_clusters(joint),
        *alpha,
        *_on_columns(evidence, compared_with),
        *recorded.on_drift(residuals),
        *recorded.on_order(evidence),
        *(() if robust is None else recorded.on_pulls(robust)),
        *coefficients.on_context(evidence, joint),
        *coefficients.on_spread(joint),
        *coefficients.on_collinearity(evidence),
        *recorded.on_draft(residuals),
        *(() if boundaries is None or not used else coefficients.on_boundaries(joint, boundaries)),
        *(() if robust is None else recorded.on_spread_of_residuals(residuals, robust)),
    ]
    return tuple(sorted(found, key=lambda spot: SEVERITIES.index(spot.severity)))  # stable: rules stay in order


def _on_columns(evidence: Evidence, compared_with: Sequence[str] | None) -> Iterator[WeakSpot]:
    """Compare unique_experts with each other column of the kind."""
    if compared_with is None:
        compared_with = [name for name in evidence.columns if name.startswith(EXPERTS) and name != EXPERTS]
    for name in compared_with:
        try:
            yield from recorded.on_columns(compare_columns(evidence, EXPERTS, name))
        except InputError as error:
            yield WeakSpot("columns", "low", f"{name} could not be compared with {EXPERTS}: {error}")
