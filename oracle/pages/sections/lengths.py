"""Draft lengths side by side: the plateau, the cost of a round, the lengths the oracle chooses."""

from collections.abc import Sequence
from functools import partial

from oracle.by_length import ByLength
from oracle.figures import by_length as figures
from oracle.pages.material import Material
from oracle.pages.page import Figure, Section
from oracle.summaries.by_length import PLATEAU, limit_table, plateau, round_table, share_table
from oracle.tables import Row, resampled, show


def maximum(material: Material) -> Section:
    """Speed-up against the maximum draft length."""
    found = material.lengths
    table = limit_table(found)
    rows = table.rows
    best = max(rows, key=lambda row: row["static_speedup"])
    said = [_plateau(found, rows), f"The fastest static length on these traces is K = {best['draft_length']}."]
    return Section(
        "How long a draft may be",
        "maximum",
        (" ".join(said),),
        (
            Figure(
                "maximum-length",
                "Speed-up by maximum draft length: the oracle that may draft no more than k (a bound), and static k; "
                f"expected scores, in-sample, {material.sample}; bars: {resampled(found.clusters)}, paired.",
                f"Speed-up over k = {rows[0]['draft_length']} against k: the oracle rises to "
                f"{show(rows[-1]['capped_speedup'])} at k = {rows[-1]['draft_length']}; static lengths are at best "
                f"{show(best['static_speedup'])}, at k = {best['draft_length']}.",
                partial(figures.speedup_by_limit, found),
                table,
            ),
        ),
        (table,),
    )


def _plateau(found: ByLength, rows: Sequence[Row]) -> str:
    """Say from which maximum on longer drafts gain next to nothing; the longest reaches everything by definition."""
    longest, flat = rows[-1]["draft_length"], plateau(found)
    if rows[-1]["gain_reached"] is None:
        return "The oracle gains nothing over the shortest draft length here, so there is no plateau to find."
    share = f"{show(PLATEAU, '.0f', 100)} %"
    if flat is not None:
        return f"A maximum of {flat} already reaches {share} of what the oracle gains with drafts up to {longest}."
    before = rows[-2]
    return (
        f"No plateau within {longest}: no shorter maximum reaches {share} of what the oracle gains with drafts up to "
        f"{longest} (k = {before['draft_length']}: {show(before['gain_reached'], '.1f', 100)} %), so longer drafts "
        "than were tried may gain more."
    )


def round_cost(material: Material) -> Section:
    """The mean cost of a round by draft length, as stacked terms."""
    found = material.lengths
    table = round_table(found)
    first, last = table.rows[0], table.rows[-1]
    growth = last["round_ms"] - first["round_ms"]
    said: tuple[str, ...] = ()
    if len(table.rows) > 1 and growth > 0:
        experts = (last["expert_ms"] - first["expert_ms"]) / growth
        draft = (last["draft_ms"] - first["draft_ms"]) / growth
        said = (
            f"From k = {first['draft_length']} to k = {last['draft_length']} a round grows by {show(growth)} ms: "
            f"{show(experts, '.0f', 100)} % of that are experts, {show(draft, '.0f', 100)} % the draft itself.",
        )
    return Section(
        "What a round costs",
        "round",
        said,
        (
            Figure(
                "round-terms",
                f"Mean cost of a round by draft length, its terms stacked; {material.sample}, each position once; "
                "intervals of the sums stand in the table.",
                f"Stacked bars by draft length, from {show(first['round_ms'])} ms at k = {first['draft_length']} to "
                f"{show(last['round_ms'])} ms at k = {last['draft_length']}.",
                partial(figures.terms_by_length, found),
                table,
            ),
        ),
        (table,),
    )


def chosen(material: Material) -> Section:
    """The distribution of k*."""
    found = material.lengths
    table = share_table(found)
    most = max(table.rows, key=lambda row: row["share"])
    return Section(
        "Which lengths are cost-optimal",
        "lengths",
        (
            f"The most frequent cost-optimal length is k* = {most['draft_length']}: "
            f"{show(most['share'], '.1f', 100)} % of positions, {show(most['visit_share'], '.1f', 100)} % of the "
            "oracle's rounds.",
        ),
        (
            Figure(
                "chosen-lengths",
                f"Decisions by cost-optimal draft length; {material.sample}; bars: {resampled(found.clusters)}.",
                f"Shares of decisions by k*; the largest is k* = {most['draft_length']}.",
                partial(figures.chosen_lengths, found),
                table,
            ),
        ),
        (table,),
    )
