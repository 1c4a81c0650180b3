"""What the footers of many files say, before anything is decoded."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq

from oracle.errors import Faults, InputError
from oracle.files import File, of_each, open_parquet, parquet_errors


@dataclass
class LeftOut:
    """Files that cannot be read and are left out, filled in by who reads their footers.

    Attributes
    ----------
    why
        The reasons.
    among
        All files that were looked at, in order.
    """

    why: dict[File, str] = field(default_factory=dict)
    among: tuple[File, ...] = ()


def footers(
    paths: Sequence[File], left_out: LeftOut | None = None
) -> Iterator[tuple[File, pa.Schema, pq.FileMetaData]]:
    """Read footers, those of many files side by side, and give them in the order of the files.

    Parameters
    ----------
    left_out
        Give it to leave out files that cannot be read: it takes them and the reasons.

    Raises
    ------
    InputError
        After the last footer: all files that cannot be read.
    """
    faults = Faults()
    if left_out is not None:
        left_out.among = tuple(paths)
    for path, read in zip(paths, of_each(_footer, paths), strict=True):
        if not isinstance(read, InputError):
            yield path, *read
        elif left_out is None:
            faults.add(str(read))
        else:
            left_out.why[path] = str(read)
    faults.raise_if_any()


def _footer(path: File) -> tuple[pa.Schema, pq.FileMetaData] | InputError:
    try:
        with open_parquet(path) as file, parquet_errors(path):
            return file.schema_arrow, file.metadata
    except InputError as error:
        return error
