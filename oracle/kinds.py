"""Telling trace files from rounds files by their columns."""

from typing import Literal

from oracle.errors import Faults, InputError
from oracle.files import File, PathLike, Paths, find_parquet, shown
from oracle.footers import LeftOut, footers

RESULT_KEY = b"draft_oracle.provenance"  # decisions, scores and shifts say what they rest on
_TRACE_COLUMNS = {"match_prob", "match_probs"}
_ROUNDS_COLUMNS = {"target_ms"}


def sorted_by_kind(paths: Paths, left_out: LeftOut | None = None) -> dict[str, list[File]]:
    """Sort Parquet files into ``traces`` and ``rounds``; results of this program among them are passed over.

    Parameters
    ----------
    left_out
        Give it to leave out files that cannot be read: it takes them and the reasons.

    Raises
    ------
    InputError
        Files that cannot be read, or else files that are neither; every such file is named.
    """
    found: dict[str, list[File]] = {"traces": [], "rounds": []}
    faults = Faults()
    for path, schema, metadata in footers(find_parquet(paths, empty=True), left_out):
        if RESULT_KEY in (metadata.metadata or {}):
            continue
        names = set(schema.names)
        if names & _TRACE_COLUMNS:
            found["traces"].append(path)
        elif names & _ROUNDS_COLUMNS:
            found["rounds"].append(path)
        else:
            faults.add(
                f"{shown(path)}: is neither a trace (no column match_prob or match_probs) nor rounds (no column "
                "target_ms); give other files"
            )
    faults.raise_if_any()
    return found


def files_of_kind(paths: Paths, kind: Literal["traces", "rounds"], left_out: LeftOut | None = None) -> list[File]:
    """Give the files of one kind; a folder may hold the other too; `left_out` as for `sorted_by_kind`.

    Raises
    ------
    InputError
        None of the files is of that kind.
    """
    found = sorted_by_kind(paths, left_out)[kind]
    if not found:
        column = "match_prob or match_probs" if kind == "traces" else "target_ms"
        named = paths if isinstance(paths, PathLike) else " ".join(map(str, paths))
        raise InputError(f"{shown(named)}: holds no {kind} (Parquet with a column {column}); give other files")
    return found
