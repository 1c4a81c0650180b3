"""Unique experts for a plan, measured on batches that are put together from traces of its model.

What `draft-oracle crossover` measures: batches of whoever comes, of every size up to which no batch holds a cluster
twice, for plain steps and for the draft length of every speed-up. Routing at other contexts or of other traffic may
touch more or fewer experts.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from oracle.crossover.formulas import uniform_unique_experts
from oracle.crossover.jackknife import half_widths
from oracle.crossover.sampling import sample_paths
from oracle.crossover.unique_experts import cluster_groups, measure, with_exact_singles
from oracle.crossover.windows import Windows
from oracle.errors import Faults, InputError
from oracle.pool.plan import Plan
from oracle.pool.unique_experts import UniqueExperts

MOST_BATCH = 256
PATHS = 256  # orders of requests drawn


@dataclass(frozen=True)
class MeasuredExperts:
    """What was measured.

    Attributes
    ----------
    rows
        For the plan.
    generations, clusters
        In the traces.
    largest_batch
        Up to which was measured.
    batch, draft_length, mean, half, uniform
        At the tenants asked for, as far as measured, and the longest draft length: unique experts, half the width of
        the 95 % interval that leaving out clusters gives (NaN: one cluster only), and what the uniform formula says.
    """

    rows: tuple[UniqueExperts, ...]
    generations: int
    clusters: int
    largest_batch: int
    batch: int
    draft_length: int
    mean: float
    half: float
    uniform: float


def lengths_of(plan: Plan) -> list[int]:
    """Draft lengths whose passes read experts: none, and those of the speed-ups."""
    return sorted({0, *(speedup.draft_length for speedup in plan.speedups)})


def check_wanted(plan: Plan) -> None:
    """Refuse traces for a plan that has no use for them.

    Raises
    ------
    InputError
        It states no experts, its times do not rest on them, or it states unique experts itself.
    """
    faults = Faults()
    if not plan.reads_experts:
        faults.add(
            "--traces measures unique experts, and nothing in the plan rests on them; give expert_parameters, experts "
            "and experts_per_token of the model, and bandwidth_gb_per_s, or leave the traces out"
        )
    if plan.unique_experts:
        faults.add("the plan states unique_experts, and --traces measures them; leave one of them out")
    faults.raise_if_any()


def measured_experts(plan: Plan, windows: Windows, *, seed: int = 0, threads: int = 1) -> MeasuredExperts:
    """Measure for the draft lengths of a plan.

    Raises
    ------
    InputError
        The traces are of a model with other experts.
    """
    model = plan.model
    assert model is not None
    if (windows.num_experts, windows.top_k) != (model.experts, model.experts_per_token):
        raise InputError(
            f"the traces are of {windows.num_experts} experts of which a token goes to {windows.top_k}, the plan's "
            f"model has {model.experts} and {model.experts_per_token}; take traces of the model that is planned"
        )
    groups, count = cluster_groups(windows, seed)
    most = min(MOST_BATCH, windows.clusters)
    paths = sample_paths(windows, most, groups[windows.pooled], paths=PATHS, seed=seed)
    found = with_exact_singles(measure(windows, paths, most, groups, count, threads=threads), windows, groups)
    lengths, last = lengths_of(plan), max(1, found.distinct_to)
    sizes = sorted({*(1 << i for i in range(last.bit_length()) if 1 << i <= last), last})
    batch, longest = min(max(1, plan.tenants_asked), last), lengths[-1]
    return MeasuredExperts(
        tuple(row for k in lengths for row in _rows(found.mean[:, k], sizes, k, windows)),
        len(windows.cluster),
        windows.clusters,
        last,
        batch,
        longest,
        float(found.mean[batch - 1, longest]),
        float(half_widths(found.left_out)[batch - 1, longest]),
        float(uniform_unique_experts(batch * (longest + 1), windows.num_experts, windows.top_k)),
    )


def with_experts(plan: Plan, found: MeasuredExperts) -> Plan:
    """Give the plan with unique experts as measured."""
    return replace(plan, unique_experts=found.rows)


def _rows(mean: NDArray[np.float64], sizes: list[int], k: int, windows: Windows) -> list[UniqueExperts]:
    """Rows by batch size that never fall; sums of whole numbers divide to a hair outside of what routing can give."""
    rising = np.maximum.accumulate([mean[size - 1] for size in sizes])
    most = [min(windows.num_experts, size * (k + 1) * windows.top_k) for size in sizes]
    fitted = np.clip(rising, windows.top_k, most)
    return [UniqueExperts(size * (k + 1), float(U), k) for size, U in zip(sizes, fitted, strict=True)]
