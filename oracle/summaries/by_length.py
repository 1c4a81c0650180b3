"""What is shown of draft lengths side by side: the plateau, the terms of a round, how often each is chosen."""

from oracle.by_length import TERMS, ByLength, limits, round_terms, shares
from oracle.tables import Column, Table, interval_cells, number, resampled, show, with_interval

PLATEAU = 0.99  # share of the oracle's gain from which a longer maximum is not worth serving


def limit_table(found: ByLength) -> Table:
    """Speed-up by maximum and by static draft length."""
    shortest = found.costs.lengths[0]
    rows = [
        {
            "draft_length": one.draft_length,
            **interval_cells("capped_speedup", one.capped_speedup.value, one.capped_speedup.interval),
            "capped_ms_per_token": one.capped_ms_per_token,
            **interval_cells(
                "gain_reached",
                None if one.gain_reached is None else one.gain_reached.value,
                None if one.gain_reached is None else one.gain_reached.interval,
            ),
            **interval_cells("static_speedup", one.static_speedup.value, one.static_speedup.interval),
            "static_ms_per_token": one.static_ms_per_token,
        }
        for one in limits(found)
    ]
    columns = (
        number("k", "draft_length"),
        with_interval("oracle up to k,\nspeed-up", "capped_speedup"),
        number("ms/token", "capped_ms_per_token"),
        with_interval("% of its gain\nreached", "gain_reached", ".1f", 100),
        with_interval("static K = k,\nspeed-up", "static_speedup"),
        number("static\nms/token", "static_ms_per_token"),
    )
    notes = [
        f"speed-up over k = {shortest}"
        + ("" if shortest == 0 else ": the model has no m = 1, so speed-ups over k = 0 are not available"),
        "oracle up to k: the problem solved again with no longer draft; it looks ahead, a bound",
        f"expected scores, in-sample, {found.tokens.sum():,.0f} tokens; {resampled(found.clusters)}, paired",
    ]
    return Table("maximum_lengths", "Speed-up against the maximum draft length", columns, rows, notes)


def plateau(found: ByLength) -> int | None:
    """The shortest maximum that reaches `PLATEAU` of the oracle's gain; None where only the longest does, or no gain.

    The longest reaches all of it by definition, so that it is no plateau.
    """
    shorter = limits(found)[:-1]
    reached = (one.draft_length for one in shorter if one.gain_reached and one.gain_reached.value >= PLATEAU)
    return next(reached, None)


def round_table(found: ByLength) -> Table:
    """The mean cost of a round by draft length, term by term."""
    terms = round_terms(found)
    rows = [
        {
            "draft_length": one.draft_length,
            "mean_unique_experts": one.mean_unique,
            **dict(zip(TERMS, one.terms_ms, strict=True)),
            **interval_cells("round_ms", one.total.value, one.total.interval),
        }
        for one in terms
    ]
    heads = ("beta0", "experts", "context", "draft", "rejection")
    columns: tuple[Column, ...] = (
        number("k", "draft_length"),
        number("mean U", "mean_unique_experts", ".2f"),
        *(number(head, term) for head, term in zip(heads, TERMS, strict=True)),
        with_interval("= round", "round_ms"),
    )
    notes = [
        f"means over {found.tokens.sum():,.0f} decisions, each position once, as if a round of k started there",
        f"{resampled(found.clusters)}; coefficients taken as given",
    ]
    return Table("round_terms", "Mean cost of a round by draft length, milliseconds", columns, rows, notes)


def share_table(found: ByLength) -> Table:
    """How often the oracle chooses each length."""
    rows = [
        {
            "draft_length": one.draft_length,
            "decisions": one.decisions,
            **interval_cells("share", one.positions.value, one.positions.interval),
            **interval_cells("visit_share", one.rounds.value, one.rounds.interval),
        }
        for one in shares(found)
    ]
    columns = (
        number("k*", "draft_length"),
        number("decisions", "decisions"),
        with_interval("% of positions", "share", ".1f", 100),
        with_interval("% of rounds", "visit_share", ".1f", 100),
    )
    notes = [
        "% of rounds: weighted by the probability that a round of the oracle starts at the position",
        resampled(found.clusters),
    ]
    title = f"Cost-optimal draft length k*, {show(round(float(found.tokens.sum())))} decisions"
    return Table("chosen_lengths", title, columns, rows, notes)
