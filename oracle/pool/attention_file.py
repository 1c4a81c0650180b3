"""The shape of the attention as a plan states it, and the KV values it means."""

from collections.abc import Mapping
from typing import Any

from oracle.errors import Faults
from oracle.latency.model_checks import check_keys, check_number
from oracle.pool.kv_cache import KvCache, grouped_heads, latent
from oracle.pool.ranges import COUNT, POSITIVE, Range, within

OF = "a memory plan"
# Shapes of attention: what tells them apart, and what may be added.
SHAPES: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (("bytes_per_token",), ("block_tokens",)),
    (("layers", "kv_heads", "head_dim"), ("window_layers", "window_tokens", "block_tokens")),
    (("layers", "latent_dim", "rope_dim"), ("block_tokens",)),
)
_WINDOW = Range(least=0, most=1e9, whole=True)


def kv_from_table(table: Mapping[str, Any], place: str, faults: Faults) -> KvCache:
    """Find the shape of the attention and the KV values of a token; `place` is the file and the name of the table."""
    shape = next((s for s in SHAPES if any(key in table for key in s[0] if key != "layers")), None)
    if shape is None:
        faults.add(
            f"{place} has no shape; give layers, kv_heads and head_dim (grouped heads), or layers, latent_dim and "
            "rope_dim (latent attention), or bytes_per_token"
        )
        return KvCache(1.0)
    check_keys(table, f"{place}.", *shape, faults, OF)
    is_bytes = shape is SHAPES[0]
    values: dict[str, Any] = {}
    for key in (*shape[0], *shape[1]):
        values |= {key: 1} if key in shape[0] else {}
        if key in table and check_number(table[key], f"{place}.{key}", faults, whole=key != "bytes_per_token"):
            rule = POSITIVE if key == "bytes_per_token" else _WINDOW if key.startswith(("window", "rope")) else COUNT
            values |= {key: table[key]} if within(table[key], rule, f"{place}.{key}", faults) else {}
    if is_bytes:
        return KvCache(values["bytes_per_token"], block_tokens=values.get("block_tokens", 1), is_bytes=True)
    if shape is SHAPES[2]:
        return latent(**values)
    _check_window(values, f"{place}.", faults)
    return grouped_heads(**values)


def _check_window(values: dict[str, Any], place: str, faults: Faults) -> None:
    """Note sliding windows that are stated in part; they are then left out."""
    windowed, tokens = values.get("window_layers", 0), values.get("window_tokens", 0)
    if bool(windowed) != bool(tokens):
        faults.add(f"{place}window_layers and window_tokens go together; give both or none")
    elif windowed > values["layers"]:
        faults.add(f"{place}window_layers is {windowed}, more than the {values['layers']} layers that there are")
    else:
        return
    values.pop("window_layers", None)
    values.pop("window_tokens", None)
