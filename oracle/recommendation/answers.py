"""What a recommendation is: draft lengths, what each gives, and which one to set."""

from dataclasses import dataclass
from typing import Literal

from oracle.recommendation.break_even import BreakEven
from oracle.resampling import Interval

NOISE = 0.02  # of a measured rate, where nobody says otherwise


Verdict = Literal["best", "tie", "not significant", ""]


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
    """

    share: float
    interval: Interval | None
    noise: float

    @property
    def tie(self) -> bool:
        """Whether the difference lies within the stated noise."""
        return abs(self.share) <= self.noise * (1 + 1e-12)

    @property
    def significant(self) -> bool | None:
        """Whether the interval leaves 0 out; None where there is none."""
        return None if self.interval is None else not self.interval.low <= 0 <= self.interval.high

    @property
    def reversed(self) -> "Against":
        """The other rate over this one, minus 1; exact, since 1 / (1 + x) falls with x."""
        turned = [
            1 / (1 + x) - 1 for x in (self.share, *((self.interval.high, self.interval.low) if self.interval else ()))
        ]
        return Against(turned[0], Interval(*turned[1:]) if self.interval else None, self.noise)

    def verdict(self, more: str, less: str) -> str:
        """`tie`, `not significant`, both, or the word for a difference that is neither."""
        said = ["tie"] if self.tie else []
        if self.significant is False:
            said.append("not significant")
        elif self.significant is None and not said:
            said.append("no interval")
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
        `best`; `tie` (within the noise of the best); `not significant` (the data cannot tell it from the best).
    acceptance
        Accepted over drafted tokens; None for K = 0 or where it is not known.
    length_interval
        95 % interval of the mean acceptance length; None where no errors are known.
    over_off, over_recommended
        Its rate against that of K = 0 and of the recommended length, paired by cluster; from traces only.
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


@dataclass(frozen=True)
class Recommendation:
    """The answer for one setting.

    Attributes
    ----------
    candidates
        By rising draft length.
    recommended
        The shortest of the best and what ties with it; None where no acceptance is known.
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
    """

    candidates: tuple[Candidate, ...]
    recommended: int | None
    break_evens: tuple[BreakEven, ...]
    noise: float
    batch_size: int
    setting: str | None
    notes: tuple[str, ...]
    limits: tuple[str, ...]

    def of(self, k: int) -> Candidate:
        """The candidate with draft length k."""
        return next(candidate for candidate in self.candidates if candidate.draft_length == k)

    @property
    def best(self) -> Candidate | None:
        """The candidate with the highest rate; None where no rate is known."""
        return next((candidate for candidate in self.candidates if candidate.verdict == "best"), None)

    @property
    def tied(self) -> tuple[int, ...]:
        """Draft lengths that cannot be told from the best."""
        return tuple(c.draft_length for c in self.candidates if c.verdict in ("tie", "not significant"))
