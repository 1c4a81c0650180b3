"""The first hypothesis of the source: unique experts predict verification time better than each other factor."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr

from oracle.latency.diagnostics.factors import alone
from oracle.latency.diagnostics.fold_errors import (
    ONE_CLUSTER,
    OverFolds,
    fold_errors,
    joined_by_fold,
    rmse_gain_ms,
    variant_of,
)
from oracle.latency.diagnostics.specification import ALPHA, EXPERTS, levels, specification
from oracle.latency.diagnostics.verdicts import (
    CONTRADICTED,
    NOT_SUPPORTED,
    SUPPORTED,
    UNTESTABLE,
    Verdict,
    listed,
    span,
)
from oracle.latency.evidence import Evidence


@dataclass(frozen=True)
class Comparison:
    """U alone against another factor alone.

    Parameters
    ----------
    factor
        The other factor.
    difference_ms
        Held-out RMSE of the other factor minus that of U, paired by fold; positive: U predicts better.
    p
        Two-sided p-value of the paired t test over folds; None with fewer than two folds.
    """

    factor: str
    difference_ms: OverFolds
    p: float | None


@dataclass(frozen=True)
class RoutingPredictsBest:
    """H1.

    Parameters
    ----------
    verdict, sentence
        What may be said.
    comparisons
        U against every other factor.
    beyond_m_ms
        What U takes off the held-out RMSE of a level for each m; None where it was not tested.
    not_compared
        Factor -> why it could not be compared.
    """

    verdict: Verdict
    sentence: str
    comparisons: tuple[Comparison, ...]
    beyond_m_ms: OverFolds | None
    not_compared: Mapping[str, str]


def routing_predicts_best(evidence: Evidence) -> RoutingPredictsBest:
    """Judge H1.

    Supported: for each other factor the 95 % interval of the paired difference lies above 0 (all of them must, so no
    correction is needed), and U takes something off the error of a level for each m too: a U that predicts only
    because it grows with m is no routing signal. Contradicted: some other factor is better, at 5 % divided by the
    number of factors compared.
    """
    missing = {name: why for name, why in evidence.left_out.items() if name != EXPERTS}
    if EXPERTS not in evidence.factors:
        why = f"unique_experts: {evidence.left_out[EXPERTS]}"
        return RoutingPredictsBest(UNTESTABLE, f"H1 cannot be tested: {why}.", (), None, missing)
    if evidence.folds < 2:
        return RoutingPredictsBest(UNTESTABLE, f"H1 cannot be tested: {ONE_CLUSTER}.", (), None, missing)
    cells, ms = joined_by_fold(evidence), evidence.moments.ms
    experts = alone(cells, EXPERTS)
    compared = []
    for factor in evidence.factors:
        if factor != EXPERTS:
            other = alone(cells, factor)
            difference = rmse_gain_ms(other, experts)
            if difference.mean is None:
                missing[factor] = other.why or "no held-out error"
            else:
                compared.append(Comparison(factor, difference, _paired_p(difference)))
    if not compared:
        sentence = "H1 cannot be tested: no other factor was recorded and varies."
        return RoutingPredictsBest(UNTESTABLE, sentence, (), None, missing)
    level = fold_errors(cells, variant_of(specification(levels(ms), ms)))
    beyond = rmse_gain_ms(level, fold_errors(cells, variant_of(specification([*levels(ms), ALPHA], ms))))
    verdict, sentence = _first_verdict(compared, beyond)
    return RoutingPredictsBest(verdict, sentence, tuple(compared), beyond, missing)


def _first_verdict(compared: Sequence[Comparison], beyond: OverFolds) -> tuple[Verdict, str]:
    better = [c.factor for c in compared if (c.difference_ms.low or 0.0) > 0]
    worse = [
        c for c in compared if (c.difference_ms.mean or 0.0) < 0 and c.p is not None and c.p < 0.05 / len(compared)
    ]
    others = listed([c.factor for c in compared])
    if worse:
        least = min(worse, key=lambda c: c.difference_ms.mean or 0.0)
        d = least.difference_ms
        return CONTRADICTED, (
            f"{least.factor} alone predicts verification time better than unique experts alone: its held-out RMSE is "
            f"lower by {-(d.mean or 0.0):.3g} ms {span(-(d.high or 0.0), -(d.low or 0.0))}."
        )
    if len(better) < len(compared):
        unclear = listed([c.factor for c in compared if c.factor not in better])
        return NOT_SUPPORTED, f"Unique experts alone do not predict clearly better than {unclear} alone."
    if beyond.low is None or beyond.low <= 0:
        return NOT_SUPPORTED, (
            f"Unique experts alone predict better than {others} alone, but only because they grow with m: on top of a "
            f"level for each m they take {beyond.mean or 0.0:.3g} ms {span(beyond.low, beyond.high)} off the RMSE."
        )
    closest = min(compared, key=lambda c: c.difference_ms.mean or 0.0)
    d = closest.difference_ms
    return SUPPORTED, (
        f"Unique experts alone predict verification time better than each other factor recorded ({others}); the next "
        f"best, {closest.factor}, has a held-out RMSE higher by {d.mean:.3g} ms {span(d.low, d.high)}."
    )


def _paired_p(difference: OverFolds) -> float | None:
    values = difference.values
    if values.size < 2:
        return None
    error = values.std(ddof=1) / np.sqrt(values.size)
    return float(2 * stdtr(values.size - 1, -abs(values.mean()) / error)) if error > 0 else float(values.mean() == 0)
