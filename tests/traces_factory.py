"""Small random traces with every column, as Arrow tables."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa


def offsets_of(lengths: Sequence[int]) -> pa.Array:
    return pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))


def lists(lengths: Sequence[int], items: Any) -> pa.Array:
    return pa.ListArray.from_arrays(offsets_of(lengths), items if isinstance(items, pa.Array) else pa.array(items))


def rows(lengths: Sequence[int], values: np.ndarray) -> pa.Array:
    flat = pa.array(np.ascontiguousarray(values).reshape(-1))
    return lists(lengths, pa.FixedSizeListArray.from_arrays(flat, values.shape[1]))


def fixed_bytes(lengths: Sequence[int], values: np.ndarray) -> pa.Array:
    data = np.ascontiguousarray(values)
    width = data.reshape(len(data), -1).shape[1] * data.itemsize if len(data) else 4
    kind = pa.binary(width)
    return lists(lengths, pa.FixedSizeBinaryArray.from_buffers(kind, len(data), [None, pa.py_buffer(data)]))


def routed(count: int, layers: int, top_k: int, num_experts: int, seed: int = 0) -> np.ndarray:
    """Distinct ids in each layer: (count, layers, top_k) uint8."""
    scores = np.random.default_rng(seed).random((count, layers, num_experts))
    return np.argsort(scores, axis=2)[:, :, :top_k].astype(np.uint8 if num_experts <= 256 else np.uint16)


def counts_of(lengths: Sequence[int], experts: np.ndarray, K: int) -> tuple[np.ndarray, np.ndarray]:
    """New experts (N, K + 1) uint16 and unique experts (N, K + 1) float32, from the definition, with sets."""
    count, layers, _ = experts.shape
    new = np.zeros((count, K + 1), np.uint16)
    unique = np.zeros((count, K + 1), np.float32)
    ends = np.cumsum(lengths)
    for begin, end in zip(ends - np.asarray(lengths), ends, strict=True):
        for i in range(begin, end):
            for j in range(min(K, i - begin) + 1):
                for layer in range(layers):
                    before = {int(e) for row in experts[i - j : i] for e in row[layer]}
                    new[i, j] += len(set(experts[i, layer].tolist()) - before)
            for k in range(K + 1):
                window = experts[i : min(i + k + 1, end)]
                unique[i, k] = sum(len(set(window[:, layer].ravel().tolist())) for layer in range(layers)) / layers
    return new, unique


def trace_table(
    lengths: Sequence[int] = (3, 0, 4),
    *,
    layers: int = 2,
    top_k: int = 2,
    num_experts: int = 8,
    K: int = 3,
    seed: int = 0,
    prefix: str = "g",
    drop: Sequence[str] = (),
    **replaced: Any,
) -> pa.Table:
    """A table with every column but match_probs; `drop` leaves columns out, keywords replace or add them."""
    rng = np.random.default_rng(seed)
    G, N = len(lengths), int(np.sum(lengths))
    experts = routed(N, layers, top_k, num_experts, seed)
    new, unique = counts_of(lengths, experts, K)
    rounds = [min(n, 1) for n in lengths]
    columns: dict[str, Any] = {
        "generation": [f"{prefix}{g}" for g in range(G)],
        "category": ["code", None, "prose"][:G] + ["code"] * (G - 3),
        "tenant": ["a"] * G,
        "cluster": [None if g == 1 else f"p{g // 2}" for g in range(G)],
        "layers": pa.array([layers] * G, pa.int32()),
        "top_k": pa.array([top_k] * G, pa.int32()),
        "num_experts": pa.array([num_experts] * G, pa.int32()),
        "match_kind": ["overlap"] * G,
        "context_start": pa.array(10 + np.arange(G), pa.int32()),
        "token_id": lists(lengths, pa.array(rng.integers(0, 99, N), pa.int32())),
        "token_text": lists(lengths, pa.array([f"t{i}" for i in range(N)], pa.string())),
        "match_prob": lists(lengths, rng.random(N).astype(np.float32)),
        "draft_prob": lists(lengths, rng.random(N).astype(np.float32)),
        "draft_token_id": rows(lengths, rng.integers(0, 99, (N, K)).astype(np.int32)),
        "draft_text": lists(lengths, pa.array([["x"] * (1 + i % 2) for i in range(N)], pa.list_(pa.string()))),
        "experts": fixed_bytes(lengths, experts),
        "new_experts": fixed_bytes(lengths, new.astype("<u2")),
        "unique_experts": rows(lengths, unique),
        "logged_draft_length": lists(rounds, pa.array([2] * sum(rounds), pa.int16())),
        "logged_advance": lists(rounds, pa.array([3] * sum(rounds), pa.int16())),
        "decoding": ["greedy"] * G,
    }
    columns |= replaced
    return pa.table({name: column for name, column in columns.items() if name not in drop})


def put(table: pa.Table, **columns: Any) -> pa.Table:
    """The same table with columns of other content."""
    for name, column in columns.items():
        table = table.set_column(table.column_names.index(name), name, column)
    return table


DENSE = ("layers", "top_k", "num_experts", "experts", "new_experts", "unique_experts")
TEXTS = ("token_id", "token_text", "draft_token_id", "draft_text")


def ids_of(table: pa.Table) -> np.ndarray:
    """The ids of `trace_table`'s experts as (N, layers, top_k), by way of Python objects."""
    layers, top_k = table["layers"][0].as_py(), table["top_k"][0].as_py()
    cells = [cell for row in table["experts"].to_pylist() for cell in row]
    return np.array([list(cell) for cell in cells], np.uint8).reshape(len(cells), layers, top_k)
