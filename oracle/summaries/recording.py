"""What is shown of a recording."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc

from oracle.files import shown
from oracle.rounds import load_rounds
from oracle.tables import Table, number, words
from oracle.traces import TraceFiles

_COLUMNS = (
    number("k", "k", "d"),
    number("U", "unique_experts"),
    number("rounds", "rounds", ",d"),
    number("U", "timed_unique_experts"),
    number("target ms", "target_ms"),
    number("draft ms", "draft_ms"),
)


def recording_tables(folder: Path) -> list[Table]:
    """Tables of a recording: what it holds, and unique experts and times by draft length."""
    traces = TraceFiles(folder / "traces.parquet", match_is="conditional")
    sums: dict[str, Any] = {"match": 0.0, "unique": None, "kinds": set()}
    sums |= dict.fromkeys(("positions", "empty", "proposed", "short"), 0)
    for batch in traces:
        first = batch.match_prob if batch.match_prob is not None else batch.match_probs[:, 0]  # type: ignore[index]
        sums["positions"] += batch.positions
        sums["empty"] += int((np.diff(batch.offsets) == 0).sum())
        sums["match"] += float(first.sum(dtype=np.float64))
        sums["kinds"] |= set(batch.match_kind)
        sums["target"] = None if batch.layers is None else (batch.layers, batch.top_k, batch.num_experts)
        if batch.match_probs is not None:
            lengths = pc.list_value_length(pc.list_flatten(batch.table.column("draft_token_id"))).to_numpy()
            left = np.repeat(batch.offsets[1:], np.diff(batch.offsets)) - np.arange(batch.positions)
            sums["proposed"] += int(lengths.sum())
            sums["short"] += int((lengths < np.minimum(left, batch.match_probs.shape[1])).sum())
        if batch.unique_experts is not None:
            add = batch.unique_experts.sum(axis=0, dtype=np.float64)
            sums["unique"] = add if sums["unique"] is None else sums["unique"] + add
    n = max(sums["positions"], 1)
    facts = {
        "generations": f"{traces.generations:,}",
        "without positions": sums["empty"],
        "positions": f"{sums['positions']:,}",
        "target": "dense" if sums["target"] is None else "{} MoE layers, top-{} of {} experts".format(*sums["target"]),
        f"mean match probability of the first token ({', '.join(sorted(sums['kinds']))})": f"{sums['match'] / n:.3f}",
    }
    notes = []
    if sums["short"]:
        facts["proposed tokens a position"] = f"{sums['proposed'] / n:.2f}"
        notes = [
            f"the lookup proposes fewer than K tokens at {100 * sums['short'] / n:.0f} % of positions: there tokens "
            "match with probability 0, but costs charge every round its full draft length: longer drafts come out dear"
        ]
    rows = [{"fact": key, "value": value} for key, value in facts.items()]
    columns = words("", "fact", 120), words("", "value")
    tables = [Table("recording", f"Recorded into {shown(folder)}", columns, rows, notes)]
    by_length = _by_length(folder, None if sums["unique"] is None else sums["unique"] / n)
    return tables + by_length


def _by_length(folder: Path, unique: Any) -> list[Table]:
    """Mean unique experts of all positions, and of the timed rounds with their times."""
    timed = load_rounds(folder / "rounds.parquet") if (folder / "rounds.parquet").exists() else None
    if unique is None and timed is None:
        return []
    longest = len(unique) - 1 if unique is not None else int(timed.draft_length.max())  # type: ignore[union-attr]
    rows = []
    for k in range(longest + 1):
        at = np.zeros(0, np.int64) if timed is None else np.flatnonzero(timed.draft_length == k)
        row: dict[str, Any] = {"k": k, "unique_experts": None if unique is None else float(unique[k])}
        row["rounds"] = len(at)
        for key, name, mean in (
            ("timed_unique_experts", "unique_experts", np.mean),
            ("target_ms", "target_ms", np.median),
            ("draft_ms", "draft_ms", np.median),
        ):
            row[key] = float(mean(getattr(timed, name)[at])) if len(at) else None
        rows.append(row)
    columns = _COLUMNS if timed is not None else _COLUMNS[:2]
    notes = ["U: mean unique experts per MoE layer, rejected tokens included"]
    if timed is not None:
        notes.append("first of all positions, then of the timed rounds, whose times are medians over rounds")
    title = "Unique experts" + ("" if timed is None else " and times of timed rounds") + " by draft length"
    return [Table("by_length", title, columns, rows, notes)]
