"""Where what is taken of matches that follow one another comes from: the traffic, or the deployment."""

from collections.abc import Sequence

from oracle.levers.deployment import Deployment, Speculation
from oracle.levers.traffic_file import Traffic
from oracle.levers.traffic_matches import as_read, chains, has_interval, untold

_NEAR, _NEARER = 0.9995, 0.9999995  # from here on, three and six digits would round it to 1


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
    if x is None:
        if how.reading == stated.speculation.reading:
            return ()
        return (f"matches are {how.reading}, as the traffic states; the deployment's own ({own}) does not count here",)
    between = below_one(x.min()) + ("" if x.min() == x.max() else f" – {below_one(x.max())}, each slot its own")
    low, high = traffic[0].low.autocorrelation, traffic[0].high.autocorrelation
    if len(x) == 1 and has_interval(traffic[0]) and low is not None and high is not None:
        between += " [{}; {}]".format(*map(below_one, sorted((float(low[0]), float(high[0])))))
    said = f"matches follow one another as the traffic states, {how.reading} with x = {between}"
    return (f"{said}; the deployment's own ({own}) does not count here",)


def below_one(x: float) -> str:
    """Show an autocorrelation, which is below 1 however close."""
    return f"{x:.3g}" if x < _NEAR else f"{x:.6f}" if x < _NEARER else f"1 - {1 - x:.1g}"


def _shown(how: Speculation) -> str:
    return how.reading if how.reading == "independent" else f"{how.reading}, x = {how.autocorrelation:g}"
