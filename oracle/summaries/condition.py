"""What is shown of the necessary condition: ratios of extensions made and refused, the best slope, what it costs."""

from typing import Any

from oracle.condition.costs import Condition, SlopeCost, slope_costs
from oracle.condition.extensions import ACCEPTED, POSITIONS, REFUSED, VISITS
from oracle.condition.separation import QUANTILES, Separation, quantiles
from oracle.intervals import Interval
from oracle.tables import Table, interval_cells, number, resampled, show, with_interval, words

_WEIGHTS = ((VISITS, "rounds"), (POSITIONS, "positions"))
_WHAT = ((ACCEPTED, "made (k < k*)"), (REFUSED, "refused (k = k*)"))


def condition_tables(found: Condition) -> list[Table]:
    """Tables of the necessary condition; the last two only where some extensions are made and some refused."""
    tables = [_ratios(found)]
    if found.by_rounds is not None:
        tables.append(_separation(found))
    if found.slopes is not None and (costs := slope_costs(found.slopes)):
        tables.append(_costs(found, costs))
    return tables


def _ratios(found: Condition) -> Table:
    named = [f"q{round(100 * q)}" for q in QUANTILES]
    rows = []
    for weight, counted in _WEIGHTS:
        for what, said in _WHAT:
            for measure, counts in (
                ("dC / dE[A]", found.tally.counts[:, weight, what].sum(axis=0)),
                ("price d", found.tally.prices[weight, what]),
            ):
                values = dict(zip(named, quantiles(counts), strict=True))
                rows.append(
                    {"measure": measure, "extensions": said, "weight": counted, "count": float(counts.sum()), **values}
                )
    rows.sort(key=lambda row: str(row["measure"]))
    columns = (
        words("ms an expected token", "measure"),
        words("extensions", "extensions"),
        words("counted by", "weight"),
        number("n", "count", ",.0f"),
        *(number(f"{round(100 * q)} %", name, ".2f") for q, name in zip(QUANTILES, named, strict=True)),
    )
    notes = [
        "dC: what one more draft token costs; dE[A]: the chance that it is accepted; price d: what having to emit that "
        "token costs otherwise, the exact worth of an expected token (extensions that promise nothing left out)",
        "counted by rounds: weighted by the probability that a round of the oracle starts there; to 0.6 %, the bins' "
        f"width; {show(None)}: next to nothing is promised",
        _on_losing_steps(found),
    ]
    title = "What extensions of the draft by one token cost, made and refused by the oracle: quantiles"
    return Table("extensions", title, columns, rows, [note for note in notes if note])


def _on_losing_steps(found: Condition) -> str:
    """Say how often the oracle goes through a step that does not pay by itself."""
    made = found.tally.counts[:, VISITS, ACCEPTED].sum()
    decisions, behind = found.tally.decisions[VISITS]
    if not made:
        return ""
    return (
        f"{show(found.tally.through[VISITS] / made, '.1f', 100)} % of extensions made do not pay by themselves "
        f"(dC >= S·d): the oracle goes through them to longer drafts, in {show(behind / decisions, '.1f', 100)} % of "
        "its rounds"
    )


def _separation(found: Condition) -> Table:
    rows = [
        _separation_row(counted, each)
        for counted, each in (("rounds", found.by_rounds), ("positions", found.by_positions))
        if each is not None
    ]
    columns = (
        words("counted by", "weight"),
        with_interval("best slope λ,\nms/token", "slope_ms", ".2f"),
        with_interval("on the wrong\nside, %", "error", ".2f", 100),
        number("refused,\nλ makes", "refused_made", ".2f", 100),
        number("made,\nλ refuses", "accepted_left", ".2f", 100),
        number("without\nlooking, %", "error_unseen", ".1f", 100),
        number("AUC", "auc", ".4f"),
    )
    many = resampled(len(found.tally.units))
    notes = [
        f"in-sample; {many if not found.tally.folded else many + ' (groups of clusters)'}; "
        "λ is chosen anew in every resample",
        "without looking: the error of always, or never, drafting one more",
        f"the oracle's mean cost is {show(found.oracle_ms_per_token)} ms/token: λ is the price at the margin, not the "
        "mean",
    ]
    title = "One slope: draft on while dC ≤ λ · dE[A]; extensions of the oracle on the wrong side of the best λ"
    return Table("slope_separation", title, columns, rows, notes)


def _separation_row(counted: str, each: Separation) -> dict[str, Any]:
    return {
        "weight": counted,
        **interval_cells("slope_ms", each.slope_ms, each.slope_interval),
        **interval_cells("error", each.error, each.error_interval),
        "refused_made": each.refused_made,
        "accepted_left": each.accepted_left,
        "error_unseen": each.error_unseen,
        "accepted_share": each.accepted_share,
        "auc": each.auc,
    }


def _costs(found: Condition, costs: list[SlopeCost]) -> Table:
    rows = [
        {
            "policy": "own price d" if c.slope_ms is None else f"λ = {c.slope_ms:.2f}",
            "slope_ms": c.slope_ms,
            "ms_per_token": c.ms_per_token,
            **interval_cells("regret_ms_per_token", c.regret_ms_per_token, c.regret_interval),
            "gain_captured": c.gain_captured,
            "missed": c.missed,
            "longer": c.longer,
            "shorter": c.shorter,
            "missed_positions": c.missed_positions,
        }
        for c in costs
    ]
    columns = (
        words("draft on at", "policy"),
        number("ms/token", "ms_per_token"),
        with_interval("regret, ms/token", "regret_ms_per_token", ".4f"),
        number("% of\ngain", "gain_captured", ".1f", 100),
        number("other k than\noracle, % of rounds", "missed", ".1f", 100),
        number("longer", "longer", ".1f", 100),
        number("shorter", "shorter", ".1f", 100),
        number("% of\npositions", "missed_positions", ".1f", 100),
    )
    sloped = [c for c in costs if c.slope_ms is not None]
    best = min(sloped, key=lambda c: c.regret_ms_per_token)
    own = next((c for c in costs if c.slope_ms is None), None)
    percent = show(best.regret_ms_per_token / found.oracle_ms_per_token, ".2f", 100)
    notes = [
        "informed: true U and match probabilities of rows not yet emitted, which no engine knows; expected, in-sample",
        f"cheapest slope tried: λ = {show(best.slope_ms, '.2f')}, {percent} % above the oracle"
        f"{_between(best.regret_interval)}",
    ]
    if own is not None and own.regret_ms_per_token > best.regret_ms_per_token:
        notes.append(
            "own price: a step is made while it pays by itself at the exact price d of its token; d is low where long "
            "drafts are cheap, so that no single step pays there although all together do: one slope does better"
        )
    title = "What following one slope costs (a bound on the idea)"
    return Table("slope_costs", title, columns, rows, [*notes, resampled(len(set(found.slopes.cluster)))])  # type: ignore[union-attr]


def _between(interval: Interval | None) -> str:
    return "" if interval is None else f" ([{show(interval.low, '.4f')}; {show(interval.high, '.4f')}] ms/token)"
