"""What is shown of tuned policies."""

from collections.abc import Sequence
from typing import Any

from oracle.tables import Table, interval_cells, number, resampled, show, with_interval, words
from oracle.tuning import Tuned, Tuning


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


def _row(tuned: Tuned) -> dict[str, Any]:
    against = tuned.against_static
    return {
        "family": tuned.family,
        "chosen_on_all": tuned.chosen_on_all,
        "chosen": list(tuned.chosen),
        **interval_cells("ms_per_token", tuned.ms_per_token, tuned.ms_per_token_interval),
        "in_sample_ms_per_token": tuned.in_sample_ms_per_token,
        "optimism_ms_per_token": tuned.optimism_ms_per_token,
        **interval_cells("regret_ms_per_token", tuned.regret_ms_per_token, tuned.regret_interval),
        **interval_cells("gain_captured", tuned.gain_captured, tuned.gain_interval),
        **interval_cells("against_static_ms", against.ms_per_token, against.interval),
        "verdict": against.verdict,
        "online": "yes" if tuned.online else "no",
    }
