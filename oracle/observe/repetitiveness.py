"""How repetitive texts are to a prompt lookup: acceptance by depth, how matches follow one another, tokens a round.

Three readings of repetitiveness go with the three of `oracle.levers.matches`:

- `independent`, `stationary`: r is the acceptance of the first position in rounds as played, S_1; with the survival
  S_1 … S_K, p11 = (S_2 + … + S_K) / (S_1 + … + S_(K-1)), as engine counters tell it;
- `gated`, `renewal`: r is the match rate of all tokens; p11 is the match rate after a match.

In all of them x = (p11 - r) / (1 - r), and a round for which nothing is proposed counts as one without a match. Where
all n tokens after a match matched too, a log cannot tell p11 from 1, under which a chain never ends: p11 is then taken
as n / (n + 1), as if the next had failed.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from oracle.errors import InputError
from oracle.levers.matches import READINGS, Reading, mean_length

Floats = NDArray[np.float64]
_FIRST = ("independent", "stationary")  # readings of the first position


def depth_of(totals: Floats) -> int:
    """K, from the number of counts."""
    return (int(totals.shape[-1]) - 12) // 2


def conditional(totals: Floats) -> Floats:
    """Acceptance at each depth of what was proposed there after all before it matched; NaN where nothing was.

    Parameters
    ----------
    totals : (…, 2K + 12)
        Sums of `lookup_counts`.

    Returns
    -------
    (…, K). What is not proposed, or lies beyond the end of a text, is not counted as rejected.
    """
    K = depth_of(totals)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(totals[..., K : 2 * K] / totals[..., :K])


def survival(totals: Floats) -> Floats:
    """Share of all rounds in which at least 1 … K tokens are accepted: (…, K), NaN where not observed."""
    K = depth_of(totals)
    rates = conditional(totals)
    with np.errstate(invalid="ignore", divide="ignore"):
        rates[..., 0] = totals[..., K] / totals[..., 2 * K]
    # after a depth that nobody reached since nobody passed the one before, survival stays 0
    dead = np.cumsum(rates == 0, axis=-1) > 0
    return np.asarray(np.cumprod(np.where(dead, 0.0, rates), axis=-1), dtype=np.float64)


def proposed_share(totals: Floats) -> Floats:
    """Share of rounds in which something is proposed: (…,)."""
    K = depth_of(totals)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(totals[..., 0] / totals[..., 2 * K])


def tokens_a_round(totals: Floats, reading: Reading) -> Floats:
    """Mean acceptance length of whole rounds as played, only after matches where `gated`: (…,)."""
    at = 2 * depth_of(totals) + (3 if reading == "gated" else 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(totals[..., at + 2] / totals[..., at + 1])


def acceptance(totals: Floats, reading: Reading) -> Floats:
    """Repetitiveness r in one reading: (…,), NaN where there is no round."""
    K = depth_of(totals)
    if reading in _FIRST:
        return survival(totals)[..., 0]
    at = 2 * K + 6
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(totals[..., at + 1] / totals[..., at])


def after_a_match(totals: Floats, reading: Reading) -> Floats:
    """Acceptance after a match, p11: (…,), NaN where not observed (K = 1 has no second depth)."""
    K = depth_of(totals)
    with np.errstate(invalid="ignore", divide="ignore"):
        if reading in _FIRST:
            S = survival(totals)
            seen = np.isfinite(S)
            ahead = np.where(seen[..., 1:], S[..., 1:], 0.0).sum(axis=-1)
            before = np.where(seen[..., 1:], S[..., :-1], 0.0).sum(axis=-1)
            return np.asarray(ahead / before)
        at = 2 * K + 8
        return np.asarray(totals[..., at + 1] / totals[..., at])


def tried_after_a_match(totals: Floats, reading: Reading) -> Floats:
    """Count the tokens that were looked at after a match, n of p11: (…,)."""
    K = depth_of(totals)
    return np.asarray(totals[..., 1:K].sum(axis=-1) if reading in _FIRST else totals[..., 2 * K + 8])


def never_ends(totals: Floats, reading: Reading) -> NDArray[np.bool_]:
    """Say whether all tokens after a match matched too, and there were some: (…,)."""
    return np.asarray(after_a_match(totals, reading) == 1)


def autocorrelation(totals: Floats, reading: Reading, p11: Floats | None = None) -> Floats:
    """Autocorrelation x of the chain of matches: (…,); NaN where r is 1 or p11 is not observed, 0 where independent.

    Parameters
    ----------
    p11
        Another acceptance after a match than the log's.
    """
    a = acceptance(totals, reading)
    if reading == "independent":
        return np.where(np.isfinite(a), 0.0, np.nan)
    if p11 is None:
        n = tried_after_a_match(totals, reading)
        p11 = np.where(never_ends(totals, reading), n / (n + 1), after_a_match(totals, reading))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(a < 1, (p11 - a) / (1 - a), np.nan))


def predicted(totals: Floats) -> Mapping[Reading, float]:
    """Tokens a round that each reading predicts from its own r and x, K drafted each time; NaN where it cannot.

    Parameters
    ----------
    totals : (2K + 12,)
    """
    found: dict[Reading, float] = {}
    for reading in READINGS:
        a, x = float(acceptance(totals, reading)), float(autocorrelation(totals, reading))
        try:
            found[reading] = float(mean_length(a, depth_of(totals), reading, x)) if np.isfinite(x) else np.nan
        except InputError:  # a chain that alternates more than its match rate allows
            found[reading] = np.nan
    return found
