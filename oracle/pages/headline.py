"""The summary: what to set, what else was compared, where the bound is, and what was stated of a deployment gives.

What to set follows the rule of `tuning.deployment` by held-out expected scores, as `draft-oracle policies` does; what
recorded matches of greedy texts say of it stands beside.
"""

from dataclasses import dataclass

from oracle.errors import printable
from oracle.intervals import FEW_CLUSTERS, Interval
from oracle.pages.material import Absent, Material
from oracle.pages.stated import stated_sentence
from oracle.policies import static
from oracle.realised.scores import Difference, differences
from oracle.summaries.deployment import greedy_difference, taken_by
from oracle.summaries.recommendation import recommendation_tables
from oracle.tables import show
from oracle.tuning import Compared, Deployment, Tuned, Tuning, deployment, scored

_OFF = "off (K = 0)"


@dataclass(frozen=True)
class Setting:
    """What to set.

    Attributes
    ----------
    tuning, expected
        Held-out scores, and what the rule says by expectation.
    policy
        The fastest policy that an engine can run besides static lengths, deployed or not; None without one.
    on_matches
        Its realised time on greedy texts minus that of what it replaces, or would; None where no such drafts were
        recorded.
    """

    tuning: Tuning
    expected: Deployment
    policy: Tuned | None
    on_matches: Difference | None

    @property
    def replaces(self) -> bool:
        """Whether a policy would be deployed by expectation."""
        return self.policy is not None and self.expected.scores is self.policy

    @property
    def chosen(self) -> str:
        """Text form of what to set; `static:0` is off."""
        return self.expected.setting


def setting(material: Material) -> Setting | None:
    """Follow the rule; None where policies could not be compared."""
    found = material.policies
    if isinstance(found, Absent) or found.held is None:
        return None
    tuning = scored(found.held)
    expected = deployment(tuning)
    best = tuning.families[0]
    policy = expected.runner_up
    if expected.scores is not None and expected.scores is not best:
        policy = expected.scores
    replaced = static(0) if static(0) in (expected.setting, expected.against) and expected.scores is not best else None
    matches = None
    if policy is not None and found.realised is not None:
        matches = greedy_difference(found.realised, policy.family, replaced or best.family)
    return Setting(tuning, expected, policy, matches)


def summary(material: Material) -> tuple[str, ...]:
    """The sentences: three from the traces, and one from what was stated of a deployment, where anything was."""
    stated = stated_sentence(material)
    return (*_from_traces(material), *([stated] if stated else []))


def _from_traces(material: Material) -> tuple[str, str, str]:
    found = setting(material)
    basis = _basis(material, "in-sample" if found is None else "held out")
    if found is None:
        verdict, why = (str(row["value"]) for row in recommendation_tables([material.answer])[0].rows[:2])
        because = "there is one cluster with positions only"
        if isinstance(material.policies, Absent):
            because = material.policies.why
        said = f"Recommended setting: {verdict} ({why}); {basis}."
        return said, f"Policies were not compared on held-out generations: {because}.", _bound(material)
    return f"{_what_to_set(found, _against_1(material))}; {basis}.", _what_else(found), _bound(material)


def _basis(material: Material, how: str) -> str:
    """Say what the first sentence rests on, and what makes it rest on little."""
    study = material.study
    said = f"expected, {how}, n = {study.positions:,} tokens, {study.clusters:,} clusters"
    if study.clusters < FEW_CLUSTERS:
        said += f": fewer than {FEW_CLUSTERS}, so no difference can be claimed"
    if _without_experts(material):
        said += "; the traces hold no expert columns but the latency model prices experts: costs are without them"
    return said


def _without_experts(material: Material) -> bool:
    """Whether a model of a Mixture of Experts was applied to traces of a dense target."""
    study = material.study
    return study.experts_from == "none" and any(study.model.alpha_ms_per_expert)


def _against_1(material: Material) -> str:
    """Give what K = 1 takes against off, on all traces; "" where either may not be chosen."""
    found = material.policies
    if isinstance(found, Absent) or not {static(0), static(1)} <= set(found.fixed.policies):
        return ""
    one = next(d for d in differences(found.fixed, static(0)) if d.policy == static(1))
    return f"K = 1 takes {_ms(one.ms_per_token, one.interval, '+.3f')} ms more, in-sample"


def _what_to_set(found: Setting, against_1: str) -> str:
    best, off = found.tuning.families[0], found.tuning.without_ms_per_token
    if found.chosen == static(0):
        if best.chosen_on_all == static(0):
            said = f"Recommended setting: {_OFF}, {show(off)} ms a token: off wins, no static length is faster"
            return f"{said} ({against_1})" if against_1 else said
        why = (
            "" if best.against_off is None else f"; against it K = {_length(best)} takes {_compared(best.against_off)}"
        )
        return f"Recommended setting: {_OFF}, {show(off)} ms a token{why}"
    if found.policy is not None and found.chosen == found.policy.chosen_on_all and found.replaces:
        instead = _OFF if found.expected.against == static(0) else f"K = {_length(best)}"
        difference = (
            "" if found.expected.difference is None else f", against {instead} {_compared(found.expected.difference)}"
        )
        taken = taken_by(found.expected)
        return f"Recommended setting: {printable(found.chosen)}{taken}, {_held(found.policy)}{difference}"
    against = "" if best.against_off is None else f", against {_OFF} {_compared(best.against_off)}"
    return f"Recommended setting: K = {_length(best)}, {_held(best)}{against}"


def _length(best: Tuned) -> str:
    return best.chosen_on_all.removeprefix(static(0)[:-1])


def _held(one: Tuned) -> str:
    return f"{_ms(one.ms_per_token, one.ms_per_token_interval)} ms a token held out"


def _compared(difference: Compared) -> str:
    return f"{_ms(difference.ms_per_token, difference.interval, '+.3f')} ms, {difference.verdict}"


def _what_else(found: Setting) -> str:
    policy = found.policy
    if policy is None:
        return "No policy but static lengths was compared that an engine can run."
    matches = _said_by_matches(found, policy)
    if found.replaces:
        slower = found.on_matches is not None and found.on_matches.ms_per_token > 0
        measure = ": measure it before deploying" if slower else ""
        return f"{matches[:1].upper()}{matches[1:]}{measure}."
    other = found.expected.runner_up_difference
    against = "" if other is None else f", against the setting {_compared(other)}"
    said = f"The fastest policy that an engine can run, {printable(policy.family)}, takes {_held(policy)}{against}"
    return f"{said}; {matches}."


def _said_by_matches(found: Setting, policy: Tuned) -> str:
    """Say what recorded matches of greedy texts tell of the policy."""
    d = found.on_matches
    if d is None:
        return f"no drafts of greedy texts were recorded that could confirm {printable(policy.family)}"
    word = d.doubt or ("slower" if d.ms_per_token > 0 else "faster")
    instead = _OFF if d.reference == static(0) else "the best static length"
    difference = _ms(d.ms_per_token, d.interval, "+.3f")
    said = "on recorded matches of greedy texts, held out too,"
    return f"{said} {printable(policy.family)} takes {difference} ms against {instead}, {word}"


def _bound(material: Material) -> str:
    study = material.study
    oracle = next(score for score in study.scores if score.policy == "oracle")
    said = f"The bound, every draft length chosen with all knowledge, is {show(oracle.ms_per_token)} ms a token"
    if oracle.speedup is not None:
        said += f", {show(oracle.speedup - 1, '.1f', 100)} % faster than {_OFF}"
    if study.experts_from == "none":
        return said + "."
    moved = next((p for p in study.ablations[0].prevalence if p.boundary == "any"), None) if study.ablations else None
    blind = next((score for score in study.scores if score.policy == "blind"), None)
    if moved is None or blind is None:
        return said + "."
    price = blind.regret_ms_per_token / oracle.ms_per_token
    return (
        f"{said}; without the expert cost {_percent(moved.share, moved.interval)} % of its decisions would differ, and "
        f"following those would cost {show(price, '.2f', 100)} % more time."
    )


def _ms(value: float, interval: Interval | None, spec: str = ".3f") -> str:
    around = "" if interval is None else f" [{show(interval.low, spec)}; {show(interval.high, spec)}]"
    return show(value, spec) + around


def _percent(value: float, interval: Interval | None) -> str:
    return _ms(100 * value, None if interval is None else Interval(100 * interval.low, 100 * interval.high), ".1f")
