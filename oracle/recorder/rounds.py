"""The timing sweep of a recording: anchors drawn from its traces, blocks as shards, medians at the end."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from oracle.files import open_parquet
from oracle.outputs import atomic_output
from oracle.recorder.loading import Models
from oracle.recorder.settings import Settings
from oracle.recorder.timing import Anchor, Sweep, medians
from oracle.rounds import Rounds, write_rounds
from oracle.sweep.plan import Request, plan_sweep
from oracle.traces import TraceFiles

_TEXTS = ("generation", "context_token_id", "token_id", "draft_token_id")
_KEPT = ("order", "anchor", "draft_length", "generation", "position", "context_len", "category", "cluster")


@dataclass(frozen=True)
class Size:
    """How many rounds are timed.

    Attributes
    ----------
    anchors
        Places at which a round of every draft length is timed; 0 times nothing.
    repeats
        How often each round is timed.
    """

    anchors: int
    repeats: int


def time_rounds(
    models: Models,
    settings: Settings,
    size: Size,
    traces: Path,
    parts: Path,
    output: Path,
    described: Mapping[str, str],
    watch: Callable[[str, int], Any],
) -> None:
    """Time rounds at anchors drawn from recorded traces and write them.

    Parameters
    ----------
    size
        How many.
    traces
        The recorded traces.
    parts
        Folder of the shards; those that are there are not timed again.
    described
        Provenance for the file.

    Raises
    ------
    InputError
        Too few positions for so many anchors.
    """
    files = TraceFiles(traces, columns=["category", "cluster"], match_is="conditional")
    ks = tuple(range(settings.k_max + 1))
    plan = plan_sweep(Request(ks, size.anchors, size.repeats, seed=settings.seed), traces=files).table
    names = [name for name in _KEPT if name != "category" or "category" in files.column_names]
    blocks = int(plan.column("block").to_numpy().max()) + 1
    found = []
    models.own_attention()
    sweep = Sweep(models, settings)
    with watch("timing", blocks) as advance:
        for block in range(blocks):
            part = parts / f"rounds-{size.anchors}-{size.repeats}-{block:06}.parquet"
            if not part.exists():
                rows = plan.filter(pa.array(plan.column("block").to_numpy() == block)).select(names)
                with atomic_output(part) as partial:
                    pq.write_table(_timed(sweep, rows, traces), partial)
            found.append(part)
            advance(1)
    write_rounds(output, Rounds.from_arrow(_joined(found), str(output)), described)


def _joined(parts: Sequence[Path]) -> pa.Table:
    """Join the blocks: one row a round."""
    rounds = medians(pa.concat_tables([pq.read_table(part) for part in parts]))
    rounds = rounds.append_column("phase", pa.array(["decode"] * len(rounds), pa.string()))
    return rounds.append_column("batch_size", pa.array(np.ones(len(rounds), np.int32)))


def _timed(sweep: Sweep, rows: pa.Table, traces: Path) -> pa.Table:
    """Time the rounds of one block of the plan."""
    numbers = rows.column("anchor").to_numpy()
    at, first = np.unique(numbers, return_index=True)
    texts = _texts(traces, {rows.column("generation")[int(i)].as_py() for i in first})
    anchors = [_anchor(texts, rows.slice(int(i), 1).to_pylist()[0], sweep.k_max) for i in first]
    lengths = rows.column("draft_length").to_pylist()
    order = list(zip(np.searchsorted(at, numbers).tolist(), lengths, strict=True))
    done = list(sweep.block(anchors, order))
    taken = rows
    for name in ("target_ms", "draft_ms", "unique_experts", "max_unique_experts"):
        taken = taken.append_column(name, pa.array([one[name] for one in done], pa.float64()))
    return taken


def _texts(traces: Path, wanted: set[str]) -> dict[str, dict[str, Any]]:
    """Read tokens and chains of some generations."""
    found: dict[str, dict[str, Any]] = {}
    with open_parquet(traces) as file:
        for batch in file.iter_batches(16, columns=list(_TEXTS)):
            there = pa.array([name in wanted for name in batch.column("generation").to_pylist()])
            found |= {row["generation"]: row for row in batch.filter(there).to_pylist()}
    return found


def _anchor(texts: Mapping[str, Mapping[str, Any]], row: Mapping[str, Any], k: int) -> Anchor:
    """Give an anchor with a chain of k tokens.

    Where a lookup proposes fewer, those of the text follow: the time of a pass depends on the experts that it touches,
    which are counted, and not on who proposed its tokens.
    """
    text, position = texts[row["generation"]], row["position"]
    context = [*text["context_token_id"], *text["token_id"][:position]]
    chain = text["draft_token_id"][position]
    chain = [*chain, *text["token_id"][position + len(chain) : position + k]]
    return Anchor(np.array(context, np.int64), np.array(chain, np.int64))
