"""``draft-oracle validate``."""

from collections import deque
from typing import TYPE_CHECKING, Any

import click

from oracle.cli.options import SHOWING
from oracle.cli.output import emit, progress

if TYPE_CHECKING:
    from oracle.files import File
    from oracle.tables import Table


@click.command()
@click.argument("paths", nargs=-1, required=True)
@click.option("--match-is", type=click.Choice(["conditional", "survival"]), help="What the column match_probs holds.")
@SHOWING
def validate(paths: tuple[str, ...], match_is: str | None, as_json: bool, as_markdown: bool) -> None:
    """Check trace and rounds files and say what they hold.

    PATHS are Parquet files, folders or globs; which kind a file is shows from its columns. All faults of all
    files are listed.
    """
    from oracle.errors import InputError  # noqa: PLC0415
    from oracle.kinds import sorted_by_kind  # noqa: PLC0415

    kinds = sorted_by_kind(list(paths))
    tables: list[Table] = []
    faults: list[str] = []
    for kind, check in (("traces", lambda files: _traces(files, match_is)), ("rounds", _rounds)):
        try:
            if kinds[kind]:
                tables.append(check(kinds[kind]))
        except InputError as error:
            faults.extend(error.faults)
            faults.extend(fault for fault in _alone(kind, kinds[kind], match_is) if fault not in faults)
    if faults:
        raise InputError(faults)
    emit(tables, as_json=as_json, as_markdown=as_markdown)


def _alone(kind: str, files: "list[File]", match_is: str | None) -> list[str]:
    """Faults of each file by itself: files that do not fit together hide what is wrong inside them."""
    from oracle.errors import InputError  # noqa: PLC0415
    from oracle.rounds import RoundFiles  # noqa: PLC0415
    from oracle.traces import TraceFiles  # noqa: PLC0415

    faults: list[str] = []
    for file in files:
        try:
            if kind == "traces":
                TraceFiles(file, match_is=match_is).check()
            else:
                deque(RoundFiles(file), maxlen=0)
        except InputError as error:
            faults.extend(error.faults)
    return faults


def _facts(name: str, title: str, facts: dict[str, Any]) -> "Table":
    from oracle.tables import Table, words  # noqa: PLC0415

    rows = [{"fact": key, "value": value} for key, value in facts.items()]
    return Table(name, title, (words("", "fact"), words("", "value", most=300)), rows)


def _traces(files: "list[File]", match_is: str | None) -> "Table":
    from oracle.errors import InputError  # noqa: PLC0415
    from oracle.traces import TraceFiles  # noqa: PLC0415
    from oracle.unit_sums import DistinctNames  # noqa: PLC0415

    traces = TraceFiles(files, match_is=match_is)
    positions = empty = 0
    kinds: set[str] = set()
    clusters = DistinctNames()
    carried = target = None
    try:
        with progress("checking traces", traces.generations) as advance:
            for batch in traces:
                positions += batch.positions
                empty += int((batch.offsets[1:] == batch.offsets[:-1]).sum())
                kinds.update(batch.match_kind)
                clusters.add(batch.own_cluster_of)
                carried = batch.max_draft_length if batch.positions else carried
                target = None if batch.layers is None else (batch.layers, batch.top_k, batch.num_experts)
                advance(batch.generations)
    except InputError:
        traces.check()  # a walk stops at the first batch with faults; this one names them all
        raise
    return _facts(
        "traces",
        f"Traces: {len(files)} file(s), no faults",
        {
            "generations": traces.generations,
            "without positions": empty,
            "clusters": len(clusters),
            "positions": positions,
            "match probabilities": ", ".join(sorted(kinds)),
            "longest draft length carried": "any" if carried is None else carried,
            "target": "dense" if target is None else "{} MoE layers, top-{} of {} experts".format(*target),
            "columns": ", ".join(traces.column_names),
            **{f"says of itself: {key}": value for key, value in traces.metadata.items()},
        },
    )


def _rounds(files: "list[File]") -> "Table":
    from oracle.rounds import RoundFiles  # noqa: PLC0415

    rows = prefill = not_positive = 0
    lengths: set[int] = set()
    generations: set[str] = set()
    for batch in RoundFiles(files):
        rows += len(batch)
        prefill += int(batch.is_prefill.sum())
        not_positive += int(((batch.target_ms <= 0) & ~batch.is_prefill).sum())
        lengths.update(batch.draft_length[~batch.is_prefill].tolist())
        generations.update(batch.generation_names)
    return _facts(
        "rounds",
        f"Verification rounds: {len(files)} file(s), no faults",
        {
            "rounds": rows,
            "prefill rows": prefill,
            "generations": len(generations),
            "draft lengths": ", ".join(map(str, sorted(lengths))),
            "rounds with target_ms ≤ 0 (left out of a fit)": not_positive,
        },
    )
