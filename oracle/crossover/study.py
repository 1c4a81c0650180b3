"""The crossover of recorded traffic: windows read, batches drawn, unique experts measured, everything priced."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from oracle.crossover.answer import Crossover, crossover
from oracle.crossover.costs import Scaling
from oracle.crossover.mixing import MixingCost, mixing_costs, tenant_counts
from oracle.crossover.pays import ON
from oracle.crossover.sampling import comparable_tenants, sample_paths
from oracle.crossover.traffic import Traffic, from_windows
from oracle.crossover.unique_experts import BatchExperts, cluster_groups, measure, with_exact_singles
from oracle.crossover.windows import MOST_GENERATIONS, Windows
from oracle.errors import InputError
from oracle.latency.model import LatencyModel
from oracle.resampling import NO_INTERVALS

PATHS = 256


@dataclass(frozen=True)
class Question:
    """What is asked of recorded traffic.

    Attributes
    ----------
    most
        The largest batch size.
    tenants
        How many tenants share a batch in equal parts; None: whoever comes.
    paths, seed
        Orders of windows drawn for each make of batch, and the seed of all of them.
    mean_length : (K + 1,), context_len
        Take these in place of the traces'.
    scaling, kv_tokens, noise
        As in `crossover`.
    """

    most: int = 256
    tenants: int | None = None
    paths: int = PATHS
    seed: int = 0
    mean_length: NDArray[np.float64] | None = None
    context_len: float | None = None
    scaling: Scaling = field(default_factory=Scaling)
    kv_tokens: int | None = None
    noise: float = 0.0


@dataclass(frozen=True)
class Studied:
    """The answer and what was measured for it.

    Attributes
    ----------
    answer
        The crossover.
    experts
        Unique experts by make of batch: the number of tenants, or 0 for whoever comes.
    shown
        Batch sizes for which formulas are there.
    mixing
        What mixing tenants costs; empty where there are fewer than two to compare.
    num_experts, top_k
        Of the target.
    notes
        What a reader must know.
    """

    answer: Crossover
    experts: dict[int, BatchExperts]
    shown: tuple[int, ...]
    mixing: tuple[MixingCost, ...]
    num_experts: int
    top_k: int
    notes: tuple[str, ...]

    @property
    def shown_lengths(self) -> list[int]:
        """Draft lengths of which experts are shown: none, the one that is best at most batch sizes, the longest."""
        answer = self.answer
        on = answer.best[answer.states == ON]
        middle = int(np.bincount(on).argmax()) if len(on) else answer.lengths[1]
        return sorted({0, middle, answer.lengths[-1]})


def shown_sizes(most: int, measured: Sequence[int] = ()) -> tuple[int, ...]:
    """Batch sizes that tables show: powers of two, those that were measured, and the largest."""
    powers = [2**i for i in range(most.bit_length()) if 2**i <= most]
    return tuple(sorted({*powers, *(size for size in measured if size <= most), most}))


def study_windows(
    windows: Windows, model: LatencyModel, lengths: Sequence[int], question: Question, *, threads: int = 1
) -> Studied:
    """Answer from recorded traffic.

    Raises
    ------
    InputError
        More tenants asked for than can be compared.
    """
    groups, count = cluster_groups(windows, question.seed)
    known = comparable_tenants(windows)
    if question.tenants is not None and question.tenants > len(known):
        raise InputError(
            f"--tenants is {question.tenants}, and the traces hold {len(known)} tenants with two clusters or more; "
            "lower it, or record more"
        )
    makes: dict[int, int | None] = {0: None, **({n: n for n in tenant_counts(len(known))} if len(known) > 1 else {})}
    makes |= {question.tenants: question.tenants} if question.tenants else {}
    pooled = groups[windows.pooled]
    drawn = {
        make: sample_paths(windows, question.most, pooled, tenants=n, paths=question.paths, seed=question.seed)
        for make, n in makes.items()
    }
    shown = shown_sizes(question.most, [*model.batch_sizes, drawn[max(n for n in drawn if n < 2)].distinct_to])
    experts = {
        make: measure(windows, paths, question.most, groups, count, shown=shown, threads=threads)
        for make, paths in drawn.items()
    }
    experts[0] = with_exact_singles(experts[0], windows, groups)
    traffic = _with(from_windows(windows, experts[question.tenants or 0], groups), question)
    answer = crossover(
        traffic, model, lengths, scaling=question.scaling, kv_tokens=question.kv_tokens, noise=question.noise
    )
    several = {n: each for n, each in experts.items() if n}
    mixing = mixing_costs(several, shown, traffic, answer.costs) if 1 in several and len(several) > 1 else []
    notes = _notes(windows, experts, len(known), count)
    if question.tenants:
        notes.append(
            f"batches hold {question.tenants} tenants in equal parts; acceptance and context are those of all traffic"
        )
    return Studied(answer, experts, shown, tuple(mixing), windows.num_experts, windows.top_k, tuple(notes))


def _with(traffic: Traffic, question: Question) -> Traffic:
    """Put what the question gives in the place of what the traces say."""
    if question.mean_length is not None:
        left = np.broadcast_to(question.mean_length, traffic.left_out_length.shape)
        traffic = replace(traffic, mean_length=question.mean_length, left_out_length=left)
    if question.context_len is not None:
        L = np.full(len(traffic.context_len), question.context_len)
        left = np.broadcast_to(L, traffic.left_out_context.shape)
        traffic = replace(traffic, context_len=L, left_out_context=left)
    return traffic


def _notes(windows: Windows, experts: dict[int, BatchExperts], known: int, groups: int) -> list[str]:
    """Say what was drawn from what, and where it is not what a server would see."""
    whole = len(windows.cluster)
    counts = ((len(windows.visit), "window"), (len(windows.pooled), "generation"), (windows.clusters, "cluster"))
    drawn, generations, clusters = (f"{n:,} {noun}{'s' * (n != 1)}" for n, noun in counts)
    notes = [
        f"{drawn} of {generations}, {clusters}; starts are weighted by how often a round of each static K starts there"
    ]
    if windows.skipped:
        notes.append(
            f"{windows.skipped:,} generations of {whole + windows.skipped:,} are shorter than {windows.k_max + 1} "
            "positions and hold no window"
        )
    if whole > MOST_GENERATIONS:
        notes.append(
            f"batches draw from {len(windows.pooled):,} generations at random; acceptance and context rest on all "
            f"{whole:,}"
        )
    if windows.tenant_is == "category":
        notes.append("the traces name no tenants; each category stands for one")
    named = sum(bool(name) for name in windows.tenants)
    if windows.tenant_is and named > known:
        notes.append(
            f"{named - known} of {named} tenants {'are' if named > 1 else 'is'} not compared: one cluster only, or "
            "there are too many"
        )
    if groups < 2:
        notes.append(NO_INTERVALS if windows.averages else "no intervals: there is one cluster only")
    again = experts[0].distinct_to
    if again < len(experts[0].mean):
        notes.append(
            f"from batch size {again + 1} on a batch holds a cluster twice ({clusters}): what it "
            "touches is then a lower bound"
        )
    if windows.recorded is not None:
        rounds = windows.rounds.sum(axis=0)
        path, real = windows.unique.sum(axis=0) / rounds, windows.recorded.sum(axis=0) / rounds
        notes.append(
            "unions are of the reference path; rejected continuations touch others: at batch size 1 and "
            f"K = {windows.k_max}, U is {path[-1]:.2f} along the path and {real[-1]:.2f} as recorded"
        )
    return notes
