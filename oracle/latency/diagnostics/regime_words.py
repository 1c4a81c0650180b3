"""What is said of a search for regimes, in words."""

from collections.abc import Iterator, Sequence

from oracle.latency.diagnostics.regime_form import RegimeFit
from oracle.latency.diagnostics.regime_tables import Boundary
from oracle.latency.diagnostics.runs import Candidates, Levels, Partition
from oracle.latency.diagnostics.verdicts import listed, span

JUMP = 1.25  # alpha jumps where its change cannot be 0 and the larger level is at least this times the smaller


def why_none(runs: Partition, found: Candidates, levels: Levels) -> str:
    """Why the chosen partition is no regimes; empty where it is."""
    if len(runs) == len(found.atoms) > 1:
        return "alpha and beta0 of their own at every m predict held-out rounds better than any regimes do"
    if levels == "line" and len(found.atoms) > 1 and max(map(len, runs)) < 3:
        listed_runs = listed([_span_of(run) for run in runs])
        return (
            f"held-out rounds ask for so many (m = {listed_runs}) that none holds three m, and two always lie on a "
            "line: beta0 bends everywhere"
        )
    return ""


def said(levels: Levels, fit: RegimeFit, boundaries: Sequence[Boundary], share: float | None) -> Iterator[str]:
    """Say what was found; `share`: of the resamples in which the whole procedure chooses this number."""
    form = "beta0 linear in m" if levels == "line" else "beta0 free at every m"
    often = "" if share is None else f"; the whole procedure chooses this number in {100 * share:.0f} % of resamples"
    first, last = fit.regimes[0], fit.regimes[-1]
    if len(fit.regimes) == 1:
        alpha = first.alpha_ms_per_expert
        yield (
            f"one regime with {form}: one alpha, {alpha.value:.4g} ms per expert {span(alpha.low, alpha.high)}, serves "
            f"m = {_span_of(first.ms)}, without a boundary{often}"
        )
        return
    chosen = [boundary for boundary in boundaries if boundary.chosen]
    runs = listed([_span_of(regime.ms) for regime in fit.regimes])
    yield f"{len(fit.regimes)} regimes with {form}: m = {runs}{often}"
    for boundary in chosen:
        yield _on_boundary(boundary)
    if not any(boundary.jump for boundary in chosen):
        follow = "; they follow bends of beta0, not the cost of an expert" if levels == "line" else ""
        yield (
            f"alpha jumps at none of these boundaries (a jump: the larger alpha is at least {JUMP:g} times the "
            f"smaller, and the interval of the change leaves out 0){follow}"
        )
    yield (
        f"boundaries describe m = {first.ms[0]} to {last.ms[-1]} as they were timed: where each K had its own run, "
        "a boundary can also be a change of the machine in between (an interleaved sweep tells them apart)"
    )


def _span_of(run: Sequence[int]) -> str:
    return str(run[0]) if len(run) == 1 else f"{run[0]}–{run[-1]}"


def _on_boundary(boundary: Boundary) -> str:
    change = boundary.alpha_change_ms_per_expert
    assert change is not None
    seen = [
        f"{100 * share:.0f} % of {of}"
        for share, of in ((boundary.share_of_folds, "training folds"), (boundary.share_of_resamples, "resamples"))
        if share is not None
    ]
    place = "its place is settled" if boundary.settled else "its place is not settled"
    kind = "alpha jumps" if boundary.jump else "alpha does not jump"
    return (
        f"boundary between m = {boundary.before} and {boundary.after}: found in {listed(seen)}, {place}; {kind} "
        f"({change.value:+.3g} ms per expert {span(change.low, change.high)})"
    )
