"""What only all batches of a dataset together show: ids that recur, mixed targets, probabilities of the wrong kind."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.errors import Faults, InputWarning, printable
from oracle.hash_runs import HashRuns

_FEWEST_DEPTHS = 4  # chains shorter than this fall by chance too often
_FEWEST_DENSE_ROWS = 3


class SeenIds:
    """Remembers which generation ids occurred, as 64-bit hashes, 12 bytes an id."""

    def __init__(self) -> None:
        self.files: list[str] = []
        self._hashes = HashRuns(numbered=True)

    def add(self, ids: Sequence[str], file: str) -> list[tuple[str, str]]:
        """Remember unique `ids` of a file; give those seen before, with the file that held them first."""
        if not ids:
            return []
        if file not in self.files[-1:]:
            self.files.append(file)
        hashes = np.fromiter((hash(name) for name in ids), np.int64, len(ids)).view(np.uint64)
        first = self._hashes.add(hashes, len(self.files) - 1)
        return [(ids[i], self.files[first[i]]) for i in np.flatnonzero(first >= 0).tolist()]


class Dataset:
    """Follows one walk over a dataset; its checks need more than one batch.

    Parameters
    ----------
    routed
        Whether the dataset has any column that gives experts.
    """

    def __init__(self, routed: bool = True) -> None:
        self.faults = Faults()
        self._routed = routed
        self._seen = SeenIds()
        self._shape: dict[str, tuple[int, str]] = {}
        self._source = ""
        self._rises = False
        self._falls = False
        self._dense: NDArray[np.bool_] | None = None
        self._dense_rows = 0

    def add(
        self,
        source: str,
        offsets: NDArray[np.int64],
        *,
        ids: Sequence[str] = (),
        shape: Mapping[str, int | None] | None = None,
        match_probs: NDArray[np.float32] | None = None,
        experts: NDArray[Any] | None = None,
    ) -> None:
        """Take in one batch.

        Parameters
        ----------
        source
            File name.
        offsets : (G + 1,) int64
            Where each generation begins.
        ids : (G,) strings
            Generation ids, unique in the batch.
        shape
            What must not change within a dataset: layers, top_k, num_experts, widths; None where not known.
        match_probs : (N, K) float32
            Give it to look for survival products.
        experts : (N, layers, top_k)
            Give it to look for dense layers.
        """
        self._source = self._source or source
        for name, file in self._seen.add(ids, source):
            self.faults.add(
                f"{source}, generation '{printable(name)}': the id occurs already in {file}; ids are unique across "
                "files, rename one"
            )
        for what, value in (shape or {}).items():
            if value is not None:
                had, file = self._shape.setdefault(what, (value, source))
                if had != value:
                    self.faults.add(
                        f"{source}: {what} is {value}, but {had} in {file}; one dataset holds one target and one "
                        "layout: give these files apart"
                    )
        if match_probs is not None and match_probs.shape[1] >= _FEWEST_DEPTHS and not self._rises:
            self._look_at_chains(match_probs, offsets)
        undecided = self._dense is None or bool(self._dense.any())
        if experts is not None and len(experts) and experts.shape[2] > 1 and undecided:
            self._look_at_layers(experts, offsets)

    def join(self, part: "Dataset", ids: Sequence[str]) -> None:
        """Take in what another process saw in one batch.

        Parameters
        ----------
        part
            That batch alone.
        ids : (G,) strings
            Its generation ids: hashes of texts mean nothing in another process.
        """
        shape = {what: value for what, (value, _) in part._shape.items()}
        self.add(part._source, np.zeros(1, np.int64), ids=ids, shape=shape)
        self._rises = self._rises or part._rises
        self._falls = self._falls or part._falls
        if part._dense is not None:
            self._note_layers(part._dense, part._dense_rows)

    def state(self) -> dict[str, Any]:
        """What was seen besides ids, as JSON values."""
        return {
            "shape": {what: value for what, (value, _) in self._shape.items()},
            "rises": self._rises,
            "falls": self._falls,
            "dense": None if self._dense is None else self._dense.tolist(),
            "dense_rows": self._dense_rows,
        }

    @classmethod
    def of(cls, source: str, state: Mapping[str, Any]) -> "Dataset":
        """Give back what was seen of one file, for `join`."""
        dataset = cls()
        dataset._source = source
        dataset._shape = {what: (value, source) for what, value in state["shape"].items()}
        dataset._rises, dataset._falls = state["rises"], state["falls"]
        dataset._dense = None if state["dense"] is None else np.array(state["dense"], np.bool_)
        dataset._dense_rows = state["dense_rows"]
        return dataset

    def _look_at_chains(self, chains: NDArray[np.float32], offsets: NDArray[np.int64]) -> None:
        """Note whether chains rise or fall; cells past the end of a text are padding."""
        left = np.repeat(offsets[1:], np.diff(offsets)) - np.arange(len(chains))
        inside = np.arange(1, chains.shape[1]) < left[:, None]
        self._rises = bool(((chains[:, 1:] > chains[:, :-1]) & inside).any())
        self._falls = self._falls or bool(((chains[:, 1:] < chains[:, :-1]) & inside).any())

    def _look_at_layers(self, experts: NDArray[Any], offsets: NDArray[np.int64]) -> None:
        """Note which layers name one id in all slots, at the first and last position of every generation."""
        there = np.diff(offsets) > 0
        rows = np.unique(np.concatenate([offsets[:-1][there], offsets[1:][there] - 1]))
        same = (experts[rows] == experts[rows][:, :, :1]).all(axis=(0, 2))
        self._note_layers(same, len(rows))

    def _note_layers(self, same: NDArray[np.bool_], rows: int) -> None:
        if self._dense is not None and len(self._dense) != len(same):
            return  # another number of layers is a fault already
        self._dense = same if self._dense is None else self._dense & same
        self._dense_rows += rows

    def warn(self) -> None:
        """Say, once the whole dataset was seen, what looks wrong in it but can be meant."""
        if self._falls and not self._rises:
            self._say(
                "match_probs never rise along any chain, so they look like survival products; --match-is survival "
                "converts them, --match-is conditional says that they are conditional"
            )
        if self._dense is not None and self._dense.any() and self._dense_rows >= _FEWEST_DENSE_ROWS:
            layers = ", ".join(map(str, np.flatnonzero(self._dense)[:10]))
            self._say(
                f"experts name one id in all slots of layer {layers}; engines report dense layers so. Leave dense "
                "layers out of experts and of layers, or unique experts come out too low"
            )
        if not self._routed and "layers" in self._shape:
            self._say(
                "has layers, top_k and num_experts, but none of experts, new_experts and unique_experts; expert costs "
                "are left out, as for a dense target"
            )

    def _say(self, message: str) -> None:
        warnings.warn(InputWarning(f"{self._source}: {message}"), stacklevel=4)
