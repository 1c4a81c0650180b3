"""What is shown of tuned policies."""

from collections.abc import Mapping, Sequence
from typing import Any

from oracle.engines import NAMES, engines_that_take
from oracle.errors import printable
from oracle.intervals import FEW, FEW_CLUSTERS
from oracle.resampling import DRAWS
from oracle.scores import PolicyTotals, score
from oracle.summaries.study import SCORE_COLUMNS, score_rows
from oracle.tables import Column, Row, Table, interval_cells, number, resampled, show, with_interval, words
from oracle.tuning import FOLDS, Tuned, Tuning


def tuning_table(found: Tuning, notes_on_lengths: Sequence[str] = ()) -> Table:
    """Every family of policies, tuned on training folds and scored on held-out generations."""
    rows = [_row(found, tuned) for tuned in found.families]
    columns = (
        words("policy", "family"),
        words("chosen on\nall", "chosen_on_all"),
        with_interval("ms/token\nheld out", "ms_per_token"),
        number("in\nsample", "in_sample_ms_per_token"),
        number("optimism", "optimism_ms_per_token", "+.3f"),
        with_interval("regret\nms/token", "regret_ms_per_token"),
        with_interval("% of gain", "gain_captured", ".1f", 100),
        with_interval("minus the best\nstatic, ms", "against_static_ms"),
        words("verdict", "verdict"),
        Column("engines that\ntake it", _takers, text=True),
    )
    without = found.without_ms_per_token
    k0 = "" if without is None else f"; k = 0: {show(without)} ms a token"
    few = found.folds < FOLDS
    notes = [
        *notes_on_lengths,
        f"{found.folds} folds{f' (not {FOLDS}: there are no more clusters)' if few else ''}"
        f"{f' of {found.clusters:,} clusters' if found.clusters > 1 else ''}, {found.tokens:,.0f} tokens; "
        f"{resampled(found.clusters)}",
        f"the oracle, which looks ahead: {show(found.oracle_ms_per_token)} ms a token{k0}",
        "expected scores; parameters and constants come from the other folds; intervals take them as given",
        "a token that is drafted only to see that it is too unsure is paid for; @keep verifies it all the same",
        "`!`: looks at true match probabilities and experts, which no engine knows: a bound on the idea",
        f"engines that take it: as it stands, of {', '.join(NAMES)}; none: it looks at nothing that an engine does not "
        "know, and needs code of its own there",
        *_on_what_was_tried(found),
    ]
    return Table(
        "tuned_policies", "Policies tuned on training generations, scored on held-out ones", columns, rows, notes
    )


def _on_what_was_tried(found: Tuning) -> list[str]:
    """Say what a reader must know of weak verdicts, parameters at an end of the grid, stand-ins and claims."""
    notes = []
    if 1 < found.clusters < FEW_CLUSTERS:
        notes.append(f"{FEW}: fewer than {FEW_CLUSTERS}, so intervals are too narrow to call anything faster or slower")
    edges = [policy for one in found.families for policy in one.at_edge]
    if edges:
        notes.append(
            f"at an end of what was tried: {', '.join(map(printable, edges))}; what lies beyond was not tried (longer "
            "static drafts: raise --k-max, if the latency model has them)"
        )
    if found.late_share is not None:
        notes.append(
            "how a text goes on changes no decision before its last k_max - 1 positions "
            f"({show(found.late_share, '.1f', 100)} % of positions): there, policies that look at the draft's "
            "confidence read the text's beginning for what was not recorded past its end, so a choice may differ from "
            "that in a longer recording"
        )
    if any(one.claimed for one in found.families):
        notes.append("author's claim: a column of lengths does not tell what it looked at; nothing here checks it")
    return notes


def untuned_table(fixed: PolicyTotals, notes: Sequence[str] = ()) -> Table:
    """Policies that need no tuning, in-sample: there is one cluster, so nothing can be held out."""
    said = [
        *notes,
        "nothing was tuned, and no policy is named to deploy: only one cluster has positions, and held-out scores need "
        "two; add generations",
        "expected scores, in-sample; so are the constants of online policies (mean experts by m); "
        f"{resampled(len(set(fixed.cluster)))}",
        "the oracle looks ahead over the whole text: a bound, not a policy an engine can run",
    ]
    title = "Policies that need no tuning, in-sample (speed-up and % of gain: over k = 0)"
    return Table("untuned_policies", title, SCORE_COLUMNS, score_rows(score(fixed)), said)


def category_table(found: Mapping[str | None, Tuning]) -> Table:
    """Every family in every category; the parameters are those tuned over all categories."""
    rows = [_category_row(name, tuning, tuned) for name, tuning in found.items() for tuned in tuning.families]
    columns = (
        words("category", "category"),
        number("clusters", "clusters"),
        words("policy", "family"),
        with_interval("ms/token\nheld out", "ms_per_token"),
        with_interval("regret\nms/token", "regret_ms_per_token"),
        with_interval("% of gain", "gain_captured", ".1f", 100),
        with_interval("minus the best\nstatic, ms", "against_static_ms"),
        words("verdict", "verdict"),
        Column("engines that\ntake it", _takers, text=True),
    )
    return Table(
        "tuned_by_category", "Held-out scores of tuned policies by category", columns, rows, _category_notes(found)
    )


def _takers(row: Row) -> str:
    if row["online"] == "author's claim":
        return "author's claim"
    if row["online"] == "no":
        return "a bound"
    return "all" if len(row["engines"]) == len(NAMES) else ", ".join(row["engines"]) or "none"


def _category_notes(found: Mapping[str | None, Tuning]) -> list[str]:
    few = [f"{_named(name)} ({tuning.clusters})" for name, tuning in found.items() if tuning.clusters < FEW_CLUSTERS]
    compared = sum(len(tuning.families) - 1 for tuning in found.values() if tuning.clusters >= FEW_CLUSTERS)
    notes = [
        "expected scores of the policies of the table above, which were tuned on the training generations of all "
        "categories (budget: on each category's)",
        f"95 % intervals from {DRAWS} bootstrap resamples of the category's clusters; differences are paired by "
        "cluster",
    ]
    if few:
        notes.append(
            f"{FEW}: fewer than {FEW_CLUSTERS}, so intervals are too narrow to call anything faster or slower: "
            f"{', '.join(few)}"
        )
    if compared > 1:
        notes.append(
            f"{compared} differences at 95 % each: about {show(0.05 * compared, '.1f')} would be called faster or "
            "slower by chance if no policy differed"
        )
    for name, tuning in found.items():
        runs = [tuned for tuned in tuning.families if tuned.online]
        best = min(runs, key=lambda tuned: tuned.ms_per_token)
        notes.append(f"lowest that an engine can run in {_named(name)}: {_lowest(best, tuning)}")
    return notes


def _lowest(best: Tuned, tuning: Tuning) -> str:
    if best is tuning.families[0]:
        return f"{best.family}, the best static length"
    return f"{best.family}; against the best static length: {best.against_static.verdict}"


def _named(category: str | None) -> str:
    return "no category" if category is None else printable(category, 40)


def _category_row(category: str | None, tuning: Tuning, tuned: Tuned) -> dict[str, Any]:
    return {
        "category": category,
        "clusters": tuning.clusters,
        "few_clusters": tuning.clusters < FEW_CLUSTERS,
        "tokens": tuning.tokens,
        "family": tuned.family,
        **_held_out_cells(tuning, tuned),
        "oracle_ms_per_token": tuning.oracle_ms_per_token,
        "without_ms_per_token": tuning.without_ms_per_token,
    }


def _row(tuning: Tuning, tuned: Tuned) -> dict[str, Any]:
    return {
        "family": tuned.family,
        "chosen_on_all": tuned.chosen_on_all,
        "chosen": list(tuned.chosen),
        "in_sample_ms_per_token": tuned.in_sample_ms_per_token,
        "optimism_ms_per_token": tuned.optimism_ms_per_token,
        **_held_out_cells(tuning, tuned),
    }


def _held_out_cells(tuning: Tuning, tuned: Tuned) -> dict[str, Any]:
    itself = tuned is tuning.families[0]
    against = tuned.against_static
    return {
        **interval_cells("ms_per_token", tuned.ms_per_token, tuned.ms_per_token_interval),
        **interval_cells("regret_ms_per_token", tuned.regret_ms_per_token, tuned.regret_interval),
        **interval_cells("gain_captured", tuned.gain_captured, tuned.gain_interval),
        **interval_cells(
            "against_static_ms", None if itself else against.ms_per_token, None if itself else against.interval
        ),
        "verdict": None if itself else against.verdict,
        "online": "author's claim" if tuned.claimed else "yes" if tuned.online else "no",
        "engines": list(engines_that_take(tuned.chosen_on_all)),
    }
