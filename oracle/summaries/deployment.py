"""What is shown of the policy to deploy: the answer first, beside what it was weighed against."""

from typing import Any

from oracle.engines import NAMES, engines_that_take
from oracle.errors import printable
from oracle.intervals import FEW_CLUSTERS, Interval
from oracle.policies import static
from oracle.realised.problem import Realised
from oracle.realised.scores import Difference, differences
from oracle.summaries.realised import by_decoding
from oracle.tables import Column, Row, Table, interval_cells, number, show, with_interval, words
from oracle.tuning import RULE, Compared, Deployment, Tuned, Tuning, deployment

NO_OFF = "k = 0 has no price (not measured, or left out)"
GREEDY = "greedy"  # the decoding under which an engine accepts a token if and only if it equals the text's


def deployment_table(found: Tuning, realised: Realised | None = None, no_off: str = NO_OFF) -> Table:
    """The policy to deploy, and drafting off, the best static length and the fastest other policy beside it.

    Recorded matches of greedy texts, if there are any, change no answer; what they say of it is a note. `no_off` says
    why k = 0 is not among the lengths, where it is not.
    """
    answer = deployment(found)
    columns = (
        Column("", lambda row: "deploy" if row["deploy"] else "–", text=True),
        words("policy", "policy"),
        with_interval("ms/token\nheld out", "ms_per_token"),
        with_interval("minus\nk = 0, ms", "against_off_ms", "+.3f"),
        with_interval("minus the best\nstatic, ms", "against_static_ms", "+.3f"),
        with_interval("% of gain", "gain_captured", ".1f", 100),
        number("tokens/s\na request", "tokens_per_second", ".1f"),
        number("speed-up\nover k = 0", "speedup", ".3f"),
    )
    return Table(
        "deployment",
        "Which policy to deploy, by held-out expected scores",
        columns,
        _rows(found, answer),
        _notes(found, realised, no_off),
    )


def deployment_sentence(found: Tuning, no_off: str = NO_OFF) -> str:
    """Say which policy to deploy, which engines take it, and by how much it gains."""
    answer = deployment(found)
    others = _others(answer, found)
    if answer.off:
        return f"deploy {static(0)}, drafting off: {others}"
    said = f"deploy {printable(answer.setting)}{taken_by(answer)}"
    if answer.difference is None:
        return f"{said}: {no_off}; {others}"
    best, scores = found.families[0], answer.scores
    length = f"the best static length, {best.chosen_on_all}"
    said += f": {_with_interval(answer.difference)} against {'k = 0' if answer.against == static(0) else length}"
    if scores is not None and scores is not best and answer.against == static(0) and best.chosen_on_all != static(0):
        said += f", {_with_interval(scores.against_static)} against {length}"
    if scores is not None and scores.gain_captured is not None:
        said += f"; captures {_share(scores.gain_captured, scores.gain_interval)} of the oracle's gain"
    return f"{said}; {others}" if scores is best else said


def taken_by(answer: Deployment) -> str:
    """Say which engines take a setting that is no static length, and what to set on the others; "" if all take it."""
    takers = engines_that_take(answer.setting)
    others = [name for name in NAMES if name not in takers]
    if not others:
        return ""
    by = f"taken by {' and '.join(takers)}" if takers else "no engine takes it as it stands"
    off = ", off" if answer.static_setting == static(0) else ""
    return f" ({by}; on {', '.join(others)}, which take static lengths: {answer.static_setting}{off})"


def _others(answer: Deployment, found: Tuning) -> str:
    nothing = "nothing else that an engine can run is significantly faster"
    if answer.off:
        nothing = "nothing that an engine can run is significantly faster"
    if answer.runner_up is None or answer.runner_up_difference is None:
        best = found.families[0]
        if answer.off and best.against_off is not None and best.chosen_on_all != static(0):
            return f"{nothing}; {best.chosen_on_all}: {_with_interval(best.against_off)}"
        return nothing
    name = printable(answer.runner_up.family)
    return f"{nothing}; the fastest of the others, {name}: {_with_interval(answer.runner_up_difference)}"


def _with_interval(difference: Compared | Difference) -> str:
    between = difference.interval
    around = "" if between is None else f" [{show(between.low, '+.3f')}; {show(between.high, '+.3f')}]"
    return f"{show(difference.ms_per_token, '+.3f')} ms/token{around}"


def _share(share: float, between: Interval | None) -> str:
    around = "" if between is None else f" [{show(between.low, '.1f', 100)}; {show(between.high, '.1f', 100)}]"
    return f"{show(share, '.1f', 100)} %{around}"


def greedy_difference(realised: Realised, policy: str, reference: str) -> Difference | None:
    """Realised time of one policy minus another's on greedy texts; None where either has no such score."""
    totals = by_decoding(realised).get(GREEDY)
    if totals is None or not {policy, reference} <= set(totals.policies):
        return None
    return next((d for d in differences(totals, reference) if d.policy == policy), None)


def _on_matches(found: Tuning, realised: Realised | None) -> list[str]:
    """Say whether recorded matches bear out what expectation says of a setting that drafts."""
    answer = deployment(found)
    if realised is None or answer.scores is None:
        return []
    apart = greedy_difference(realised, answer.scores.family, answer.against)
    if apart is None:
        return []
    against = "k = 0" if answer.against == static(0) else "the best static length"
    said = f"on recorded matches of greedy texts, held out: {_with_interval(apart)} against {against}"
    if not apart.significant:
        return [f"{said}, {apart.doubt or 'no interval'}"]
    if apart.ms_per_token < 0:
        return [f"{said}, which bears it out"]
    return [f"{said}, which speaks against it: measure before deploying"]


def _notes(found: Tuning, realised: Realised | None, no_off: str) -> list[str]:
    compared = sum(one.online for one in found.families[1:])
    notes = [deployment_sentence(found, no_off), *_on_matches(found, realised), f"the rule: {RULE}"]
    if found.clusters < 2:
        notes.append(
            "no intervals: no difference counts as significant, so the setting is the rule's default, no finding"
        )
    elif found.clusters < FEW_CLUSTERS:
        notes.append(
            f"{found.clusters} clusters with positions: fewer than {FEW_CLUSTERS}, so no difference counts as "
            "significant, and the setting is the rule's default"
        )
    if compared > 1:
        notes.append(
            f"the fastest of {compared} policies was picked by the very scores shown, which flatters it; parameters "
            "were not: they come from the other folds"
        )
    return notes


def _rows(found: Tuning, answer: Deployment) -> list[Row]:
    best = found.families[0]
    other = answer.runner_up
    if other is None and answer.scores is not None and answer.scores is not best:
        other = answer.scores
    rows = [_row(one, found, deploy=one is answer.scores) for one in (best, other) if one is not None]
    if found.without_ms_per_token is not None and best.chosen_on_all != static(0):
        rows.insert(0, _off(found, answer))
    elif answer.off:
        rows[0]["deploy"] = True
    return sorted(rows, key=lambda row: not row["deploy"])


def _off(found: Tuning, answer: Deployment) -> dict[str, Any]:
    return {
        "policy": f"{static(0)} (off)",
        "deploy": answer.off,
        "engines": list(engines_that_take(static(0))),
        **interval_cells("ms_per_token", found.without_ms_per_token, None),
        **_cells("against_off_ms", None),
        **_cells("against_static_ms", None),
        **_cells("gain_captured", None),
        **_pace(found.without_ms_per_token, found),
    }


def _row(one: Tuned, found: Tuning, *, deploy: bool) -> dict[str, Any]:
    is_best = one is found.families[0]
    static_difference = None if is_best else one.against_static
    return {
        "policy": _named(one, found),
        "deploy": deploy,
        "engines": list(engines_that_take(one.chosen_on_all)),
        **interval_cells("ms_per_token", one.ms_per_token, one.ms_per_token_interval),
        **_cells("against_off_ms", None if one.chosen_on_all == static(0) else one.against_off),
        **_cells("against_static_ms", static_difference),
        **interval_cells("gain_captured", one.gain_captured, one.gain_interval),
        **_pace(one.ms_per_token, found),
    }


def _named(one: Tuned, found: Tuning) -> str:
    if one is not found.families[0]:
        return one.chosen_on_all
    off = " (off)" if one.chosen_on_all == static(0) else ""
    return f"{one.chosen_on_all}{off}, the best static length"


def _cells(key: str, difference: Compared | None) -> dict[str, float | None]:
    if difference is None:
        return interval_cells(key, None, None)
    return interval_cells(key, difference.ms_per_token, difference.interval)


def _pace(ms_per_token: float | None, found: Tuning) -> dict[str, float | None]:
    known = ms_per_token is not None and ms_per_token > 0
    without = found.without_ms_per_token
    return {
        "tokens_per_second": 1e3 / ms_per_token if known and ms_per_token else None,
        "speedup": without / ms_per_token if known and ms_per_token and without is not None else None,
    }
