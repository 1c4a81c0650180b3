"""Telling trace files from rounds files by their columns."""

from pathlib import Path

from oracle.errors import Faults
from oracle.files import Paths, find_parquet, open_parquet, shown

_TRACE_COLUMNS = {"match_prob", "match_probs"}
_ROUNDS_COLUMNS = {"target_ms"}


def sorted_by_kind(paths: Paths) -> dict[str, list[Path]]:
    """Sort Parquet files into ``traces`` and ``rounds``.

    Raises
    ------
    InputError
        A file that is neither; every such file is named.
    """
    found: dict[str, list[Path]] = {"traces": [], "rounds": []}
    faults = Faults()
    for path in find_parquet(paths):
        with open_parquet(path) as file:
            names = set(file.schema_arrow.names)
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
