"""Cases: decisions that a change of the costs moves although the next token would probably match.

The rules are `CASE_RULES`; they are printed with the cases.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from oracle.files import shown
from oracle.illustrations.candidates import Candidate, best_of, shortened
from oracle.illustrations.chosen import Chosen, explain_all
from oracle.illustrations.search import HIGH_MATCH_PROB, LEAST_VISIT_PROB, Decided, Search, decide
from oracle.pipeline import in_order
from oracle.traces import Traces

_CONDITIONS = (
    "decisions",
    "get longer under the changed cost (k0* > k*)",
    f"and the token after k* matches with probability {HIGH_MATCH_PROB} or more",
    "and one more token pays under the changed cost (Q0(k* + 1) < Q0(k*))",
    f"and a round of the oracle starts there with probability {LEAST_VISIT_PROB} or more",
    "and rounds of every length end before the text does",
)
CASE_RULES = (
    f"a case: the change makes the draft longer, the token after k* matches with probability {HIGH_MATCH_PROB} or "
    f"more, Q0(k* + 1) < Q0(k*), the probability of a visit is {LEAST_VISIT_PROB} or more, and rounds of every length "
    "end before the text does",
    "among those the largest effect first: the gain Q0(k*) − Q0(k* + 1) times the probability of a visit; then the "
    "order of the traces",
    "never two of one generation; first those whose boundary k* → k* + 1, category and cluster are all new, then "
    "boundary and cluster, then boundary, then cluster, then generation",
)
_ROUNDS = (("boundary", "category", "cluster"), ("boundary", "cluster"), ("boundary",), ("cluster",), ())


@dataclass(frozen=True)
class _Seen:
    """What one batch holds: candidates, how many decisions satisfy each condition, how many generations there were."""

    candidates: list[Candidate]
    counts: NDArray[np.int64]
    generations: int


def choose_cases(search: Search, count: int, *, on_batch: Callable[[int], None] | None = None) -> Chosen:
    """Choose cases by `CASE_RULES` from all decisions of the traces.

    The traces are walked over once; then the generations chosen are read again, with their texts.

    Parameters
    ----------
    search
        Where to look.
    count
        How many cases are wanted.
    on_batch
        Called with the number of generations after each batch.

    Returns
    -------
    Chosen
        With a sentence in `missing` where there are fewer.
    """
    short: dict[tuple[str, str], list[Candidate]] = {}
    counts = np.zeros(len(_CONDITIONS), np.int64)
    generations = 0
    for seen in in_order(partial(_look, search=search), search.files, search.threads):
        for one in seen.candidates:
            short.setdefault((one.boundary, one.category), []).append(replace(one, order=one.order + generations))
        short = {stratum: shortened(several, count) for stratum, several in short.items()}
        counts += seen.counts
        generations += seen.generations
        if on_batch is not None:
            on_batch(seen.generations)
    picked = pick_cases((one for several in short.values() for one in several), count)
    missing: tuple[str, ...] = ()
    if len(picked) < count:
        missing = (f"{count} cases were asked for; no other generation holds a decision that satisfies the rule",)
    return Chosen(
        illustrations=explain_all(search, [("cases", one, differs) for one, differs in picked]),
        missing=missing,
        rules=CASE_RULES,
        found=("; ".join(f"{n:,} {what}" for n, what in zip(counts.tolist(), _CONDITIONS, strict=True)),),
        change=shown(str(search.change)),
    )


def _look(traces: Traces, search: Search) -> _Seen:
    decided = decide(traces, search)
    conditions = np.logical_and.accumulate(_conditions(decided), axis=0)
    effect = -decided.shifts.next_q_ms * decided.shifts.visit_prob
    return _Seen(
        best_of(decided, "case", conditions[-1], effect, by_boundary=True),
        conditions.sum(axis=1),
        traces.generations,
    )


def _conditions(decided: Decided) -> NDArray[np.bool_]:
    """Which decisions satisfy each of `_CONDITIONS`, (6, N)."""
    found = decided.shifts
    return np.stack(
        [
            np.ones(decided.problem.positions, np.bool_),
            found.changed_length > found.draft_length,
            found.next_match_prob >= HIGH_MATCH_PROB,
            found.next_q_ms < 0,
            found.visit_prob >= LEAST_VISIT_PROB,
            decided.settled,
        ]
    )


def pick_cases(candidates: Iterable[Candidate], count: int) -> list[tuple[Candidate, tuple[str, ...]]]:
    """Pick `count` of the candidates, each with what it has that none before it had."""
    ranked = sorted(candidates, key=lambda one: one.rank)
    picked: list[tuple[Candidate, tuple[str, ...]]] = []
    for new in _ROUNDS:
        for one in ranked:
            differs = _new_in(one, [other for other, _ in picked])
            if len(picked) < count and "generation" in differs and set(new) <= set(differs):
                picked.append((one, differs))
    return picked


def _new_in(one: Candidate, others: list[Candidate]) -> tuple[str, ...]:
    names = ("boundary", "category", "cluster", "generation")
    return tuple(name for name in names if getattr(one, name) not in {getattr(other, name) for other in others})
