"""What is shown of the texts of a request log: prefix sharing, acceptance of a prompt lookup, its readings."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from oracle.levers.matches import READINGS
from oracle.observe import repetitiveness as lookup
from oracle.observe.regimes import Floats, ObservedRegime, around
from oracle.observe.study import Observed
from oracle.resampling import bootstrap
from oracle.tables import Table, interval_cells, number, resampled, with_interval, words

ROUNDS_TO_ONE = 0.9995  # in three digits
BELOW_ONE = "x is below 1 where 1.000 is shown: the series holds it at full precision"
FEW_UNITS = 20  # below, intervals of resamples cover less than they say
_UNITS = {"cluster": "clusters", "request": "requests", "tenant": "tenants", "time": "stretches of time"}


def interval_note(found: Observed, regimes: Sequence[ObservedRegime] = ()) -> str:
    """Say what was resampled, and when that is too little.

    Parameters
    ----------
    regimes
        Of parts of the log that have intervals of their own.
    """
    said = f"{resampled(found.whole.units)} ({_UNITS[found.unit]})"
    fewest = min([found.whole.units, *(regime.units for regime in regimes)])
    if fewest < found.whole.units:
        said += f", as few as {fewest} in a row"
    if 2 <= fewest < FEW_UNITS:
        said += f"; intervals from fewer than {FEW_UNITS} are too narrow: the doubt is larger"
    return said


def sharing_rows(found: Observed) -> list[dict[str, Any]]:
    """Share of prompt tokens found in the cache, by its capacity; None stands for one that never evicts."""
    sharing, log = found.sharing, found.log
    assert sharing is not None
    own = found.wanted.cache_blocks
    capacities: list[int | None] = [*sorted({*sharing.capacities(), *([] if own is None else [own])}), None]
    delays = (False, True) if sharing.delayed is not None else (False,)
    hits = [sharing.hit_tokens(blocks, delayed=late) for late in delays for blocks in capacities]
    names, at = np.unique(found.material.unit, return_inverse=True)
    totals = np.zeros((len(names), 1 + len(hits)))
    np.add.at(totals, at, np.column_stack([log.text_tokens, *hits]).astype(np.float64))

    def shares(sums: Floats) -> Floats:
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(sums[:, 1:] / sums[:, :1])

    values, intervals = shares(totals.sum(axis=0)[None])[0], bootstrap(totals, shares)
    rows = []
    for i, blocks in enumerate(capacities):
        tokens = None if blocks is None else blocks * sharing.block_size
        row: dict[str, Any] = {"capacity_tokens": tokens, "used": blocks == own}
        for name, j in (("prefix_share", i), ("delayed_share", i + len(capacities))):
            there = j < len(values) and bool(np.isfinite(values[j]))
            value = float(values[j]) if there else None
            row |= interval_cells(name, value, around(value, intervals[j], len(names)) if there else None)
        rows.append(row)
    return rows


def sharing_table(found: Observed) -> Table:
    """Show prefix sharing by capacity."""
    rows = sharing_rows(found)
    for row in rows:
        row["shown"] = "never evicts" if row["capacity_tokens"] is None else f"{row['capacity_tokens']:,}"
        row["mark"] = "taken above" if row["used"] else None
    columns = (
        words("capacity,\ntokens", "shown"),
        with_interval("prompt tokens\nfound, %", "prefix_share", ".2f", 100),
        with_interval("there only from the\nfirst token on, %", "delayed_share", ".2f", 100),
        words("", "mark"),
    )
    sharing, settings = found.sharing, found.log.settings
    assert sharing is not None
    notes = [
        f"an LRU cache of blocks of {settings.block_size} tokens, each named with all that stands before it; outputs "
        f"are kept too; {sharing.distinct:,} different blocks; the last token of a prompt is always computed",
        "one cache for the whole log, empty at its begin: with several replicas, log and look at each by itself; "
        "blocks of running requests are not held in place",
        interval_note(found),
    ]
    if sharing.delayed is None:
        notes.append("first_token is not logged in every request: prompts count as there when they arrive")
    return Table("prefix_sharing", "Prefix sharing by capacity of the cache", columns, rows, notes)


def depth_rows(found: Observed) -> list[dict[str, Any]]:
    """Acceptance of the prompt lookup at each depth, in rounds as played."""
    units = found.unit_totals()[:, 2:]
    whole = units.sum(axis=0)
    K = found.log.settings.draft_length

    def rates(totals: Floats) -> Floats:
        return np.concatenate([lookup.conditional(totals), lookup.survival(totals)], axis=1)

    values, intervals = rates(whole[None])[0], bootstrap(units, rates)
    rows = []
    for j in range(K):
        before = whole[2 * K] if j == 0 else whole[K + j - 1]
        row: dict[str, Any] = {"depth": j + 1, "at_risk": int(whole[j]), "accepted": int(whole[K + j])}
        row["not_proposed"] = int(before - whole[j])
        for name, i in (("conditional", j), ("survival", K + j)):
            value = float(values[i]) if np.isfinite(values[i]) else None
            row |= interval_cells(name, value, around(value, intervals[i]))
        rows.append(row)
    return rows


def depth_table(found: Observed) -> Table:
    """Show acceptance by depth."""
    columns = (
        number("depth", "depth"),
        number("proposed", "at_risk"),
        number("accepted", "accepted"),
        number("not proposed", "not_proposed"),
        with_interval("accepted of\nproposed", "conditional", ".3f"),
        with_interval("survival", "survival", ".3f"),
    )
    settings = found.log.settings
    whole = found.unit_totals()[:, 2:].sum(axis=0)
    share = float(lookup.proposed_share(whole))
    said = f"; something is proposed in {100 * share:.1f} % of rounds" if np.isfinite(share) else ""
    notes = (
        f"prompt lookup: the last {settings.longest} down to {settings.shortest} tokens, the earliest place; "
        f"{int(whole[2 * settings.draft_length]):,} rounds of up to {settings.draft_length} tokens{said}",
        "survival: of all rounds, those without a proposal being rejected at depth 1; deeper down, what is not "
        "proposed or lies beyond the end of the text is not counted as rejected",
        "outputs are taken as what the target would emit: matches with logged tokens, not probabilities",
        interval_note(found),
    )
    return Table("acceptance", "Acceptance of a prompt lookup by depth", columns, depth_rows(found), notes)


def readings_table(found: Observed) -> Table:
    """Show repetitiveness and autocorrelation in every reading, and the tokens a round that each predicts."""
    units = found.unit_totals()[:, 2:]
    whole = units.sum(axis=0)
    expected = lookup.predicted(whole)

    def all_of(totals: Floats) -> Floats:
        each = [
            f(totals, reading)
            for reading in READINGS
            for f in (lookup.acceptance, lookup.after_a_match, lookup.autocorrelation, lookup.tokens_a_round)
        ]
        return np.column_stack(each)

    values, intervals = all_of(whole[None])[0], bootstrap(units, all_of)
    rows = []
    for i, reading in enumerate(READINGS):
        row: dict[str, Any] = {"reading": reading, "used": reading == found.wanted.reading}
        row["never_ends"] = reading != "independent" and bool(lookup.never_ends(whole, reading))
        for j, name in enumerate(("repetitiveness", "after_match", "autocorrelation", "observed"), 4 * i):
            value = float(values[j]) if np.isfinite(values[j]) else None
            row |= interval_cells(name, value, around(value, intervals[j]))
        if reading == "independent":  # not found in the log: what the word means
            row |= interval_cells("autocorrelation", None, None)
        predicted = expected[reading]
        row |= {"predicted": predicted if np.isfinite(predicted) else None}
        row["mark"] = "taken above" if row["used"] else None
        rows.append(row)
    columns = (
        words("reading", "reading"),
        with_interval("r", "repetitiveness", ".3f"),
        with_interval("after a\nmatch", "after_match", ".3f"),
        with_interval("autocorrelation x", "autocorrelation", ".3f"),
        number("tokens a round\npredicted", "predicted", ".3f"),
        with_interval("as played", "observed", ".3f"),
        words("", "mark"),
    )
    notes = [
        "r: of independent and stationary the first position of rounds as played, of gated and renewal every token; "
        "a round without a proposal counts as one without a match",
        "predicted: with the row's r and x, K tokens drafted each round; as played: proposals as long as they are, "
        "rounds that the end of a text cannot cut short; gated: rounds after a match only",
        "the series for `levers` holds reading and autocorrelation of the row taken, slot by slot; typed by hand they "
        "are [speculation] reading and autocorrelation of the deployment",
    ]
    if any((row["autocorrelation"] or 0.0) >= ROUNDS_TO_ONE for row in rows):
        notes.append(BELOW_ONE)
    if any(row["never_ends"] for row in rows):
        notes.append("after a match, 1.000: every match was followed by one, so x is at most what the log carries")
    return Table("readings", "Repetitiveness in the readings of the levers", columns, rows, notes)
