"""The twelve rules of the gallery, four in each of three groups; each is a test of every decision, and a ranking."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oracle.illustrations.search import HIGH_MATCH_PROB, LEAST_VISIT_PROB, Decided
from oracle.illustrations.texts import TokenTexts, token_texts
from oracle.realised.problem import matches_of

GROUPS = ("regular continuation", "structural boundary", "counterexample")
LONG, SHORT = 4, 1

Flags = NDArray[np.bool_]
Values = NDArray[np.float64]


@dataclass(frozen=True)
class View:
    """A batch as the rules see it; N positions, K the longest draft length.

    Attributes
    ----------
    decided
        Its decisions.
    texts
        What the texts of its tokens say.
    matches : (N,) int64
        Recorded draft tokens that match before the first that does not, at most K.
    k : (N,) int64
        k*.
    visit_prob : (N,) float64
    """

    decided: Decided
    texts: TokenTexts
    matches: NDArray[np.int64]
    k: NDArray[np.int64]
    visit_prob: Values

    def drafts(self, flags: Flags, least: int = 1) -> Flags:
        """Whether `least` of the k* tokens from the position on have a flag, (N,); right for settled decisions only."""
        before = np.concatenate([[0], np.cumsum(flags)])
        t = np.arange(len(flags))
        return np.asarray(before[np.minimum(t + self.k, len(flags))] - before[t] >= least)

    def after(self, flags: Flags) -> Flags:
        """Whether the first token that is not drafted has a flag, (N,); right for settled decisions only."""
        behind: Flags = flags[np.minimum(np.arange(len(flags)) + self.k, len(flags) - 1)]
        return behind

    def new_experts(self, step: NDArray[np.int64]) -> Values:
        """Experts that the position `step` behind t adds to the pass, mean per layer, (N,); step >= 1."""
        U, t = self.decided.problem.unique_experts, np.arange(len(step))
        return U[t, step] - U[t, step - 1]


def view_of(decided: Decided) -> View:
    """Gather what the rules ask of a batch; it holds `token_text`, `token_id` and `draft_token_id`."""
    matches = matches_of(decided.traces, decided.problem.k_max).sum(axis=1).astype(np.int64)
    k = decided.shifts.draft_length.astype(np.int64)
    return View(decided, token_texts(decided.traces), matches, k, decided.shifts.visit_prob)


@dataclass(frozen=True)
class Rule:
    """A rule of the gallery.

    Attributes
    ----------
    group, name
        What it is called.
    sentence
        What it asks.
    test
        Which decisions of a batch satisfy it, (N,) bool; beyond that they must be `Decided.shown`.
    effect
        What ranks them, (N,) float64; the largest first.
    """

    group: str
    name: str
    sentence: str
    test: Callable[[View], Flags]
    effect: Callable[[View], Values]


def _visited_tokens(view: View) -> Values:
    """Draft tokens times the probability of a visit."""
    return view.k * view.visit_prob


def _visited_step_ms(view: View) -> Values:
    """What one more token would cost times the probability of a visit, milliseconds; 0 where there is none."""
    return np.nan_to_num(view.decided.step_ms) * view.visit_prob


def _regular(drafted: Callable[[View], Flags]) -> Callable[[View], Flags]:
    return lambda view: (view.k >= LONG) & (view.matches >= view.k) & drafted(view)


def _markup(view: View) -> Flags:
    return view.drafts(view.texts.content["markup"])


def _symbols(view: View) -> Flags:
    return view.drafts(view.texts.content["symbol"]) & ~_markup(view)


def _plain(view: View) -> Flags:
    return ~_markup(view) & ~_symbols(view)


def _latin_words(view: View) -> Flags:
    content = view.texts.content
    return _plain(view) & view.drafts(content["latin"], 2) & ~view.drafts(content["other_letter"])


def _other_script(view: View) -> Flags:
    return _plain(view) & view.drafts(view.texts.content["other_letter"])


def _stops_at(boundary: str) -> Callable[[View], Flags]:
    return lambda view: (view.k <= SHORT) & (view.decided.step_ms > 0) & view.after(view.texts.boundary[boundary])


def _drafts_over_a_boundary(view: View) -> Flags:
    boundary = view.texts.boundary
    return (view.k >= LONG) & view.drafts(boundary["dedent"] | boundary["sentence"])


def _goes_on(view: View) -> Flags:
    """The draft holds a mismatch that is neither its last token nor among its first two, with fewer new experts."""
    inside = (view.matches >= 2) & (view.matches + 1 < view.k)
    return inside & (_fall(view) > 0)


def _fall(view: View) -> Values:
    """How many fewer new experts the first mismatch has than the position before it, mean per layer."""
    at = np.clip(view.matches, 2, max(view.decided.problem.k_max, 2))
    if view.decided.problem.k_max < 2:
        return np.zeros(len(at))
    return view.new_experts(at - 1) - view.new_experts(at)


def _stops_before_a_likely_match(view: View) -> Flags:
    likely: Flags = view.decided.shifts.next_match_prob >= HIGH_MATCH_PROB
    return likely & (view.k <= SHORT) & (view.decided.step_ms > 0)


def _drafts_over_a_script_change(view: View) -> Flags:
    longest: Flags = view.k == view.decided.longest
    return longest & view.drafts(view.texts.boundary["script"])


_FULL = f"k* of {LONG} or more, and all k* recorded proposals match; drafted are"
_STOP = f"k* of {SHORT} or less, dearer with one token more, and the first token not drafted"
RULES = (
    Rule(GROUPS[0], "markup", f"{_FULL} tokens of which one holds < or >", _regular(_markup), _visited_tokens),
    Rule(
        GROUPS[0], "code", f"{_FULL} tokens without < and >, of which one holds one of (){{}}[]=;_#\\",
        _regular(_symbols), _visited_tokens,
    ),
    Rule(
        GROUPS[0], "Latin words", f"{_FULL} tokens with Latin letters, two at least, and without any of those signs",
        _regular(_latin_words), _visited_tokens,
    ),
    Rule(
        GROUPS[0], "another script", f"{_FULL} tokens with letters of another script, without any of those signs",
        _regular(_other_script), _visited_tokens,
    ),
    Rule(
        GROUPS[1], "dedent", f"{_STOP} breaks a line before one that is indented less",
        _stops_at("dedent"), _visited_step_ms,
    ),
    Rule(GROUPS[1], "sentence", f"{_STOP} starts a sentence", _stops_at("sentence"), _visited_step_ms),
    Rule(GROUPS[1], "tag", f"{_STOP} starts a tag", _stops_at("tag"), _visited_step_ms),
    Rule(GROUPS[1], "script change", f"{_STOP} changes the script", _stops_at("script"), _visited_step_ms),
    Rule(
        GROUPS[2], "long over a boundary", f"k* of {LONG} or more, with a dedent or the start of a sentence drafted",
        _drafts_over_a_boundary, _visited_tokens,
    ),
    Rule(
        GROUPS[2], "past a mismatch",
        "k* beyond the first recorded mismatch, which is draft token 3 or later and whose position has fewer new "
        "experts than the one before", _goes_on, lambda view: _fall(view) * view.visit_prob,
    ),
    Rule(
        GROUPS[2], "short though likely",
        f"k* of {SHORT} or less, dearer with one token more, which matches with probability {HIGH_MATCH_PROB} or more",
        _stops_before_a_likely_match, _visited_step_ms,
    ),
    Rule(
        GROUPS[2], "longest over a script change", "the longest k* allowed, with a change of script drafted",
        _drafts_over_a_script_change, _visited_tokens,
    ),
)  # fmt: skip
_RANKED: Mapping[Callable[[View], Values], str] = {
    _visited_tokens: "k* times the probability of a visit",
    _visited_step_ms: "the cost of one more token times the probability of a visit",
}


def ranked_by(rule: Rule) -> str:
    """Say what a rule ranks by."""
    return _RANKED.get(rule.effect, "how many fewer new experts, times the probability of a visit")


SHOWN = (
    f"all: the probability of a visit is {LEAST_VISIT_PROB} or more, and rounds of every length end before the text "
    "does; no generation twice, those of the cases included, and a new cluster wherever a rule has one"
)
