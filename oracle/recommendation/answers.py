"""What a recommendation is: draft lengths, what each gives, and which one to set.

Two lengths within the noise of one another tie, and the shorter one is set. A length further behind the best may still
be as good, or better, as far as the data tell: where that would change the answer, the answer is `not enough data`,
and the recommended length stands until there is more.
"""

import math
from dataclasses import dataclass
from typing import Literal

from oracle.intervals import FEW, FEW_CLUSTERS, NOT_SIGNIFICANT, Interval, doubt_about
from oracle.recommendation.break_even import BreakEven

NOISE = 0.02  # of a measured rate, where nobody says otherwise
NO_INTERVAL = "no interval"
_ROUNDING = 1e-9

Verdict = Literal["best", "tie", "not significant", "not enough data", ""]


@dataclass(frozen=True)
class Against:
    """A rate (or a length) over another one, minus 1, with the interval of the difference.

    Two questions are kept apart: whether the data tell the two from one another (the interval), and whether the
    difference is worth anything (the noise).

    Attributes
    ----------
    share
        The difference as a share of the other one; positive is more.
    interval
        95 % interval of it, paired where both were found on the same data; None where no errors are known.
    noise
        Differences up to it are called a tie.
    clusters
        How many clusters (or requests) the difference rests on; 0 for averages over requests, whose own errors are not
        known; None where its errors are not those of clusters: rounds counted, or the stated noise.
    """

    share: float
    interval: Interval | None
    noise: float
    clusters: int | None = None

    @property
    def tie(self) -> bool:
        """Whether the difference lies within the stated noise."""
        return abs(self.share) <= self.noise * (1 + 1e-12)

    @property
    def doubt(self) -> str:
        """What speaks against claiming it: `few clusters`, `not significant`, `no interval`; "" if nothing does."""
        if self.clusters:
            return doubt_about(self.interval, self.clusters)
        if self.interval is None:
            return NO_INTERVAL
        return NOT_SIGNIFICANT if self.interval.low <= 0 <= self.interval.high else ""

    @property
    def open(self) -> bool:
        """Whether the data cannot tell the two apart; where only the noise is known, that alone decides."""
        return bool(self.doubt) and not (self.interval is None and self.clusters is None)

    @property
    def reversed(self) -> "Against":
        """The other rate over this one, minus 1; exact, since 1 / (1 + x) falls with x."""
        turned = [
            1 / (1 + x) - 1 for x in (self.share, *((self.interval.high, self.interval.low) if self.interval else ()))
        ]
        return Against(turned[0], Interval(*turned[1:]) if self.interval else None, self.noise, self.clusters)

    def verdict(self, more: str, less: str) -> str:
        """`tie`, what speaks against claiming it, both, or the word for a difference that is neither."""
        said = ["tie"] if self.tie else []
        if self.doubt and not (self.tie and self.doubt == NO_INTERVAL):
            said.append(self.doubt)
        return ", ".join(said) or (more if self.share > 0 else less)


@dataclass(frozen=True)
class Candidate:
    """One draft length and what it gives.

    Attributes
    ----------
    draft_length
        K; 0 is no speculation.
    measured_at
        K at which its acceptance was measured; None where none was needed or known.
    mean_acceptance_length
        Tokens a round of one request, bonus included; None if not known.
    step_ms
        Milliseconds of a round; None if not known.
    tokens_per_second
        Of all requests together; None if not known.
    interval, interval_from
        95 % of the sampled acceptance (`rounds`, `requests`, `traces`), or plus and minus the stated noise (`noise`).
    verdict
        `best`; `tie` (within the noise of the best); `not enough data` (the data cannot tell it from the best, and
        another length would be set if it were as good); `not significant` (they cannot, and none would).
    acceptance
        Accepted over drafted tokens; None for K = 0 or where it is not known.
    length_interval
        95 % interval of the mean acceptance length; None where no errors are known.
    over_off, over_recommended
        Its rate against that of K = 0 and of the recommended length, paired by cluster; from traces only.
    over_best
        Its rate against that of the best.
    """

    draft_length: int
    measured_at: int | None
    mean_acceptance_length: float | None
    step_ms: float | None
    tokens_per_second: float | None
    interval: Interval | None
    interval_from: str
    verdict: Verdict = ""
    acceptance: float | None = None
    length_interval: Interval | None = None
    over_off: Against | None = None
    over_recommended: Against | None = None
    over_best: Against | None = None


@dataclass(frozen=True)
class Sample:
    """What intervals rest on: so many `rounds`, `requests` or `clusters`."""

    count: float
    unit: str

    def units(self, count: float) -> str:
        """The unit as it stands after a count of it."""
        return self.unit.removesuffix("s") if count == 1 else self.unit


@dataclass(frozen=True)
class Recommendation:
    """The answer for one setting.

    Attributes
    ----------
    candidates
        By rising draft length.
    recommended
        The shortest of the best and what ties with it; None where no acceptance is known. See `provisional`.
    break_evens
        Acceptance at which each length pays, where step times are known.
    noise
        Relative.
    batch_size, setting
        Of the step times.
    notes
        How it came about.
    limits
        What such data cannot tell.
    sample
        What the intervals rest on; None where there are none.
    """

    candidates: tuple[Candidate, ...]
    recommended: int | None
    break_evens: tuple[BreakEven, ...]
    noise: float
    batch_size: int
    setting: str | None
    notes: tuple[str, ...]
    limits: tuple[str, ...]
    sample: Sample | None = None

    def of(self, k: int) -> Candidate:
        """The candidate with draft length k."""
        return next(candidate for candidate in self.candidates if candidate.draft_length == k)

    @property
    def best(self) -> Candidate | None:
        """The candidate with the highest rate; None where no rate is known."""
        return next((candidate for candidate in self.candidates if candidate.verdict == "best"), None)

    @property
    def tied(self) -> tuple[int, ...]:
        """Draft lengths within the noise of the best."""
        return tuple(c.draft_length for c in self.candidates if c.verdict == "tie")

    @property
    def undecided(self) -> tuple[int, ...]:
        """Draft lengths that the data cannot tell from the best, where that could change the answer."""
        return tuple(c.draft_length for c in self.candidates if c.verdict == "not enough data")

    @property
    def few(self) -> Sample | None:
        """The fewest clusters (or requests) that a difference rests on, where any claim asks for more; else None."""
        fewest = [
            c.over_best.clusters
            for c in self.candidates
            if c.over_best is not None and c.over_best.clusters and c.over_best.doubt == FEW
        ]
        # one request has errors from its rounds, which are then the sample; claims ask for requests all the same
        unit = "clusters" if self.sample is not None and self.sample.unit == "clusters" else "requests"
        return Sample(min(fewest), unit) if fewest else None

    @property
    def needed(self) -> Sample | None:
        """What there is of that of which more is needed: `few`, else `sample`."""
        return self.few or self.sample

    @property
    def provisional(self) -> bool:
        """Whether more data may change the answer."""
        rests_on = [c.over_best.clusters for c in self.candidates if c.over_best is not None]
        return bool(self.undecided) or any(count is not None and count < FEW_CLUSTERS for count in rests_on)

    @property
    def times_as_much(self) -> float | None:
        """How many times as much data would settle the answer; None if no length is undecided.

        Errors shrink with the square root of what is measured; the differences are taken as they were found. A shorter
        length than the recommended one is settled once its interval leaves out 0, a longer one once it leaves out more
        than the noise; nothing is before there are as many clusters as any claim asks for.
        """
        factors = [FEW_CLUSTERS / self.few.count] if self.few is not None else []
        for c in self.candidates:
            against = c.over_best
            if c.draft_length in self.undecided and against is not None and against.interval is not None:
                longer = c.draft_length > (self.recommended or 0)
                margin = -against.share + (against.noise if longer else 0.0)
                factors.append(((against.interval.high - against.share) / margin) ** 2)
        return max(factors, default=None)

    @property
    def more_needed(self) -> int | None:
        """How much more of `needed` that is, to two digits, upwards; None if none is undecided."""
        if self.times_as_much is None or self.needed is None:
            return None
        more = max(1, math.ceil((self.times_as_much - 1) * self.needed.count - _ROUNDING))
        digits: int = 10 ** max(0, len(str(more)) - 2)
        return -(-more // digits) * digits
