"""Which policy to deploy, by held-out expected scores."""

from dataclasses import dataclass

from oracle.policies import static
from oracle.tuning.tuned import FEW_CLUSTERS, Compared, Tuned, Tuning

RULE = (
    "the best static length is deployed if it is significantly faster than k = 0 or k = 0 may not be chosen, else "
    "drafting is off; another policy takes its place if an engine can run it, it is the fastest of those on held-out "
    "generations, and it is significantly faster than what it replaces; significantly: the paired 95 % interval leaves "
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
    against
        What it is compared with: `static`, the best static length, or `static:0`.
    difference
        Its time minus that; None where there is nothing else to compare it with.
    runner_up
        The fastest other policy that an engine can run if it is not deployed; None without one.
    runner_up_difference
        Its time minus that of the setting.
    """

    setting: str
    scores: Tuned | None
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
        best.chosen_on_all == static(0) or not significantly_faster(best.against_off, found.clusters)
    )
    others = [one for one in found.families[1:] if one.online]
    fastest = min(others, key=lambda one: one.ms_per_token, default=None)
    if fastest is not None:
        replaced = fastest.against_off if off else fastest.against_static
        if significantly_faster(replaced, found.clusters):
            against = static(0) if off else best.family
            return Deployment(fastest.chosen_on_all, fastest, against, replaced, None, None)
    else:
        replaced = None
    if off:
        return Deployment(static(0), None, static(0), None, fastest, replaced)
    return Deployment(best.chosen_on_all, best, static(0), best.against_off, fastest, replaced)


def significantly_faster(difference: Compared | None, clusters: int) -> bool:
    """Whether a difference is a gain that the data carry: `FEW_CLUSTERS` or more, and 0 outside the interval."""
    return difference is not None and clusters >= FEW_CLUSTERS and difference.verdict == "faster"
