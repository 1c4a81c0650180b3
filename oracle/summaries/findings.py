"""What the source found about language contexts beside what these traces show, one row a reading and expert column."""

from typing import Any

from oracle.contrasts import Contrasts, Difference, Finding
from oracle.contrasts.estimates import DRAWS
from oracle.contrasts.lengths import AT_LEAST_4, AT_MOST_1
from oracle.intervals import FEW_CLUSTERS
from oracle.tables import Column, Row, Table, interval_cells, number, resampled, show, with_interval, words

_MEASURES = {AT_LEAST_4: "share of k* ≥ 4", AT_MOST_1: "share of k* ≤ 1"}
_MISSING = ("mean", "against", "p", "p_holm", "word")


def findings_table(found: Contrasts) -> Table:
    """Hold the source's findings against these traces; none of them hides behind another."""
    rows = [_finding(one) for one in found.findings]
    again = any(row["verdict_from_1"] is not None for row in rows)
    columns = (
        words("finding of the source", "finding"),
        words("verdict,\npooled", "verdict"),
        words("verdict, within\ngenerations", "verdict_within"),
        *((Column("verdicts, k ≥ 1\nas in the source", _from_1, text=True),) if again else ()),
        words("source", "source"),
        number("its effect\nhere", "source_effect", "+.3f"),
        Column("here by", _measured, text=True),
        number("clus-\nters", "clusters"),
        Column("here", _levels),
        with_interval("difference", "pooled", "+.3f"),
        number("clusters\nwith both", "within_clusters"),
        with_interval("within generations", "within", "+.3f"),
    )
    title = "Findings of the source (arXiv 2609.22156) beside these traces"
    return Table("findings", title, columns, rows, _notes(found, again=again))


def _notes(found: Contrasts, *, again: bool) -> list[str]:
    lengths = f"{found.costs.lengths[0]} … {found.costs.lengths[-1]}"
    notes = [
        "shows: the interval leaves 0 out on the source's side; does not show: it leaves 0 out on the other side, or "
        "holds 0 and leaves the source's effect out; not decidable here: all else, and fewer than "
        f"{FEW_CLUSTERS} clusters",
        "no spike shows if the interval does not lie above 0 and leaves out the spike that the source saw at a change "
        "of script",
        "mismatch rows: the numbers are changes of new experts from the step before, where drafts differ against where "
        "they still match; both rows are one finding, since the source does not say which it took",
        "control flow occurs in code only: against all else it is compared with prose, too; against other code the mix "
        "of code and prose is out, and both rows are one finding",
        f"its effect here: its odds ratio on the share here; experts scaled from its top-8 to top-{found.top_k}",
        f"k* depends on the costs, which need not be the source's; draft lengths here: {lengths}, there: 1 … 10",
        f"{resampled(found.clusters, DRAWS)}; findings stated in advance, so p is not corrected for their number",
    ]
    if again:
        notes.insert(
            -1, "k ≥ 1: solved again without k = 0, which the source does not have; pooled / within generations"
        )
    return notes


def difference_cells(key: str, one: Difference) -> dict[str, Any]:
    """Both levels, the difference with its interval, p and the word for it."""
    return {
        f"{key}_mean": one.mean.value,
        f"{key}_against": one.against.value,
        **interval_cells(key, one.difference.value, one.difference.interval),
        f"{key}_p": one.difference.p,
        f"{key}_p_holm": one.p_holm,
        f"{key}_word": one.word,
    }


def _measured(row: Row) -> str:
    """What is compared, in words."""
    if row["measure"] is None:
        return "–"
    if row["about"] == "mismatches":
        return f"change of new experts, {row['measure']}"
    return _MEASURES.get(row["measure"], f"new experts, {row['measure']}")


def _levels(row: Row) -> str:
    if row["pooled_mean"] is None:
        return "–"
    spec = "+.3f" if row["about"] == "mismatches" else ".3f"
    return f"{show(row['pooled_mean'], spec)} against {show(row['pooled_against'], spec)}"


def _from_1(row: Row) -> str:
    if row["verdict_from_1"] is None:
        return "–"
    return f"{row['verdict_from_1']} / {row['verdict_within_from_1']}"


def _finding(one: Finding) -> dict[str, Any]:
    cells: dict[str, Any] = {}
    for key, difference in (("pooled", one.pooled), ("within", one.within)):
        if difference is None:
            cells |= {**{f"{key}_{name}": None for name in _MISSING}, **interval_cells(key, None, None)}
        else:
            cells |= difference_cells(key, difference)
    return {
        "finding": one.claim.name,
        "counted_as": one.claim.finding,
        "about": one.claim.about,
        "source": one.claim.said,
        "source_effect": one.effect,
        "measure": one.measure or None,
        "clusters": None if one.pooled is None else one.pooled.clusters,
        "within_clusters": None if one.within is None else one.within.clusters,
        **cells,
        "verdict": one.verdict,
        "verdict_within": one.verdict_within,
        "verdict_from_1": one.verdict_from_1,
        "verdict_within_from_1": one.verdict_within_from_1,
    }
