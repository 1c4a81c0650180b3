"""The recommendation from traces: static draft lengths scored on them, differences paired by cluster, and the bound."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from oracle.analysis import BatchResult, Plan, analyse
from oracle.errors import InputError
from oracle.intervals import FEW_CLUSTERS
from oracle.latency.model import LatencyModel
from oracle.mismatch import notes_on
from oracle.pipeline import in_order
from oracle.recommendation.answers import NOISE, Against, Candidate, Recommendation, Sample
from oracle.recommendation.arithmetic import break_evens, check_noise, judged, shortest
from oracle.recommendation.tenants import Tenants, tenant_name
from oracle.resampling import MOST_UNITS, bootstrap, cluster_sums
from oracle.scores import PolicyTotals, ScoreSums
from oracle.study import priced
from oracle.study_sums import StudySums
from oracle.traces import TraceFiles, Traces
from oracle.traces.schema import AVERAGES
from oracle.unit_sums import MOST_CATEGORIES

_STATIC = "static:"
_NAMED = "tenant "  # before a tenant's name where "" is no tenant
_LIMITS = (
    "other traffic: these are expected scores on the traces they were chosen on",
    "served rounds: scheduler and launches cost more than the timed passes, up to 3 times at batch 64",
    "whether the best was only lucky here: intervals take the recommended length as given; `policies` holds traces "
    "out, and drafts only where that is significantly faster than off",
    "policies that follow the draft's confidence: this is the best static length, which every engine takes; llama.cpp "
    "and transformers take a threshold too, and `policies` compares them",
    "mean acceptance length: tokens a round on these texts, clipped at their ends",
)


@dataclass(frozen=True)
class Walked:
    """What one walk over the traces gathered, in memory that does not grow with the generations.

    Attributes
    ----------
    totals
        Of every static draft length and of the oracle, by unit of resampling.
    by_tenant
        The same, tenants apart.
    tenant
        Whose requests each row of `by_tenant` adds up; None where it is not said.
    clusters
        How many there are.
    notes
        What a reader must know.
    no_off
        Why K = 0 is not among the lengths; "" where it is.
    """

    totals: PolicyTotals
    by_tenant: PolicyTotals
    tenant: tuple[str | None, ...]
    clusters: int
    notes: tuple[str, ...]
    no_off: str


def walk_static(
    files: TraceFiles,
    model: LatencyModel,
    *,
    k_min: int | None = None,
    k_max: int | None = None,
    unique_experts: str | None = None,
    threads: int = 1,
    on_batch: Callable[[int], None] | None = None,
) -> Walked:
    """Score every static draft length and the oracle, in one walk.

    Parameters
    ----------
    files, model
        The traces and the latency model.
    k_min, k_max, unique_experts, threads
        As in `Question`.
    on_batch
        Called with the number of generations after each batch.

    Raises
    ------
    InputError
        Faulty traces, or draft lengths that the model or the traces do not cover.
    """
    source = str(files.paths[0])
    lengths, costs = priced(files, model, k_min, k_max)
    plan = Plan(costs, unique_experts=unique_experts, score=True)
    sums, tenants = StudySums(costs.k_max), ScoreSums()
    for result, tenant in in_order(partial(_scored, plan=plan), files, threads):
        sums.add(result)
        assert result.scores is not None
        tenants.add(result.scores, tenant)
        if on_batch is not None:
            on_batch(result.generations)
    experts_from = _one_source(sums, source)
    totals, by_tenant, clusters = sums.scores.totals(), tenants.totals(), len(sums.clusters)
    assert totals is not None
    assert by_tenant is not None
    notes = (
        f"{_count(sums.positions, 'position')} of {_count(sums.generations, 'generation')}, "
        f"{_count(clusters, 'cluster')}",
        *lengths.notes,
        *notes_on(model, costs, [sums], experts_from=experts_from, clusters=clusters),
        *([_few(clusters)] if clusters == 1 and "empirical" not in sums.match_kinds else []),
        *([f"{clusters:,} clusters are resampled in {MOST_UNITS:,} groups"] if clusters > MOST_UNITS else []),
        *([] if tenants.units.apart(0) else [f"more than {MOST_CATEGORIES} tenants: answers by tenant are left out"]),
    )
    whose = tuple(name.removeprefix(_NAMED) if name else None for name in tenants.units.labels(0))
    no_off = "" if 0 in costs.lengths else "left out by --k-min" if model.has(0) else "not measured"
    return Walked(totals, by_tenant, whose, clusters, notes, no_off)


def _one_source(sums: StudySums, source: str) -> str:
    """Say where U comes from; refuse traces without positions, and those where it comes from two columns."""
    if not sums.positions:
        raise InputError(f"{source}: holds no positions, so there is nothing to recommend from")
    if len(sums.experts_from) > 1:
        raise InputError(
            f"{source}: unique experts come from {' and '.join(sums.experts_from)}; solve such files apart"
        )
    return sums.experts_from[0]


def _scored(traces: Traces, plan: Plan) -> tuple[BatchResult, tuple[str, ...]]:
    """Analyse a batch; say whose each generation is, so that no name is taken for none."""
    whose = traces.tenant or (None,) * traces.generations
    return analyse(traces, plan), tuple("" if name is None else f"{_NAMED}{name}" for name in whose)


def recommend_from_walk(walked: Walked, *, noise: float = NOISE, batch_size: int = 1) -> Recommendation:
    """Recommend from what a walk gathered; see `recommend_from_totals`."""
    found = recommend_from_totals(walked.totals, noise=noise, batch_size=batch_size, notes=walked.notes)
    if walked.no_off:
        limit = f"whether off is faster: K = 0 was {walked.no_off}"
        found = replace(found, limits=(limit, *found.limits))
    if found.sample is None or walked.clusters <= MOST_UNITS:
        return found
    return replace(found, sample=replace(found.sample, count=walked.clusters))


def recommend_from_totals(
    totals: PolicyTotals, *, noise: float = NOISE, batch_size: int = 1, notes: Sequence[str] = ()
) -> Recommendation:
    """Recommend the shortest of the best static length and what cannot be told from it.

    Every draft length is compared with the best, the recommended one and K = 0 on the same resamples of clusters.

    Parameters
    ----------
    totals
        Of static policies and, for the bound, the oracle; their rates are those of one request.
    noise
        Relative difference below which two rates are a tie.
    batch_size
        Requests in a round of the latency model; rates are of all of them together.

    Raises
    ------
    InputError
        No token, or no static length but K = 0.
    """
    check_noise(noise)
    at = {int(name.removeprefix(_STATIC)): p for p, name in enumerate(totals.policies) if name.startswith(_STATIC)}
    if not at or totals.tokens.sum() == 0:
        raise InputError("the traces hold no positions, so there is nothing to recommend from")
    lengths, scale = sorted(at), 1e3 * batch_size
    if lengths == [0]:
        raise InputError("only K = 0 may be chosen, so there is nothing to compare; raise --k-max")
    sampled = _Sampled(totals, [at[k] for k in lengths], scale)
    candidates = [sampled.candidate(i, k) for i, k in enumerate(lengths)]
    fastest = max(range(len(lengths)), key=sampled.rate)  # the first of equals: the shorter draft
    over_best = dict(zip(lengths, sampled.over(fastest, noise), strict=True))
    found = judged(candidates, lambda _, k: over_best[k])
    recommended = shortest(found)
    assert recommended is not None
    chosen = lengths.index(recommended)
    over_off = sampled.over(0, noise) if lengths[0] == 0 else [None] * len(lengths)
    found = tuple(
        replace(
            c, over_off=off if c.draft_length else None, over_recommended=None if c.draft_length == recommended else own
        )
        for c, off, own in zip(found, over_off, sampled.over(chosen, noise), strict=True)
    )
    bound = _bound(totals, sampled.rate(chosen), recommended, batch_size) if len(lengths) > 1 else ()
    said = [*notes, *bound]
    sample = None if sampled.averages else Sample(sampled.clusters, "clusters")
    return Recommendation(found, recommended, break_evens(found), noise, batch_size, None, tuple(said), _LIMITS, sample)


class _Sampled:
    """Rates of static lengths, how they compare, and what they accept; every interval rests on the same resamples."""

    def __init__(self, totals: PolicyTotals, at: Sequence[int], scale: float) -> None:
        rounds, drafted, accepted = (totals.of(name)[:, at] for name in ("rounds", "drafted", "accepted"))
        table = np.column_stack([totals.total_ms[:, at], rounds, drafted, accepted, totals.tokens])
        self._per_cluster, names = cluster_sums(table, totals.cluster)
        self.averages = AVERAGES in names
        self._whole = self._per_cluster.sum(axis=0)[None]
        count = self._count = len(at)

        def statistic(sums: NDArray[np.float64]) -> NDArray[np.float64]:
            ms, rounds, drafted, accepted = np.moveaxis(sums[:, :-1].reshape(len(sums), 4, count), 1, 0)
            tokens = sums[:, -1:]
            with np.errstate(divide="ignore", invalid="ignore"):
                return np.concatenate([scale * tokens / ms, tokens / rounds, accepted / drafted, ms / rounds], axis=1)

        self._point = statistic(self._whole)[0]
        self._intervals = bootstrap(self._per_cluster, statistic)

    @property
    def clusters(self) -> int:
        """How many clusters were resampled."""
        return len(self._per_cluster)

    def rate(self, i: int) -> float:
        """Tokens per second of length number i."""
        return float(self._point[i])

    def over(self, j: int, noise: float) -> list[Against]:
        """The rate of every length over that of length number j, paired by cluster."""

        def statistic(sums: NDArray[np.float64]) -> NDArray[np.float64]:
            ms = sums[:, : self._count]
            with np.errstate(divide="ignore", invalid="ignore"):
                return np.asarray(ms[:, [j]] / ms - 1)

        around = bootstrap(self._per_cluster, statistic)
        clusters = 0 if self.averages else self.clusters
        return [Against(float(x), y, noise, clusters) for x, y in zip(statistic(self._whole)[0], around, strict=True)]

    def candidate(self, i: int, k: int) -> Candidate:
        """Length number i, k tokens."""
        rate, length, acceptance, step_ms = (float(self._point[part * self._count + i]) for part in range(4))
        around = self._intervals[i]
        return Candidate(
            draft_length=k,
            measured_at=k or None,
            mean_acceptance_length=length,
            step_ms=step_ms,
            tokens_per_second=rate,
            interval=around,
            interval_from="traces",
            acceptance=acceptance if k else None,
            length_interval=self._intervals[self._count + i] if k else None,
        )


def _bound(totals: PolicyTotals, rate: float, recommended: int, batch_size: int) -> Iterator[str]:
    """Say how fast the oracle would be."""
    if "oracle" in totals.policies:
        of = "" if batch_size == 1 else " of the batch"
        top = 1e3 * batch_size * float(totals.tokens.sum() / totals.total_ms[:, totals.policies.index("oracle")].sum())
        yield (
            f"the bound: a draft length chosen at each position with all knowledge would give {top:,.1f} tokens/s{of}, "
            f"{100 * max(0.0, top / rate - 1):.1f} % more than K = {recommended}"
        )


def by_tenant_of_traces(walked: Walked, *, noise: float = NOISE, batch_size: int = 1) -> Tenants | None:
    """Answer for each tenant from its own generations; None where the traces name fewer than two tenants.

    Acceptance is the one expected under each static length; intervals resample the tenant's own clusters.
    """
    names = sorted({t for t in walked.tenant if t is not None}) + ([None] if None in walked.tenant else [])
    answers: dict[str | None, Recommendation] = {}
    notes = [
        "acceptance is expected under each static length, on each tenant's generations alone, at the step times of the "
        "latency model; the last rows take all generations together, as they were recorded"
    ]
    for tenant in names if len(names) > 1 else ():
        rows = [g for g, t in enumerate(walked.tenant) if t == tenant]
        own = _rows(walked.by_tenant, rows)
        if own.tokens.sum() == 0:
            notes.append(f"{tenant_name(tenant)}: no positions")
            continue
        answers[tenant] = recommend_from_totals(own, noise=noise, batch_size=batch_size)
        clusters = len({own.cluster[g] for g in range(len(rows)) if own.tokens[g]})
        if clusters < FEW_CLUSTERS:
            notes.append(f"{tenant_name(tenant)}: {_few(clusters)}")
    return Tenants(answers, tuple(notes)) if len(answers) > 1 else None


def _few(clusters: int) -> str:
    if clusters == 1:
        return "1 cluster only, so there are no intervals"
    return f"{clusters} clusters only; intervals from so few are too narrow to be trusted"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _rows(totals: PolicyTotals, rows: Sequence[int]) -> PolicyTotals:
    """Totals of some generations."""
    return PolicyTotals(
        totals.policies,
        tuple(totals.generation[g] for g in rows),
        tuple(totals.cluster[g] for g in rows),
        totals.tokens[list(rows)],
        totals.sums[list(rows)],
    )
