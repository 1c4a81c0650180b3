"""The rounds behind a fit, as arrays and as moments: what every diagnostic reads.

The fit itself walks over the rounds in batches and keeps moments only. Diagnostics that need single rounds (bins,
trimming, Huber weights, percentage errors) hold their columns: about 100 bytes a round.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oracle.columns import is_number_type
from oracle.errors import InputError, printable
from oracle.latency.folds import fold_of_cluster
from oracle.latency.forms import RESPONSE
from oracle.latency.moments import Floats, Integers, Moments, moments_of
from oracle.rounds import Rounds

EXPERTS = "unique_experts"  # what the fit takes; columns whose names begin so claim to measure the same
TIMES = (RESPONSE, "draft_ms")  # what is explained, never a factor
POSITIONS = "verified_positions"  # m as a regressor; the budget K differs from it by a constant
STANDARD_FACTORS = (
    "unique_experts",
    POSITIONS,
    "context_len",
    "kv_usage",
    "graph_bucket",
    "max_unique_experts",
)


@dataclass(frozen=True)
class Evidence:
    """Decode rounds with a positive target_ms and finite factors.

    Attributes
    ----------
    factors
        Names of the candidate factors, F: those of `STANDARD_FACTORS` that were recorded and vary, then the user's.
    columns
        Name -> (N,) float64: the factors, `target_ms`, `compared`, and where recorded `position`, `round_index`,
        `draft_ms`. What is infinite in a factor or a compared column is NaN.
    m
        (N,) int64, verified positions.
    cluster, clusters
        (N,) int64 index of each round's cluster, and the G names, sorted.
    fold, folds
        (G,) int64 fold of each cluster, and how many folds there are (0 with one cluster).
    category, categories
        (N,) int64 index into the names; -1 where there is none. No names where the column is missing.
    moments
        Moments of (factors…, target_ms) by (cluster, m).
    left_out
        Name of a factor -> why it is not among `factors`, in words.
    compared
        Other numeric columns whose names begin with ``unique_experts``, for comparison with it; no factors unless
        named.
    notes
        What a reader must know of the rounds, in words.
    """

    factors: tuple[str, ...]
    columns: Mapping[str, Floats]
    m: Integers
    cluster: Integers
    clusters: tuple[str, ...]
    fold: Integers
    folds: int
    category: Integers
    categories: tuple[str, ...]
    moments: Moments
    left_out: Mapping[str, str]
    compared: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def rounds(self) -> int:
        """N."""
        return len(self.m)

    @property
    def fold_of_round(self) -> Integers:
        """(N,) fold of each round."""
        return np.asarray(self.fold[self.cluster])


def gather_evidence(
    rounds: Rounds | Iterable[Rounds],
    *,
    folds: int = 5,
    further: Sequence[str] = (),
    batch_size: int | None = None,
) -> Evidence:
    """Gather the rounds for diagnostics.

    Parameters
    ----------
    rounds
        Batches of rounds, or all in one object. Where the same `round_index` occurs in several files (`Rounds.source`),
        rounds are ordered by file first.
    folds
        Folds of whole clusters; fewer where there are fewer clusters.
    further
        Further numeric columns to treat as candidate factors.
    batch_size
        Which rounds to take where several batch sizes were recorded; None where there is one.

    Raises
    ------
    InputError
        No usable rounds, a further column that is not there or is a time, or several batch sizes and none chosen.
    """
    batches = [rounds] if isinstance(rounds, Rounds) else list(rounds)
    wanted = [name for name in STANDARD_FACTORS if name != POSITIONS]
    wanted += [name for name in further if name not in STANDARD_FACTORS]
    compared = _others_of_experts(batches)
    kept = _names_kept(batches, (*wanted, *compared), further)
    read = _read(batches, kept, batch_size)
    columns = read.columns
    for name in {*wanted, *compared} & set(columns):
        columns[name] = np.where(np.isfinite(columns[name]), columns[name], np.nan)
    factors, left_out = _factors(columns, wanted)
    variables = (*factors, RESPONSE)
    values = [columns[name] for name in variables]
    moments = moments_of(variables, values, m=read.m, cluster=read.cluster, clusters=read.clusters)
    used = min(folds, len(read.clusters)) if len(read.clusters) > 1 else 0
    no_folds = np.zeros(len(read.clusters), dtype=np.int64)
    return Evidence(
        factors=factors,
        columns=columns,
        m=read.m,
        cluster=read.cluster,
        clusters=read.clusters,
        fold=fold_of_cluster(moments.cluster_sizes(), used) if used else no_folds,
        folds=used,
        category=read.category,
        categories=read.categories,
        moments=moments,
        left_out=left_out,
        compared=compared,
        notes=read.notes,
    )


def _names_kept(batches: Sequence[Rounds], wanted: Sequence[str], further: Sequence[str]) -> list[str]:
    """Name the columns to keep, once each; refuse factors that are not there or are what factors explain."""
    there = set.intersection(*(set(batch.table.column_names) for batch in batches)) if batches else set()
    faults = [f"rounds: no column {printable(n)} to use as a factor; check its name" for n in further if n not in there]
    faults += [f"rounds: {name} is what the factors explain and none itself" for name in TIMES if name in further]
    if faults:
        raise InputError(faults)
    return [name for name in dict.fromkeys((*wanted, "position", "round_index", *TIMES)) if name in there]


@dataclass(frozen=True)
class _Read:
    """The usable rounds of all batches, joined; fields as in `Evidence`."""

    columns: dict[str, Floats]
    m: Integers
    cluster: Integers
    clusters: tuple[str, ...]
    category: Integers
    categories: tuple[str, ...]
    notes: tuple[str, ...]


def _read(batches: Sequence[Rounds], kept: Sequence[str], batch_size: int | None) -> _Read:
    """Join the decode rounds with a positive target_ms, of one batch size."""
    parts: dict[str, list[Floats]] = {name: [] for name in kept}
    m, cluster, category, source = [], [], [], []
    clusters, categories = _Names(), _Names()
    sizes: set[int] = set()
    sized = bool(batches) and all("batch_size" in batch.table.column_names for batch in batches)
    for batch in batches:
        use = ~batch.is_prefill & (batch.target_ms > 0)
        if sized:
            size = batch.numeric("batch_size")
            sizes.update(np.unique(size[use]).astype(int).tolist())
            use &= True if batch_size is None else size == batch_size
        for name in kept:
            parts[name].append(batch.numeric(name)[use])
        m.append(batch.draft_length[use] + 1)
        source.append(batch.source)
        cluster.append(clusters.codes(batch.cluster_names, batch.cluster_codes[use]))
        codes = np.full(len(batch), -1) if batch.category_codes is None else batch.category_codes
        category.append(categories.codes(batch.category_names or (), codes[use]))
    if (batch_size is None and len(sizes) > 1) or (batch_size is not None and sizes and batch_size not in sizes):
        asked = "several batch sizes" if batch_size is None else f"no rounds of batch size {batch_size}"
        raise InputError(f"rounds: {asked} (recorded: {', '.join(map(str, sorted(sizes)))}); choose one of them")
    if not sum(map(len, m)):
        raise InputError("rounds: no verification round with a positive target_ms; check how it was timed")
    columns = {name: np.concatenate(values) for name, values in parts.items()}
    positions = np.concatenate(m)
    columns[POSITIONS] = positions.astype(np.float64)
    notes: tuple[str, ...] = ()
    if "round_index" in columns:
        columns["round_index"], notes = _in_one_order(parts["round_index"], source)
    cluster_names, cluster_codes = clusters.ordered(np.concatenate(cluster))
    category_names, category_codes = categories.ordered(np.concatenate(category))
    return _Read(columns, positions, cluster_codes, cluster_names, category_codes, category_names, notes)


def _others_of_experts(batches: Sequence[Rounds]) -> tuple[str, ...]:
    """Numeric columns of all batches that claim to be unique experts too, in the order of the file."""
    numeric = [{f.name for f in batch.table.schema if is_number_type(f.type)} for batch in batches]
    names = batches[0].table.column_names if batches else []
    return tuple(n for n in names if n.startswith(EXPERTS) and n != EXPERTS and all(n in each for each in numeric))


def _in_one_order(index: Sequence[Floats], source: Sequence[str]) -> tuple[Floats, tuple[str, ...]]:
    """Recording order over all files, and what was done for it.

    Files that share an index are recordings of their own: each goes behind the one read before it.
    """
    by_file: dict[str, list[Floats]] = {}
    for part, name in zip(index, source, strict=True):
        by_file.setdefault(name, []).append(part)
    values = {name: np.unique(np.concatenate(parts)) for name, parts in by_file.items()}
    values = {name: each[~np.isnan(each)] for name, each in values.items()}
    apart = len(np.unique(np.concatenate(list(values.values())))) == sum(map(len, values.values()))
    if apart:
        return np.concatenate(index), ()
    offset, end = {}, None
    for name, each in values.items():
        offset[name] = 0.0 if end is None or not len(each) else end + 1 - each[0]
        end = end if not len(each) else each[-1] + offset[name]
    said = (
        f"round_index begins anew in some of {len(by_file)} files: rounds are put in order by file, then by "
        f"round_index; the files in the order taken: {', '.join(printable(name, most=40) for name in by_file)}"
    )
    return np.concatenate([part + offset[name] for part, name in zip(index, source, strict=True)]), (said,)


class _Names:
    """Names numbered as they come, over batches that number them differently."""

    def __init__(self) -> None:
        self._place: dict[str, int] = {}

    def codes(self, names: Sequence[str], local: NDArray[np.integer]) -> Integers:
        """Translate a batch's codes; -1 stays."""
        place = [self._place.setdefault(name, len(self._place)) for name in names]
        return np.asarray(np.array([*place, -1], dtype=np.int64)[local])

    def ordered(self, codes: Integers) -> tuple[tuple[str, ...], Integers]:
        """Number the names that occur in alphabetical order; give them and the codes."""
        occur = set(np.unique(codes).tolist())
        names = tuple(sorted(name for name, place in self._place.items() if place in occur))
        to = np.full(len(self._place) + 1, -1, dtype=np.int64)
        for i, name in enumerate(names):
            to[self._place[name]] = i
        return names, np.asarray(to[codes])


def _factors(columns: Mapping[str, Floats], wanted: Sequence[str]) -> tuple[tuple[str, ...], dict[str, str]]:
    """Which candidate factors were recorded and vary, and why the others are left out."""
    factors, left_out = [], {}
    for name in dict.fromkeys([EXPERTS, POSITIONS, *wanted]):
        if name not in columns:
            left_out[name] = "not recorded"
        elif np.isnan(columns[name]).any():
            left_out[name] = f"{int(np.isnan(columns[name]).sum()):,} rounds have no finite value"
        elif columns[name].min() == columns[name].max():
            left_out[name] = "does not vary"
        else:
            factors.append(name)
    return tuple(factors), left_out
