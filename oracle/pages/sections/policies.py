"""Which setting, and what policies give: held out, realised, against the bound."""

from dataclasses import replace
from functools import partial

from oracle.figures import policies as figures
from oracle.figures.pareto import pareto_by
from oracle.figures.tuning import held_out_policies
from oracle.pages.drawn import wasted_drawn
from oracle.pages.headline import setting
from oracle.pages.material import Absent, Material, Policies
from oracle.pages.page import Figure, Section
from oracle.realised.calibration import calibrate
from oracle.realised.problem import Realised
from oracle.realised.scores import realised_scores
from oracle.scores import beside
from oracle.summaries.realised import by_decoding, resampled_by_decoding
from oracle.summaries.recommendation import recommendation_tables
from oracle.summaries.study import study_tables
from oracle.tables import Table, resampled
from oracle.tuning import Tuning, scored

_STATIC = (
    "The table of static draft lengths is in-sample, as draft-oracle recommend gives it: there, lengths within the "
    "stated noise of the best are ties, and the shortest of them is taken."
)
_HOW_TO_READ = (
    "how to read: one row a way to choose the draft length, its parameter tuned on other generations than it is scored "
    "on (held out); ! looks ahead, so no engine can run it; % of gain: how much it saves of what perfect choices would "
    "save over drafting off; not significant: the interval holds 0"
)
_SHOWN = ("deployment", "tuned_policies", "untuned_policies")


def policies(material: Material) -> Section:
    """Recommended setting, tuned policies, realised scores and the condition of a longer draft."""
    recommended = recommendation_tables([material.answer])
    expected = [table for table in study_tables(material.study) if table.name == "scores"]
    found = material.policies
    if isinstance(found, Absent):
        said = f"Policies that adapt the draft length are left out, because {found.why}."
        return Section(
            "Which setting",
            "policies",
            (_STATIC, said),
            tables=(*recommended[:2], *expected),
            folded=tuple(recommended[2:]),
        )
    named = {table.name: table for table in found.tables}
    if "tuned_policies" in named:
        tuned = named["tuned_policies"]
        named["tuned_policies"] = replace(tuned, notes=[_HOW_TO_READ, *tuned.notes])
    shown = tuple(named[name] for name in _SHOWN if name in named)
    return Section(
        "Which setting",
        "policies",
        tuple(_said(material)),
        tuple(_figures(found, named)),
        (*shown, recommended[1]),
        folded=(
            recommended[0],
            *recommended[2:],
            *expected,
            *(table for table in found.tables if table.name not in _SHOWN),
        ),
    )


def _said(material: Material) -> list[str]:
    found = setting(material)
    if found is None:
        return [_STATIC]
    return ["What to set follows the rule below the first table.", _STATIC]


def _figures(found: Policies, named: dict[str, Table]) -> list[Figure]:
    made = []
    if found.held is not None:
        tuning = scored(found.held)
        made += [_tuned(tuning, named["tuned_policies"]), _wasted(found, tuning)]
    if found.realised is not None and by_decoding(found.realised):
        made += _realised(found.realised, named)
    return made


def _tuned(tuning: Tuning, table: Table) -> Figure:
    best = min((one for one in tuning.families if one.online), key=lambda one: one.ms_per_token)
    return Figure(
        "held-out-policies",
        f"Held-out time of each family of policies, tuned on the other folds; expected scores, n = {tuning.tokens:,} "
        f"tokens; bars: {resampled(tuning.clusters)}.",
        f"Held-out milliseconds a token of {len(tuning.families)} families of policies; of those an engine can run "
        f"{best.family} is the fastest, {best.ms_per_token:.3f}; the oracle takes {tuning.oracle_ms_per_token:.3f}.",
        partial(held_out_policies, tuning),
        table,
    )


def _wasted(found: Policies, tuning: Tuning) -> Figure:
    assert found.held is not None
    scores = {"expected, held out": realised_scores(beside(found.held.expected, found.fixed))}
    return Figure(
        "wasted",
        "Time against draft tokens thrown away: tuned policies held out, static lengths and the oracle as they are; "
        f"expected scores, n = {tuning.tokens:,} tokens; bars: {resampled(tuning.clusters)}.",
        "Policies as points: milliseconds a token against wasted draft tokens a token.",
        partial(pareto_by, scores),
        wasted_drawn(scores, "wasted_drawn"),
    )


def _realised(realised: Realised, named: dict[str, Table]) -> list[Figure]:
    split = by_decoding(realised)
    scores = {f"realised, {name}": realised_scores(part) for name, part in split.items()}
    tokens, intervals = f"{realised.totals.tokens.sum():,.0f} tokens", resampled_by_decoding(realised)
    return [
        Figure(
            "wasted-realised",
            "The same on recorded matches, each decoding by itself; valid where the engine accepts a token if and only "
            f"if it equals the text's, as in greedy decoding; n = {tokens}; bars: {intervals}.",
            f"Policies as points, on recorded matches of {', '.join(split)} texts.",
            partial(pareto_by, scores),
            wasted_drawn(scores, "wasted_realised_drawn"),
        ),
        Figure(
            "calibration",
            "Do match probabilities come true: share of first draft tokens that equal the text's, by match probability "
            f"(n = {tokens}). "
            "An engine that accepts sampled tokens by rejection sampling accepts more than equal ones: under the "
            f"diagonal, sampled texts say nothing against the probabilities; bars: {intervals}.",
            "Share of recorded matches against the match probability said beforehand, by decoding, with the diagonal.",
            partial(figures.calibration_curve, calibrate(realised.calibration)),
            named["calibration"],
        ),
    ]
