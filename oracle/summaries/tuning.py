"""What is shown of tuned policies."""

from collections.abc import Mapping, Sequence
from typing import Any

from oracle.errors import printable
from oracle.resampling import DRAWS
from oracle.tables import Column, Table, interval_cells, number, resampled, show, with_interval, words
from oracle.tuning import FEW_CLUSTERS, NOT_SIGNIFICANT, Tuned, Tuning


def tuning_table(found: Tuning, notes_on_lengths: Sequence[str] = ()) -> Table:
    """Every family of policies, tuned on training folds and scored on held-out generations."""
    rows = [_row(tuned) for tuned in found.families]
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
        words("an engine\ncan run it", "online"),
    )
    without = found.without_ms_per_token
    k0 = "" if without is None else f"; k = 0: {show(without)} ms a token"
    notes = [
        *notes_on_lengths,
        f"{found.folds} folds of {found.clusters:,} clusters, {found.tokens:,.0f} tokens; {resampled(found.clusters)}",
        f"the oracle, which looks ahead: {show(found.oracle_ms_per_token)} ms a token{k0}",
        "expected scores; parameters and constants come from the other folds; intervals take them as given",
        "a token that is drafted only to see that it is too unsure is paid for; @keep verifies it all the same",
        "`!`: looks at true match probabilities and experts, which no engine knows: a bound on the idea",
    ]
    return Table(
        "tuned_policies", "Policies tuned on training generations, scored on held-out ones", columns, rows, notes
    )


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
        Column("verdict", lambda row: _marked(row["verdict"], row["clusters"]), text=True),
        words("an engine\ncan run it", "online"),
    )
    return Table(
        "tuned_by_category", "Held-out scores of tuned policies by category", columns, rows, _category_notes(found)
    )


def _marked(verdict: str, clusters: int) -> str:
    weak = clusters < FEW_CLUSTERS and verdict != NOT_SIGNIFICANT
    return f"{verdict}{' *' if weak else ''}"


def _category_notes(found: Mapping[str | None, Tuning]) -> list[str]:
    few = [f"{_named(name)} ({tuning.clusters})" for name, tuning in found.items() if tuning.clusters < FEW_CLUSTERS]
    compared = sum(len(tuning.families) - 1 for tuning in found.values())
    notes = [
        "expected scores of the policies of the table above, which were tuned on the training generations of all "
        "categories (budget: on each category's)",
        f"95 % intervals from {DRAWS} bootstrap resamples of the category's clusters; differences are paired by "
        "cluster",
    ]
    if few:
        notes.append(
            f"*: fewer than {FEW_CLUSTERS} clusters, so the interval is too narrow and the verdict weak: "
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
    verdict = _marked(best.against_static.verdict, tuning.clusters)
    return f"{best.family}; against the best static length: {verdict}"


def _named(category: str | None) -> str:
    return "no category" if category is None else printable(category, 40)


def _category_row(category: str | None, tuning: Tuning, tuned: Tuned) -> dict[str, Any]:
    return {
        "category": category,
        "clusters": tuning.clusters,
        "few_clusters": tuning.clusters < FEW_CLUSTERS,
        "tokens": tuning.tokens,
        "family": tuned.family,
        **_held_out_cells(tuned),
        "oracle_ms_per_token": tuning.oracle_ms_per_token,
        "without_ms_per_token": tuning.without_ms_per_token,
    }


def _row(tuned: Tuned) -> dict[str, Any]:
    return {
        "family": tuned.family,
        "chosen_on_all": tuned.chosen_on_all,
        "chosen": list(tuned.chosen),
        "in_sample_ms_per_token": tuned.in_sample_ms_per_token,
        "optimism_ms_per_token": tuned.optimism_ms_per_token,
        **_held_out_cells(tuned),
    }


def _held_out_cells(tuned: Tuned) -> dict[str, Any]:
    against = tuned.against_static
    return {
        **interval_cells("ms_per_token", tuned.ms_per_token, tuned.ms_per_token_interval),
        **interval_cells("regret_ms_per_token", tuned.regret_ms_per_token, tuned.regret_interval),
        **interval_cells("gain_captured", tuned.gain_captured, tuned.gain_interval),
        **interval_cells("against_static_ms", against.ms_per_token, against.interval),
        "verdict": against.verdict,
        "online": "yes" if tuned.online else "no",
    }
