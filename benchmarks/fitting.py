"""The latency fit and its diagnostics; what needs moments only, beside statsmodels and scikit-learn on the rows.

Everything runs in a process of its own in which BLAS has one thread. A rival that would take minutes makes a few of its
refits, which are compared with ours and timed; its row is scaled up to all of them.
"""

import json
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec

from oracle.errors import InputWarning
from oracle.latency.diagnostics.factors import factor_relations, factor_strengths, standardised_by_m
from oracle.latency.diagnostics.hypotheses import judge_hypotheses
from oracle.latency.diagnostics.ladder import specification_ladder
from oracle.latency.diagnostics.pooled import budget_forms, pooled_model
from oracle.latency.diagnostics.regimes import find_regimes
from oracle.latency.diagnostics.residuals import residual_diagnostics
from oracle.latency.diagnostics.robustness import robustness
from oracle.latency.diagnostics.transfer import transfer
from oracle.latency.diagnostics.weak_spots import weak_spots
from oracle.latency.evidence import Evidence, gather_evidence
from oracle.latency.fit import fit_latency
from oracle.latency.moments import Floats
from oracle.rounds import Rounds

from .fitting_parts import Part, parts
from .fitting_rivals import FOLDS, installed
from .report import Row
from .rounds_input import DRAFT_LENGTHS, REGIMES, rounds_of
from .subprocesses import answer, run_module
from .timing import Timing, interleaved

GROUP = "fit"
REFITS, TIMED_FOLDS = 3, 1  # of a rival, each time
REPORT = "whole report"
DIAGNOSTICS = "all diagnostics"
FIT, GATHER = "fit_latency", "gather_evidence"
TOTAL = "moments-based parts"
BOTH = "statsmodels + scikit-learn"
ABSENT = "not installed"
_ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")


@dataclass(frozen=True)
class Setting:
    """What is measured.

    Attributes
    ----------
    rounds, clusters
        Of the input.
    repeats, budget_s
        Most runs of everything; seconds after which a contest stops repeating.
    refits, folds
        What a rival is timed on.
    """

    rounds: int
    clusters: int
    repeats: int
    budget_s: float
    refits: int = REFITS
    folds: int = TIMED_FOLDS

    @property
    def what(self) -> str:
        """The input in words."""
        return f"{self.rounds:,} rounds, {self.clusters} clusters, {len(DRAFT_LENGTHS)} m"


def rows(setting: Setting) -> list[Row]:
    """Measure in a fresh process whose BLAS has one thread.

    Raises
    ------
    AssertionError
        A rival and we do not agree.
    """
    found = run_module("fitting", json.dumps(asdict(setting)), environment=_ONE_THREAD)
    if "disagreement" in found:
        raise AssertionError(found["disagreement"])
    return [Row(**row) for row in found["rows"]]


def measured(setting: Setting) -> Iterator[Row]:
    """Measure in this process."""
    rounds = rounds_of(setting.rounds, setting.clusters)
    evidence, blas = _gather(rounds), blas_threads()
    timings = _steps(rounds, evidence, setting)
    yield from _diagnostic_rows(timings, setting, blas)
    yield from _part_rows(evidence, timings[GATHER], setting, blas)


def blas_threads() -> str:
    """How many threads BLAS has here, in words."""
    if find_spec("threadpoolctl") is None:
        return "OPENBLAS_NUM_THREADS=1, unchecked: threadpoolctl is not installed"
    pools = import_module("threadpoolctl").threadpool_info()
    threads = {pool["num_threads"] for pool in pools if pool["user_api"] == "blas"}
    return f"BLAS threads: {', '.join(map(str, sorted(threads)))}"


def _diagnostics(evidence: Evidence) -> dict[str, Callable[[], object]]:
    """All diagnostics as a report calls them: the last one takes over what two others found."""
    robust, residuals = robustness(evidence)[1], residual_diagnostics(evidence)
    boundaries = find_regimes(evidence, levels="free").boundaries
    return {
        "factor_strengths": partial(factor_strengths, evidence),
        "factor_relations": partial(factor_relations, evidence),
        "standardised_by_m": partial(standardised_by_m, evidence),
        "specification_ladder": partial(specification_ladder, evidence),
        "pooled_model": partial(pooled_model, evidence),
        "budget_forms": partial(budget_forms, evidence),
        "judge_hypotheses": partial(judge_hypotheses, evidence, REGIMES),
        "find_regimes": partial(find_regimes, evidence),
        "transfer": partial(transfer, evidence, REGIMES),
        "robustness": partial(robustness, evidence),
        "residual_diagnostics": partial(residual_diagnostics, evidence),
        "weak_spots": partial(weak_spots, evidence, robust=robust, residuals=residuals, boundaries=boundaries),
    }


def _steps(rounds: Rounds, evidence: Evidence, setting: Setting) -> dict[str, Timing]:
    """Time the fit, the gathering of the rounds and all diagnostics in turns."""
    steps: dict[str, Callable[[], object]] = {FIT: partial(_fit, rounds), GATHER: partial(_gather, rounds)}
    return interleaved(steps | _diagnostics(evidence), rounds=setting.repeats, budget_s=setting.budget_s)


def _diagnostic_rows(timings: Mapping[str, Timing], setting: Setting, blas: str) -> Iterator[Row]:
    """Our own steps, and the sum of them."""
    for name, timing in timings.items():
        given = "given what robustness and residual_diagnostics found; " if name == "weak_spots" else ""
        yield _row(name, setting, timing, given + blas)
    each = [timing for name, timing in timings.items() if name not in (FIT, GATHER)]
    every = summed(each)
    yield _row(DIAGNOSTICS, setting, every, f"{len(each)} of them, one after another; {blas}")
    whole = summed([every, timings[GATHER]])
    yield _row(REPORT, setting, whole, f"{GATHER} and {DIAGNOSTICS}, on one core; {blas}")


def _part_rows(evidence: Evidence, gathering: Timing, setting: Setting, blas: str) -> Iterator[Row]:
    """Our parts and their rivals, and all of them together; our total gathers the rounds first."""
    ours, theirs = [gathering.median], list[float]()
    complete = True
    for part in parts(evidence, refits=setting.refits, folds=setting.folds):
        own, rival = _part(part, setting, blas)
        yield own
        yield rival
        assert own.value is not None
        ours.append(own.value)
        complete &= rival.value is not None
        theirs.append(rival.value or 0.0)
    total, rivals = Timing((sum(ours),)), Timing((sum(theirs),))
    ratios = {BOTH: rivals.over(total)} if complete else {}
    what = f"all {len(theirs)} of them"
    yield _row(TOTAL, setting, total, f"sum of medians, {GATHER} among them; {blas}", what, ratios)
    name = f"{TOTAL} / {BOTH}"
    if complete:
        yield _row(name, setting, rivals, "sum of medians, scaled where theirs are", f"{what}; {BOTH}")
    else:
        yield Row(name, GROUP, f"{what}; {BOTH}", "s", note=ABSENT)


def _part(part: Part, setting: Setting, blas: str) -> tuple[Row, Row]:
    """Compare and time one part: our row and the rival's."""
    name, what = f"{part.name} / {part.rival}", f"{part.what}; {part.rival}"
    note = "; ".join(filter(None, [part.note, blas]))
    if not installed(part.rival):
        timing = interleaved({part.name: part.ours}, rounds=setting.repeats, budget_s=setting.budget_s)[part.name]
        return _row(part.name, setting, timing, note, part.what), Row(name, GROUP, what, "s", note=ABSENT)
    last: dict[str, Floats] = {}

    def ours() -> None:
        last[part.name] = part.ours()

    def theirs() -> None:
        """Make the numbers; the first time, which is not counted, compare them with ours."""
        first = part.rival not in last
        last[part.rival] = part.theirs()
        if first:
            part.compare(last[part.name], last[part.rival])

    timings = interleaved({part.name: ours, name: theirs}, rounds=setting.repeats, budget_s=setting.budget_s)
    scaled = Timing(tuple(seconds * part.of / part.timed for seconds in timings[name].seconds))
    scaling = f"{part.timed} of {part.of} {part.unit} timed, scaled to all" if part.timed < part.of else ""
    rival_note = "; ".join(filter(None, [scaling, blas]))
    ratios = {part.rival: scaled.over(timings[part.name])}
    return (
        _row(part.name, setting, timings[part.name], note, part.what, ratios),
        _row(name, setting, scaled, rival_note, what),
    )


def summed(timings: list[Timing]) -> Timing:
    """Add what was timed in the same rounds, round by round."""
    return Timing(tuple(map(sum, zip(*(timing.seconds for timing in timings), strict=True))))


def _gather(rounds: Rounds) -> Evidence:
    return gather_evidence(rounds, folds=FOLDS)


def _fit(rounds: Rounds) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputWarning)
        fit_latency(rounds, folds=FOLDS)


def _row(
    name: str,
    setting: Setting,
    timing: Timing,
    note: str,
    what: str = "",
    ratios: dict[str, float] | None = None,
) -> Row:
    return Row(
        name=name,
        group=GROUP,
        what=f"{what}; {setting.what}" if what else setting.what,
        unit="s",
        value=timing.median,
        least=timing.fastest,
        most=timing.slowest,
        runs=len(timing.seconds),
        positions=setting.rounds,
        per_second=setting.rounds / timing.median,
        ratios=ratios or {},
        note=note,
    )


def _printed(setting: Setting) -> dict[str, object]:
    """What `rows` reads back: the rows, or how we and a rival disagree."""
    try:
        return {"rows": [asdict(row) for row in measured(setting)]}
    except AssertionError as error:
        return {"disagreement": str(error)}


if __name__ == "__main__":
    answer(lambda: _printed(Setting(**json.loads(sys.argv[1]))))
