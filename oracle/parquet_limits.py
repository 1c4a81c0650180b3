"""How much a Parquet file may unpack to: compared with what is there before anything is decoded.

A few bytes can stand for gigabytes: a page of zeros, one text that every row names, a count that is a lie. What a page
unpacks to and what a row group decodes to are bounded by constants or, where the file itself is large, by
`MOST_EXPANSION` times its bytes; honest recordings stay far below.
"""

from collections.abc import Collection
from typing import IO

import pyarrow as pa

from oracle.errors import InputError, printable
from oracle.files import PathLike, opened, shown
from oracle.locations import RemoteFile
from oracle.parquet_footer import BYTE_ARRAY, Chunk, FooterError, LimitError, Page, pages_of, read_footer

MOST_PAGE_BYTES = 128 << 20  # unpacked; pages are about 1 MB, but one generation is never split between two
MOST_DECODED_BYTES = 192 << 20  # of the columns of a row group
MOST_EXPANSION = 256  # decoded bytes a byte in the file
_OFFSET_BYTES = 4  # of a text, beside its own bytes
_LEVEL_BYTES = 4  # of a value in a list: where lists begin and nulls are
_LITTLE_BYTES = 1 << 20
_CODECS = {0: None, 1: "snappy", 2: "gzip", 4: "brotli", 6: "zstd", 7: "lz4_raw"}


class ParquetLimits:
    """The limits of one file, row group by row group.

    Of a file on another file system only the footer is looked at: page headers would take a request each.

    Parameters
    ----------
    path
        A Parquet file; its footer is read here.

    Raises
    ------
    InputError
        The footer is damaged or too large.
    """

    def __init__(self, path: PathLike) -> None:
        self._path = path
        try:
            with opened(path) as file:
                self._groups = read_footer(file)
        except (FooterError, LimitError) as error:
            raise self._refused(error) from error

    def rows_anywhere(self, names: Collection[str] | None = None, batch_bytes: int = MOST_DECODED_BYTES) -> int:
        """Give the fewest of `rows_within` of all row groups, for who reads the file as one."""
        groups = range(len(self._groups))
        return min((self.rows_within(group, names, batch_bytes) for group in groups), default=1)

    def rows_within(
        self, group: int, names: Collection[str] | None = None, batch_bytes: int = MOST_DECODED_BYTES
    ) -> int:
        """Give how many rows of a row group decode to about `batch_bytes`, at least 1 and at most all.

        Parameters
        ----------
        group
            Number of the row group.
        names
            Of the columns; None for all.

        Raises
        ------
        InputError
            Damaged or lying page headers; more to decode than is read.
        """
        if group >= len(self._groups):
            raise self._refused(FooterError("its footer is damaged"))
        chunks = [c for c in self._groups[group][1] if names is None or c.path[0] in names or ".".join(c.path) in names]
        decoded = 0
        try:
            if isinstance(self._path, RemoteFile):
                decoded = sum(_decoded(chunk) for chunk in chunks)
            else:
                with opened(self._path) as file:
                    decoded = sum(_looked_at(file, chunk) for chunk in chunks)
        except (FooterError, LimitError) as error:
            raise self._refused(error) from error
        in_file = sum(chunk.size for chunk in chunks)
        most = max(MOST_DECODED_BYTES, MOST_EXPANSION * in_file)
        whole = decoded + _LEVEL_BYTES * sum(chunk.values for chunk in chunks)
        if whole > most:
            raise self._refused(
                LimitError(
                    f"row group {group} unpacks from {in_file:,} bytes to as many as {whole:,}, and at most {most:,} "
                    "are read; write row groups of fewer rows"
                )
            )
        said = self._groups[group][0]
        rows = min([said, *(chunk.values for chunk in chunks)])  # a row has at least one value in every column
        return max(1, min(rows, rows * batch_bytes // max(decoded, 1)))

    def values_of(self, group: int) -> dict[str, int]:
        """Give the values of each column of a row group, as the footer says; of several leaves the fewest."""
        values: dict[str, int] = {}
        for chunk in self._groups[group][1]:
            values[chunk.path[0]] = min(chunk.values, values.get(chunk.path[0], chunk.values))
        return values

    def refuse_other_rows(self, group: int, rows: int) -> None:
        """Raise unless a row group held as many rows as the footer says."""
        said = self._groups[group][0]
        if rows != said:
            raise self._refused(FooterError(f"row group {group} holds {rows} rows, the footer says {said}"))

    def _refused(self, error: FooterError | LimitError) -> InputError:
        if isinstance(error, LimitError):
            return InputError(f"{shown(self._path)}: {printable(str(error), 400)}")
        reason = printable(str(error), 200)
        return InputError(
            f"{shown(self._path)}: the Parquet file is damaged and cannot be read; write or copy it again ({reason})"
        )


def _looked_at(file: IO[bytes], chunk: Chunk) -> int:
    """Check every page of a column; give an upper bound of what it decodes to."""
    entries = longest = seen = plain = 0
    for page in pages_of(file, chunk):
        if page.unpacked > max(MOST_PAGE_BYTES, MOST_EXPANSION * page.size):
            raise LimitError(
                f"a page of {'.'.join(chunk.path)} unpacks from {page.size:,} bytes to {page.unpacked:,}; at most "
                f"{MOST_PAGE_BYTES:,} are read; write smaller pages"
            )
        if page.has_prefixes and chunk.kind == BYTE_ARRAY and page.values * page.unpacked > MOST_DECODED_BYTES:
            raise LimitError(
                f"{'.'.join(chunk.path)} is encoded as DELTA_BYTE_ARRAY, which does not tell what it unpacks to; write "
                "it plain, or with a dictionary"
            )
        if page.is_dictionary:
            entries += page.values
            if entries * max(chunk.width, 1 if chunk.kind != BYTE_ARRAY else _OFFSET_BYTES) > page.unpacked:
                raise FooterError(f"the dictionary of {'.'.join(chunk.path)} claims {entries:,} entries")
            longest = _longest(file, chunk, page) if chunk.kind == BYTE_ARRAY else 0
        else:
            seen += page.values
            plain += page.unpacked
    if seen > chunk.values:
        raise FooterError(f"the pages of {'.'.join(chunk.path)} hold {seen:,} values, the footer says {chunk.values:,}")
    return _decoded(chunk) + (chunk.values * longest + plain if chunk.kind == BYTE_ARRAY else 0)


def _decoded(chunk: Chunk) -> int:
    """Bytes of the values of a column; of texts, of their offsets."""
    return max(chunk.values, 0) * (_OFFSET_BYTES if chunk.kind == BYTE_ARRAY else chunk.width)


def _longest(file: IO[bytes], chunk: Chunk, page: Page) -> int:
    """Give the most bytes that one entry of a dictionary of texts has, or more where that is little in all."""
    most = page.unpacked - _OFFSET_BYTES * page.values
    if chunk.codec not in _CODECS or chunk.values * most <= _LITTLE_BYTES:
        return most
    file.seek(page.start)
    raw, codec = file.read(page.size), _CODECS[chunk.codec]
    if codec is not None:
        try:
            raw = pa.decompress(raw, page.unpacked, codec, asbytes=True)
        except (pa.ArrowException, OSError) as error:
            raise FooterError(f"the dictionary of {'.'.join(chunk.path)} cannot be unpacked") from error
    at = longest = 0
    for _ in range(page.values):
        size = int.from_bytes(raw[at : at + _OFFSET_BYTES], "little")
        longest = max(longest, size)
        at += _OFFSET_BYTES + size
    return min(longest, most)
