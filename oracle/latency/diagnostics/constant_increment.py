"""The second hypothesis of the source: inside a regime, one more unique expert costs about the same."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from oracle.errors import InputError
from oracle.latency.diagnostics.fold_errors import ONE_CLUSTER
from oracle.latency.diagnostics.increments import Increments, IncrementTests
from oracle.latency.diagnostics.verdicts import (
    CONTRADICTED,
    NOT_SUPPORTED,
    SUPPORTED,
    UNTESTABLE,
    Verdict,
    listed,
    material,
    percent,
    span,
)
from oracle.latency.evidence import Evidence
from oracle.latency.forms import RESPONSE

TOLERANCE = 0.10  # how far an alpha may lie from the regime's and still count as "approximately constant"


@dataclass(frozen=True)
class RegimeVerdict:
    """H2 in one regime; `increments` is None where nothing can be compared, and `untested` says why for each m."""

    regime: tuple[int, ...]
    verdict: Verdict
    sentence: str
    increments: Increments | None
    untested: Mapping[int, str]


@dataclass(frozen=True)
class ConstantIncrement:
    """H2 over all regimes."""

    verdict: Verdict
    sentence: str
    regimes: tuple[RegimeVerdict, ...]


def constant_increment(
    evidence: Evidence, regimes: Sequence[Sequence[int]] | None = None, *, tolerance: float = TOLERANCE
) -> ConstantIncrement:
    """Judge H2.

    Supported: the regime's alpha is positive (interval above 0); the 95 % interval of every m's alpha lies within
    ± `tolerance` of it (not merely "no difference found"); and neither a free alpha at each m nor a square of U at each
    m takes a certain 1 % or more off the held-out RMSE. Contradicted: the alphas differ (Wald test at 5 %), some m's
    interval lies wholly beyond ± `tolerance`, and a free alpha does take that much off; or the increment bends with U
    by more than `tolerance` within a standard deviation, and a square does.

    Parameters
    ----------
    regimes
        The m of each regime; None takes all measured m as one.
    tolerance
        Share of the regime's alpha.

    Raises
    ------
    InputError
        An m that was not measured, or that stands in two regimes; a tolerance that is not positive.
    """
    asked = [tuple(sorted(regime)) for regime in (regimes if regimes is not None else [evidence.moments.ms])]
    every = [m for regime in asked for m in regime]
    measured = ", ".join(map(str, evidence.moments.ms))
    faults = [
        f"regimes: m = {m} was not measured (measured: {measured})" for m in every if m not in evidence.moments.ms
    ]
    faults += [f"regimes: m = {m} stands twice; an m belongs to one regime" for m in set(every) if every.count(m) > 1]
    if not all(asked):
        faults.append("regimes: one holds no m; leave it out")
    if not tolerance > 0:
        faults.append(f"tolerance is {tolerance}; it is a positive share of alpha, such as {TOLERANCE}")
    if faults:
        raise InputError(faults)
    if evidence.folds < 2:
        return ConstantIncrement(UNTESTABLE, f"H2 cannot be tested: {ONE_CLUSTER}.", ())
    if evidence.columns[RESPONSE].min() == evidence.columns[RESPONSE].max():
        return ConstantIncrement(UNTESTABLE, f"H2 cannot be tested: {RESPONSE} does not vary.", ())
    try:
        tests = IncrementTests(evidence)
    except InputError as error:
        return ConstantIncrement(UNTESTABLE, f"H2 cannot be tested: {error}.", ())
    judged = tuple(_regime(tests, regime, tolerance) for regime in asked)
    tested = [each.verdict for each in judged if each.verdict != UNTESTABLE]
    overall: Verdict = NOT_SUPPORTED
    if not tested:
        overall = UNTESTABLE
    elif CONTRADICTED in tested:
        overall = CONTRADICTED
    elif set(tested) == {SUPPORTED}:
        overall = SUPPORTED
    said = [each.sentence for each in judged]
    if 0 < len(tested) < len(judged):
        judge = "one run of m alone" if len(tested) == 1 else f"{len(tested)} of {len(judged)} runs of m"
        said.append(f"The verdict rests on {judge}: the rest cannot be tested.")
    return ConstantIncrement(overall, " ".join(said), judged)


def _regime(tests: IncrementTests, regime: tuple[int, ...], tolerance: float) -> RegimeVerdict:
    untested = {m: "unique experts do not vary" for m in regime if m in tests.chosen.ms and m not in tests.own}
    untested |= {m: tests.chosen.left_out[m] for m in regime if m in tests.chosen.left_out}
    ms = tuple(m for m in regime if m in tests.own)
    name = _named(regime, tests.totals.ms)
    if len(ms) < 2:
        sentence = f"In {name} fewer than two m have an alpha of their own, so H2 cannot be tested there."
        return RegimeVerdict(regime, UNTESTABLE, sentence, None, untested)
    found, name = tests.of(ms), _named(ms, tests.totals.ms)
    if found.p is None or found.common.low is None or found.free_gain_ms.mean is None:
        few = len(ms) > found.common.clusters or found.common.low is None
        why = f"too few clusters for {len(ms)} alphas" if few else "no errors to judge differences by"
        sentence = f"In {name} there are {why}, so H2 cannot be tested there."
        return RegimeVerdict(regime, UNTESTABLE, sentence, found, untested)
    verdict, reason = _second_verdict(found, tolerance)
    return RegimeVerdict(regime, verdict, f"In {name} {reason}.", found, untested)


def _second_verdict(found: Increments, tolerance: float) -> tuple[Verdict, str]:
    alpha = f"one more expert costs {found.common.value:.3g} ms {span(found.common.low, found.common.high)}"
    if (found.common.low or 0.0) <= 0:
        return NOT_SUPPORTED, f"no increment is measured: {alpha}"
    freer = material(found.free_gain_ms, found.rmse_ms)
    squarer = material(found.square_gain_ms, found.free_rmse_ms)
    worst = max(range(len(found.ms)), key=lambda i: abs(found.deviations[i].value))
    share = found.deviations[worst]
    apart = f"at m = {found.ms[worst]} it is {percent(share.value, '+')} {_percent(share.low, share.high)} away"
    if freer and (found.p or 0.0) < 0.05 and any(d.beyond(tolerance) for d in found.deviations):
        return CONTRADICTED, f"{alpha} on average, but not at every m: {apart}, and a free alpha predicts better"
    bend = found.bend
    if squarer and bend is not None and bend.beyond(tolerance):
        return CONTRADICTED, (
            f"{alpha} on average, but the increment changes with their number: {percent(bend.value, '+')} "
            f"{_percent(bend.low, bend.high)} a standard deviation above the mean, and a square predicts better"
        )
    loose = [m for m, d in zip(found.ms, found.deviations, strict=True) if not d.within(tolerance)]
    if not loose and not freer and not squarer:
        return SUPPORTED, f"{alpha}, within {percent(tolerance)} at every m ({apart})"
    reasons = []
    if loose:
        which = ", ".join(map(str, loose))
        reasons.append(f"alpha at m = {which} is not known to lie within {percent(tolerance)} of that ({apart})")
        if (found.p or 0.0) >= 0.05:
            reasons.append(f"no difference between the m is shown either (p = {found.p:.2g})")
    if freer:
        reasons.append("a free alpha at each m predicts better")
    if squarer:
        reasons.append("a square of unique experts predicts better")
    return NOT_SUPPORTED, f"{alpha}, but {listed(reasons)}"


def _named(ms: Sequence[int], measured: Sequence[int]) -> str:
    """Write some of the measured m, as a range where none between is missing."""
    if len(ms) > 2 and [m for m in measured if ms[0] <= m <= ms[-1]] == list(ms):
        return f"m = {ms[0]} to {ms[-1]}"
    return f"m = {listed(list(map(str, ms)))}"


def _percent(low: float | None, high: float | None) -> str:
    return "[no interval]" if low is None or high is None else f"[{percent(low, '+')}; {percent(high, '+')}]"
