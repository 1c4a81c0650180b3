"""What the footers of many files say, before anything is decoded."""

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from oracle.errors import InputError
from oracle.files import File, of_each, open_parquet, parquet_errors, shown


def footers(
    paths: Sequence[File], left_out: dict[str, str] | None = None
) -> Iterator[tuple[File, pa.Schema, pq.FileMetaData]]:
    """Read footers, those of many files side by side, and give them in the order of the files.

    Parameters
    ----------
    left_out
        Give it to leave out files that cannot be read: it takes their names and the reasons.

    Raises
    ------
    InputError
        The first file that cannot be read.
    """
    for path, read in zip(paths, of_each(_footer, paths), strict=True):
        if not isinstance(read, InputError):
            yield path, *read
        elif left_out is None:
            raise read
        else:
            left_out[shown(path)] = str(read)


def _footer(path: File) -> tuple[pa.Schema, pq.FileMetaData] | InputError:
    try:
        with open_parquet(path) as file, parquet_errors(path):
            return file.schema_arrow, file.metadata
    except InputError as error:
        return error
