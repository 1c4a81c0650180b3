"""Where what is taken of matches that follow one another comes from: the traffic, or the deployment."""

from collections.abc import Sequence

from oracle.levers.deployment import Deployment, Speculation
from oracle.levers.matches import below_one
from oracle.levers.traffic_file import Traffic
from oracle.levers.traffic_matches import as_read, chains, has_interval, rows_are_tenants, untold


def matches_notes(stated: Deployment, traffic: Sequence[Traffic]) -> tuple[str, ...]:
    """Say which reading and autocorrelation hold where they are not the deployment's own.

    Parameters
    ----------
    stated
        The deployment as it was stated, not as it stands in the traffic.
    """
    doubt = untold(stated, traffic)
    if doubt is not None:
        return (doubt,)
    how, own = as_read(stated, traffic[0]).speculation, _shown(stated.speculation)
    x = chains(traffic)
    rows, borrowed = sum(len(each.slots) for each in traffic), sum(_borrowed(each) for each in traffic)
    if x is None or borrowed == rows:
        if how.reading == stated.speculation.reading:
            return ()
        return (f"matches are {how.reading}, as the traffic states; the deployment's own ({own}) does not count here",)
    row = "tenant" if rows_are_tenants(traffic) else "slot"
    between = below_one(x.min()) + ("" if x.min() == x.max() else f" – {below_one(x.max())}, each {row} its own")
    low, high = traffic[0].low.autocorrelation, traffic[0].high.autocorrelation
    if len(x) == 1 and has_interval(traffic[0]) and low is not None and high is not None:
        between += " [{}; {}]".format(*map(below_one, sorted((float(low[0]), float(high[0])))))
    said = f"matches follow one another as the traffic states, {how.reading} with x = {between}"
    counts = f"counts in {borrowed:,} of {rows:,} {row}s, where none is stated" if borrowed else "does not count here"
    return (f"{said}; the deployment's own ({own}) {counts}",)


def _borrowed(traffic: Traffic) -> int:
    return sum(slot in traffic.borrowed for slot in traffic.slots)


def _shown(how: Speculation) -> str:
    return how.reading if how.reading == "independent" else f"{how.reading}, x = {below_one(how.autocorrelation)}"
