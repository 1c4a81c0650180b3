"""Where the model of serving levers reads more experts than a pass goes to, in words."""

from oracle.levers.deployment import Deployment
from oracle.levers.experts import MOST_HIT, batch_hitting, hit_share
from oracle.levers.regime import Numbers
from oracle.summaries.shares import counted, percent

COUNTS_THEM = "[assumptions] reads_grow = true counts them"
_READS = (
    "this model reads all experts in every pass, so that there a step is cheaper and a round of speculation, by "
    f"comparison, dearer than said; {COUNTS_THEM}"
)


def experts_notes(deployment: Deployment, batch: Numbers) -> tuple[str, ...]:
    """Say below which batch a step leaves experts out, and how many it hits here; nothing where that is counted.

    Parameters
    ----------
    batch : (…,) float64
        Batch sizes of one regime, or of the slots of a series.
    """
    least = batch_hitting(deployment)
    if least is None or least <= 1:
        return ()
    below = (
        f"below a batch of {least:,} a step hits less than {percent(MOST_HIT)} of the {deployment.experts:,} experts"
    )
    few = batch < least
    if batch.size == 1:
        here = f", {percent(float(hit_share(deployment, batch)))} here" if few.all() else ", not at the batch here"
    else:
        here = f", which is in {counted(int(few.sum()), few.size)} slots"
    return (f"{below} (routed uniformly){here}: {_READS}",)
