"""What a reader of a latency model must distrust, in words, the worst first.

Each sentence is earned by a rule with a threshold that stands at the top of the module that says it
(`doubts_about_coefficients`, `doubts_about_rounds`); no sentence, no finding: the list says nothing about what was not
recorded.
"""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from oracle.latency.diagnostics import doubts_about_boundaries as boundaries_and_context
from oracle.latency.diagnostics import doubts_about_coefficients as coefficients
from oracle.latency.diagnostics import doubts_about_rounds as recorded
from oracle.latency.diagnostics.column_comparison import ColumnComparison, compare_columns, compare_with_others
from oracle.latency.diagnostics.far_rounds import disagreements
from oracle.latency.diagnostics.regime_tables import Boundary
from oracle.latency.diagnostics.residuals import Residuals, residual_diagnostics
from oracle.latency.diagnostics.robustness import Robustness, robustness
from oracle.latency.diagnostics.specification import EXPERTS
from oracle.latency.diagnostics.verified import verified
from oracle.latency.diagnostics.weak_spot import Severity, WeakSpot
from oracle.latency.evidence import Evidence

__all__ = ["ColumnComparison", "Severity", "WeakSpot", "compare_columns", "weak_spots"]

SEVERITIES: tuple[Severity, ...] = ("high", "medium", "low")
UNJUDGED = {
    "residuals": "drift, tails and draft times are not judged",
    "robustness": "what one category, half, cluster or a few far rounds decide is not judged",
}
ROUNDING = 1e-6  # of the mean time: residuals that small are rounding, and nothing is read into them
NOTHING: Mapping[str, str] = MappingProxyType({})


def weak_spots(
    evidence: Evidence,
    *,
    robust: Robustness | None = None,
    residuals: Residuals | None = None,
    boundaries: Sequence[Boundary] | None = None,
    compared: Sequence[ColumnComparison] | None = None,
    untested: Mapping[str, str] = NOTHING,
) -> tuple[WeakSpot, ...]:
    """Gather the weak spots, by falling severity.

    Parameters
    ----------
    robust
        Robustness of the joint fit (the second of `robustness`); None computes it.
    residuals
        Residual diagnostics; None computes them.
    boundaries
        Places of a search for regimes that found some (`Regimes.boundaries` with free levels), or none of them; None if
        nobody looked, or nothing was found.
    compared
        unique_experts against every other column whose name begins like it; None computes them.
    untested
        What was tried and failed -> why: ``"robustness"``, ``"residuals"``, a column. It is not tried again.

    Raises
    ------
    InputError
        The rounds do not identify the joint fit.
    """
    joint = verified(evidence)
    if residuals is None and "residuals" not in untested:
        residuals = residual_diagnostics(evidence)
    if robust is None and joint.own and "robustness" not in untested:
        robust = robustness(evidence)[1]
    if compared is None:
        compared, failed = compare_with_others(evidence)
        untested = {**untested, **failed}
    if residuals is not None and residuals.tails[0].sd_ms <= ROUNDING * residuals.mean_target_ms:
        robust, scattered = None, None
    else:
        scattered = residuals
    disagreeing = () if robust is None or scattered is None else disagreements(robust, scattered.tails[0])
    searched = boundaries
    if disagreeing and not any(boundary.chosen for boundary in boundaries or ()):
        searched = None  # that alpha has no step is not to be read off errors that far rounds inflate
    usage = coefficients.on_alpha(evidence, joint, disagreeing)
    found = [
        *coefficients.on_clusters(joint),
        *usage.spots,
        *(() if scattered is None else recorded.on_tails(scattered, robust, disagreeing)),
        *(spot for each in compared for spot in recorded.on_columns(each)),
        *(() if scattered is None else recorded.on_drift(evidence, scattered)),
        *recorded.on_order(evidence),
        *(() if robust is None else recorded.on_pulls(robust)),
        *boundaries_and_context.on_context(evidence, joint),
        *(() if scattered is None and residuals is not None else coefficients.on_spread(joint)),
        *coefficients.on_collinearity(evidence),
        *coefficients.on_factors(evidence),
        *(() if residuals is None else recorded.on_draft(residuals)),
        *(() if searched is None or not usage.shown else boundaries_and_context.on_boundaries(joint, searched)),
        *(() if scattered is None else recorded.on_spread_of_residuals(scattered)),
        *_untested(untested, bool(joint.own)),
    ]
    return tuple(sorted(found, key=lambda spot: SEVERITIES.index(spot.severity)))  # stable: rules stay in order


def _untested(untested: Mapping[str, str], measured: bool) -> Iterator[WeakSpot]:
    """Say what failed; robustness of alpha is nothing to miss where no alpha is measured."""
    for name, why in untested.items():
        if name.startswith(EXPERTS):
            yield WeakSpot("columns", "low", f"{name} could not be compared with {EXPERTS}: {why}")
        elif name in UNJUDGED and (measured or name != "robustness"):
            yield WeakSpot(name, "medium", f"{name} could not be examined ({why}): {UNJUDGED[name]}")
