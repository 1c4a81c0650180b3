"""Which policy to deploy, by held-out expected scores."""

from dataclasses import dataclass

from oracle.intervals import FEW_CLUSTERS
from oracle.policies import static
from oracle.tuning.tuned import Compared, Tuned, Tuning

RULE = (
    "the best static length is deployed if it is significantly faster than k = 0 or k = 0 has no price, else "
    "drafting is off; another policy takes its place if it looks at nothing that an engine does not know, is the "
    "fastest of those on held-out generations, and is significantly faster than what it replaces; significantly: the "
    "paired 95 % interval leaves "
    f"0 out, with {FEW_CLUSTERS} clusters or more"
)


@dataclass(frozen=True)
class Deployment:
    """What the rule says.

    Attributes
    ----------
    setting
        Text form of the policy to deploy, its parameter chosen on all generations; `static:0` is off.
    scores
        Its held-out scores; None for k = 0.
    static_setting
        The same among static lengths alone: what engines without the policy can set.
    against
        What it is compared with: `static`, the best static length, or `static:0`.
    difference
        Its time minus that; None where there is nothing else to compare it with.
    runner_up
        The fastest other policy that is online, if it is not deployed; None without one.
    runner_up_difference
        Its time minus that of the setting.
    """

    setting: str
    scores: Tuned | None
    static_setting: str
    against: str
    difference: Compared | None
    runner_up: Tuned | None
    runner_up_difference: Compared | None

    @property
    def off(self) -> bool:
        """Whether it is not to draft at all."""
        return self.setting == static(0)


def deployment(found: Tuning) -> Deployment:
    """Follow `RULE`."""
    best = found.families[0]
    off = found.without_ms_per_token is not None and (
        best.chosen_on_all == static(0) or not significantly_faster(best.against_off)
    )
    alone = static(0) if off else best.chosen_on_all
    others = [one for one in found.families[1:] if one.online]
    fastest = min(others, key=lambda one: one.ms_per_token, default=None)
    if fastest is not None:
        replaced = fastest.against_off if off else fastest.against_static
        if significantly_faster(replaced):
            against = static(0) if off else best.family
            return Deployment(fastest.chosen_on_all, fastest, alone, against, replaced, None, None)
    else:
        replaced = None
    if off:
        return Deployment(alone, None, alone, static(0), None, fastest, replaced)
    return Deployment(alone, best, alone, static(0), best.against_off, fastest, replaced)


def significantly_faster(difference: Compared | None) -> bool:
    """Whether a difference is a gain that the data carry."""
    return difference is not None and difference.verdict == "faster"
