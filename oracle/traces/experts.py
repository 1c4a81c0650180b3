"""The three ways to give experts: ids (`experts`), counts (`new_experts`) and means (`unique_experts`)."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.columns import frozen
from oracle.traces.batch import Batch
from oracle.traces.checks import check_ids, check_new_experts, check_unique_experts

_MOST_UINT8_EXPERTS = 256  # ids 0 … 255


def read_experts(batch: Batch, layers: int, top_k: int, num_experts: int) -> NDArray[Any] | None:
    """Read expert ids.

    Returns
    -------
    (N, layers, top_k) uint8 or uint16, or None
        Without a copy where they are stored as bytes, or as lists of uint8 or uint16.
    """
    raw = batch.cells("experts")
    if raw is None:
        return None
    if len(raw) == 0:
        return frozen(np.zeros((0, layers, top_k), np.uint8 if num_experts <= _MOST_UINT8_EXPERTS else np.uint16))
    raw = raw.reshape(len(raw), -1)
    if batch.holds_bytes("experts"):
        ids = _ids_of_bytes(batch, raw, layers, top_k, num_experts)
    else:
        ids = _ids_of_lists(batch, raw, layers, top_k, num_experts)
    if ids is None:
        return None
    experts = frozen(ids.reshape(len(raw), layers, top_k))
    check_ids(experts, num_experts, batch.places, batch.faults)
    return experts


def _ids_of_bytes(batch: Batch, raw: NDArray[Any], layers: int, top_k: int, num_experts: int) -> NDArray[Any] | None:
    """View (N, width) bytes as (N, layers·top_k) ids; the width says whether they are uint8 or uint16."""
    ids = layers * top_k
    width = raw.shape[1]
    if width == 2 * ids:
        return _little_uint16(raw)
    if width == ids and num_experts <= _MOST_UINT8_EXPERTS:
        return raw
    needed = f"{2 * ids} (uint16)" if num_experts > _MOST_UINT8_EXPERTS else f"{ids} (uint8) or {2 * ids} (uint16)"
    batch.faults.add(
        f"{batch.places.source}: experts holds {width} bytes a position; layers x top_k = {layers} x {top_k} = {ids} "
        f"ids below {num_experts} need {needed}. Do layers and top_k count what was recorded?"
    )
    return None


def _ids_of_lists(batch: Batch, raw: NDArray[Any], layers: int, top_k: int, num_experts: int) -> NDArray[Any] | None:
    """Narrow (N, layers·top_k) integers to uint8 or uint16."""
    ids = layers * top_k
    if raw.shape[1] != ids:
        batch.faults.add(
            f"{batch.places.source}: experts holds {raw.shape[1]} ids a position; layers x top_k = {layers} x {top_k} "
            f"= {ids} are needed. Do layers and top_k count what was recorded?"
        )
        return None
    if raw.dtype == np.uint8 and num_experts > _MOST_UINT8_EXPERTS:
        batch.faults.add(
            f"{batch.places.source}: experts holds uint8, which cannot name {num_experts} experts; record uint16"
        )
        return None
    return _narrowed(
        batch, "experts", raw, num_experts - 1, np.uint8 if num_experts <= _MOST_UINT8_EXPERTS else np.uint16
    )


def read_new_experts(batch: Batch, layers: int, top_k: int, num_experts: int) -> NDArray[np.uint16] | None:
    """Read counts of new experts: (N, K + 1) uint16, or None. Cells that reach before the begin are not checked."""
    raw = batch.cells("new_experts")
    if raw is None:
        return None
    raw = raw.reshape(len(raw), int(np.prod(raw.shape[1:])) if raw.ndim > 1 else 0)
    if not batch.holds_bytes("new_experts"):
        counts = _narrowed(batch, "new_experts", raw, np.iinfo(np.uint16).max, np.uint16)
    elif raw.shape[1] % 2:
        batch.faults.add(
            f"{batch.places.source}: new_experts holds {raw.shape[1]} bytes a position; K + 1 uint16 counts need an "
            "even number, 2(K + 1)"
        )
        counts = None
    else:
        counts = _little_uint16(raw)
    if counts is None or not _has_cells(batch, "new_experts", counts):
        return None
    counts = frozen(counts.astype(np.uint16, copy=False))
    check_new_experts(counts, (layers, top_k, num_experts), batch.places, batch.faults)
    return counts


def read_unique_experts(batch: Batch, top_k: int, num_experts: int) -> NDArray[np.float32] | None:
    """Read unique experts U(t, 0 … K): (N, K + 1) float32, or None."""
    values = batch.floats("unique_experts")
    if values is None or not _has_cells(batch, "unique_experts", values):
        return None
    check_unique_experts(values, top_k, num_experts, batch.places, batch.faults)
    return values


def _has_cells(batch: Batch, name: str, values: NDArray[Any]) -> bool:
    if len(values) and values.shape[1] == 0:
        batch.faults.add(f"{batch.places.source}: {name} holds nothing a position; it needs K + 1 cells, K at least 0")
        return False
    return True


def _little_uint16(raw: NDArray[np.uint8]) -> NDArray[np.uint16]:
    """View pairs of bytes as little-endian uint16, without a copy on little-endian machines."""
    flat = np.ascontiguousarray(raw).reshape(-1).view("<u2")
    return flat.astype(np.uint16, copy=False).reshape(len(raw), raw.shape[1] // 2)


def _narrowed(batch: Batch, name: str, values: NDArray[Any], largest: int, dtype: type) -> NDArray[Any] | None:
    """Narrow integers (N, width); uint8 and uint16 stay as they are. None if some are outside 0 … `largest`."""
    if values.dtype in (np.uint8, np.uint16):
        return values
    if values.size and (values.min() < 0 or values.max() > largest):
        bad = (values < 0) | (values > largest)

        def describe(i: int) -> str:
            cell = int(np.argmax(bad[i]))
            return f"{name}[{cell}] is {values[i, cell]}; it lies in 0 … {largest}. Was padding (-1) left in?"

        batch.places.note(batch.faults, bad.any(axis=1), describe)
        return None
    return values.astype(dtype)
