"""What a dataset of Parquet files is split into when others than this process read it."""

from collections.abc import Sequence
from dataclasses import dataclass

from oracle.files import File
from oracle.footers import footers

PIECE_BYTES = 32 << 20  # encoded; a worker's start costs more than reading less


@dataclass(frozen=True)
class Piece:
    """A run of row groups of one file.

    Attributes
    ----------
    file
        The file.
    groups
        Its row groups from the first to before the last.
    first_row
        Rows of the file that come before.
    """

    file: File
    groups: range
    first_row: int


def pieces_of(files: Sequence[File], most_bytes: int = PIECE_BYTES) -> list[Piece]:
    """Split files into runs of row groups of about `most_bytes`, at least one each, in the order of the rows."""
    pieces: list[Piece] = []
    for path, _, metadata in footers(files):
        begin, row, first_row, held = 0, 0, 0, 0
        for group in range(metadata.num_row_groups):
            said = metadata.row_group(group)
            if group > begin and held + said.total_byte_size > most_bytes:
                pieces.append(Piece(path, range(begin, group), first_row))
                begin, first_row, held = group, row, 0
            held += said.total_byte_size
            row += said.num_rows
        if row > first_row:
            pieces.append(Piece(path, range(begin, metadata.num_row_groups), first_row))
    return pieces
