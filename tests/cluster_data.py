"""Datasets of several files and row groups, and an engine that does everything a cluster may do to the order."""

import pickle
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow.parquet as pq

from oracle.cluster.spreading import Arrival, Work
from oracle.pieces import Piece

CASES = Path(__file__).parent.parent / "cases"
TINY = CASES / "tiny-moe"


def split_traces(folder: Path, files: int = 3, row_group_size: int = 4) -> Path:
    """The recorded traces as several files of several row groups."""
    table = pq.read_table(TINY / "traces.parquet")
    rows = -(-table.num_rows // files)
    folder.mkdir()
    for number in range(files):
        part = table.slice(number * rows, rows)
        pq.write_table(part, folder / f"part-{number}.parquet", row_group_size=row_group_size + number)
    return folder


def split_rounds(folder: Path, row_group_size: int = 700) -> Path:
    """The recorded rounds as two files of several row groups; clusters and m are spread over all of them."""
    table = pq.read_table(TINY / "rounds.parquet")
    folder.mkdir()
    for number, part in enumerate((table.slice(0, 4000), table.slice(4000))):
        pq.write_table(part, folder / f"rounds-{number}.parquet", row_group_size=row_group_size)
    return folder


class ShuffledEngine:
    """Sends the work through pickles as an engine must, in any order, and mixes up all answers."""

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self.pieces = 0

    def run(self, pieces: Sequence[Piece], work: Work) -> Iterator[Arrival]:
        sent = pickle.dumps((list(enumerate(pieces)), work))
        numbered, there = pickle.loads(sent)
        self.pieces = len(numbered)
        arrivals = []
        for number, piece in numbered:
            found = list(there(piece))
            arrivals += [Arrival(number, batch, answer) for batch, answer in enumerate([*found, None])]
        random.Random(self.seed).shuffle(arrivals)
        yield from arrivals
