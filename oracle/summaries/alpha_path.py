"""What is shown of the path along a scale on all alpha: breakpoints, the price of a wrong alpha, static lengths."""

from oracle.alpha_path.effects import ScaleEffect, Share, effects, moving_and_returning, within_margins
from oracle.alpha_path.scales import MARGINS, ScaleTally
from oracle.alpha_path.static import StaticRange, still_recommended
from oracle.intervals import Interval
from oracle.tables import Row, Table, interval_cells, number, resampled, show, with_interval, words


def alpha_path_tables(found: ScaleTally) -> list[Table]:
    """Breakpoints of all decisions, what other scales on alpha change, and the best static length along the scale."""
    return [_breakpoints(found), _margins(found), _scales(found), _static(found)]


def _breakpoints(found: ScaleTally) -> Table:
    decisions = float(found.weights[:, 0].sum())
    rows = [
        {"breakpoints": count, "decisions": round(float(n)), "share": float(n) / decisions}
        for count, n in enumerate(found.by_breakpoints)
        if decisions
    ]
    columns = (
        number("breakpoints", "breakpoints"),
        number("decisions", "decisions"),
        number("% of positions", "share", ".2f", 100),
    )
    notes = [
        "exact: every scale at which the optimum changes, from solving for all s at once; s = 0: without experts, "
        "s = 1: as fitted",
        resampled(found.clusters),
    ]
    shares = moving_and_returning(found)
    if shares is not None:
        moving, returning = shares
        notes.insert(1, f"{_in_words(moving)} change their draft length somewhere on the path")
        notes.insert(2, f"{_in_words(returning)} come back to a length that they had left: its scales are no interval")
    if decisions and not found.static_ms[:, :, 1].any():
        notes.append("the expert cost is 0 (alpha or U is 0 everywhere): the scale changes nothing")
    title = f"How often a decision changes while a scale s on all alpha goes from 0 to {found.s_max:g}"
    return Table("alpha_path", title, columns, rows, notes)


def _margins(found: ScaleTally) -> Table:
    rows = [
        {
            "margin": margin,
            "said": f"±{100 * margin:.3g} %" + ("" if margin in MARGINS else ": the fit's own"),
            **interval_cells("share", share.share, share.interval),
            **interval_cells("visit_share", share.visit_share, share.visit_interval),
        }
        for margin, share in zip(found.margins, within_margins(found), strict=False)
    ]
    columns = (
        words("alpha", "said"),
        with_interval("% of positions\nthat may change", "share", ".2f", 100),
        with_interval("% of rounds\nthat may change", "visit_share", ".2f", 100),
    )
    notes = ["decisions that some scale within the margin changes, not only its ends: from the exact path"]
    if any(margin not in MARGINS for margin in found.margins):
        notes.append(
            "the fit's own: the widest 95 % interval of an alpha over m, here for all m at once; stability under the "
            "draws lets each coefficient move by itself"
        )
    if found.margins and found.margins[-1] > found.s_max - 1:
        notes.append(f"the path ends at s = {found.s_max:g}: what lies beyond is not counted")
    title = "How far alpha may be off before a decision changes"
    return Table("alpha_margins", title, columns, rows, [*notes, resampled(found.clusters)])


def _in_words(share: Share) -> str:
    def percent(value: float, interval: Interval | None) -> str:
        around = "" if interval is None else f" [{show(interval.low, '.2f', 100)}; {show(interval.high, '.2f', 100)}]"
        return show(value, ".2f", 100) + around

    return (
        f"{percent(share.share, share.interval)} % of positions "
        f"({percent(share.visit_share, share.visit_interval)} % of rounds)"
    )


def _scales(found: ScaleTally) -> Table:
    columns = (
        words("alpha", "change"),
        with_interval("% of positions\nthat change", "share", ".2f", 100),
        with_interval("% of rounds\nthat change", "visit_share", ".2f", 100),
        number("k* of s = 1,\nms/token", "kept_ms_per_token"),
        number("optimum,\nms/token", "oracle_ms_per_token"),
        with_interval("regret\nms/token", "regret_ms_per_token", ".5f"),
    )
    notes = [
        "if the true alpha is so far from the fitted one, and the draft lengths of the fitted one are kept; all "
        "other coefficients as fitted",
        "expected costs, in-sample; rounds: those of the optimum of s = 1; the optimum looks ahead over the whole text",
        resampled(found.clusters) + "; regret is paired",
    ]
    rows: list[Row] = [_effect_row(effect) for effect in effects(found)]
    return Table("alpha_scales", "What changes if all alpha are off by a factor", columns, rows, notes)


def _effect_row(effect: ScaleEffect) -> Row:
    changed = effect.changed
    return {
        "change": f"{100 * (effect.s - 1):+.0f} %",
        "s": effect.s,
        **interval_cells("share", changed.share, changed.interval),
        **interval_cells("visit_share", changed.visit_share, changed.visit_interval),
        "kept_ms_per_token": effect.kept_ms_per_token,
        "oracle_ms_per_token": effect.oracle_ms_per_token,
        **interval_cells("regret_ms_per_token", effect.regret_ms_per_token, effect.regret_interval),
    }


def _static(found: ScaleTally) -> Table:
    columns = (
        words("best static", "policy"),
        with_interval("from s", "s_from"),
        with_interval("to s", "s_to"),
        number("ms/token\nfrom", "ms_per_token_from"),
        number("ms/token\nto", "ms_per_token_to"),
    )
    ranges = still_recommended(found)
    notes = ["exact on these traces: each static length costs a line in s", resampled(found.clusters)]
    notes += [_verdict(r, found.s_max) for r in ranges if r.s_from <= 1.0 < r.s_to or r.s_from < r.s_to == 1.0]
    title = f"Best static draft length by scale on all alpha, 0 to {found.s_max:g}"
    return Table("static_scales", title, columns, [_range_row(r) for r in ranges], notes)


def _range_row(found: StaticRange) -> Row:
    return {
        "policy": f"static:{found.draft_length}",
        **interval_cells("s_from", found.s_from, found.s_from_interval),
        **interval_cells("s_to", found.s_to, found.s_to_interval),
        "ms_per_token_from": found.ms_per_token_from,
        "ms_per_token_to": found.ms_per_token_to,
    }


def _verdict(found: StaticRange, s_max: float) -> str:
    """Say how far alpha may be off before another static length is best, and whether the traces carry it."""
    said = f"static:{found.draft_length} stays the best static length while alpha is {found.s_from:.3g} to "
    said += f"{found.s_to:.3g} times the fitted one"
    if found.s_from == 0 and found.s_to == s_max:
        said += " (the whole path)"
    below, above = found.s_from_interval, found.s_to_interval
    doubtful = (below is not None and below.high >= 1) or (above is not None and above.low <= 1)
    return said + ("; at s = 1 its lead is not significant: an end's interval holds 1" if doubtful else "")
