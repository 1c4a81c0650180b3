"""What a search for regimes reports: plain values."""

from dataclasses import dataclass

from oracle.latency.diagnostics.fold_errors import OverFolds
from oracle.latency.diagnostics.runs import Levels, Partition, Run
from oracle.latency.estimates import Estimate


@dataclass(frozen=True)
class NumberRow:
    """The best partition into one number of regimes.

    Parameters
    ----------
    regimes
        How many; as many as there are places is the categorical form.
    runs
        The best partition on all rounds.
    rmse_ms
        On the rounds it was fitted to.
    held_out_rmse_ms, held_out_mape_percent
        With boundaries and coefficients from the other folds.
    excess_ms, excess_error_ms
        Held-out RMSE minus that of the best number, mean over folds, and its standard error; None without folds.
    by_fold
        Best partition of each training fold; None where it lacks some m.
    share_of_folds, share_of_resamples
        Which of them find the same partition as all rounds do.
    share_chosen
        Resamples in which the whole procedure chooses this number; None where fewer than half of them hold every m in
        every fold.
    """

    regimes: int
    runs: Partition
    rmse_ms: float
    held_out_rmse_ms: OverFolds
    held_out_mape_percent: OverFolds
    excess_ms: float | None
    excess_error_ms: float | None
    by_fold: tuple[Partition | None, ...]
    share_of_folds: float | None
    share_of_resamples: float | None
    share_chosen: float | None


@dataclass(frozen=True)
class Boundary:
    """A place between two neighbouring measured m where a regime may end.

    Parameters
    ----------
    before, after
        The two m.
    chosen
        Whether the chosen partition of all rounds has this boundary.
    share_of_folds, share_of_resamples
        Training folds and bootstrap resamples whose best partition, with as many regimes, has it.
    alpha_change_ms_per_expert
        alpha after minus alpha before; None where not chosen.
    step_ms
        Time of a pass at m = `after` (mean U) by the coefficients after, minus by those before, extended; None where
        not chosen or beta0 is free.
    jump
        Whether alpha jumps: its change has an interval without 0, and the levels differ by a quarter or more.
    settled
        Whether every fold and nine resamples in ten find it.
    """

    before: int
    after: int
    chosen: bool
    share_of_folds: float | None
    share_of_resamples: float | None
    alpha_change_ms_per_expert: Estimate | None
    step_ms: Estimate | None
    jump: bool | None
    settled: bool | None


@dataclass(frozen=True)
class Regime:
    """Coefficients of one regime.

    Parameters
    ----------
    ms
        Its m.
    alpha_ms_per_expert
        With the CR3 interval; the partition is taken as known, so the interval leaves out the search.
    beta0_ms, beta0_slope_ms
        beta0 = `beta0_ms` + `beta0_slope_ms` m; no slope in a regime of one m, neither where beta0 is free.
    """

    ms: Run
    alpha_ms_per_expert: Estimate
    beta0_ms: Estimate | None
    beta0_slope_ms: Estimate | None


@dataclass(frozen=True)
class Regimes:
    """What the search found.

    Parameters
    ----------
    levels
        ``"line"`` or ``"free"``.
    places
        The m that stay together, rising; a boundary lies between two of them.
    found
        Whether regimes predict held-out rounds as well as free coefficients at every m.
    number, number_by_mape
        Chosen by held-out RMSE, and what held-out MAPE would choose; None without folds.
    regimes
        Of the chosen number, on all rounds; empty if none are found.
    context_ms_per_token
        The shared c; None if none are found or context length does not vary.
    by_number, boundaries
        All numbers of regimes, and all places.
    folds, resamples, resamples_with_folds
        Folds whose complement holds every m, resamples that hold every m, and those whose every fold does too; the
        others are left out.
    left_out
        m -> why it takes no part.
    said
        The verdict, in words.
    """

    levels: Levels
    places: tuple[Run, ...]
    found: bool
    number: int | None
    number_by_mape: int | None
    regimes: tuple[Regime, ...]
    context_ms_per_token: Estimate | None
    by_number: tuple[NumberRow, ...]
    boundaries: tuple[Boundary, ...]
    folds: int
    resamples: int
    resamples_with_folds: int
    left_out: dict[int, str]
    said: tuple[str, ...]

    @property
    def partition(self) -> Partition:
        """The m of each regime; empty if none are found."""
        return tuple(regime.ms for regime in self.regimes)
