"""Small inputs that ask for much: they unpack to gigabytes, claim more than is there, or run code if unpickled."""

import base64
import io
import json
import pickle
import random
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from fuzzing import samples, thrift
from fuzzing.parquet_damage import apart, together

_HUGE = (2**31, 2**31 - 1, 2**40, 2**62, -1, 10**30)


class _RunsCode:
    """Unpickled, it makes a file."""

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (Path("run-by-a-pickle"),)


def pickled() -> bytes:
    """A pickle that shows itself when it is read."""
    return pickle.dumps(_RunsCode())


def npy(rng: random.Random, dtype: str | None = None) -> bytes:
    """Bytes of .npy whose header claims what is not there, or an array of objects."""
    kind = rng.randrange(4)
    if kind == 0:
        return pickled()
    dtype = dtype or rng.choice(("<i4", "|u1", "<u8", "|O", "<f8", "<M8[s]", "|V65536", "<U2000000", "3<i4"))
    shape = rng.choice(("({0},)", "({0}, {0}, {0})", "(1, {0}, 2)", "(0, {0}, 2)", "({0}, 0, 2)", "()", "(3, 2, 2)"))
    order, sizes = rng.choice((True, False)), shape.format(rng.choice(_HUGE))
    text = f"{{'descr': '{dtype}', 'fortran_order': {order}, 'shape': {sizes}, }}"
    if kind == 1:
        text = rng.choice(
            ("(" * 5000, "[" * 90, "{'descr': '<i4'}", text + " " * 60_000, "9**9**9", "__import__('os')")
        )
    raw = text.encode().ljust(70) + b"\n"
    version = rng.choice((b"\x01\x00", b"\x02\x00", b"\x03\x00", b"\x09\x00"))
    size = len(raw).to_bytes(2 if version == b"\x01\x00" else 4, "little")
    return b"\x93NUMPY" + version + size + raw + (pickled() if dtype == "|O" else bytes(rng.choice((0, 48, 4096))))


def npz(rng: random.Random) -> bytes:
    """A .npz with such arrays, or one that unpacks to much more than it holds, and may not say so."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        name = rng.choice(
            ("routed_experts.npy", "../../escaped.npy", "/tmp/escaped.npy", "token_ids.npy", "a\x00b.npy")
        )
        if rng.random() < 0.1:
            archive.writestr(name, _zeros(rng.choice((1 << 20, 40 << 20))))
        else:
            archive.writestr(name, npy(rng))
    raw = bytearray(out.getvalue())
    if rng.random() < 0.5:  # the sizes in the central directory are what a careful reader looks at first
        at = raw.find(b"PK\x01\x02")
        raw[at + 24 : at + 28] = rng.choice((0, 1, 2**31, 2**32 - 2)).to_bytes(4, "little")
    return bytes(raw)


def _zeros(size: int) -> bytes:
    out = io.BytesIO()
    np.save(out, np.zeros((size // 16, 8, 2), np.uint8))
    return out.getvalue()


def payload(rng: random.Random, lines: str) -> bytes | None:
    """A request whose routing is such an array as base64, one time in eight; else None."""
    if "routed_experts" not in lines or rng.random() > 0.12:
        return None
    rows = [json.loads(line) for line in lines.splitlines()]
    raw = rng.choice((npy(rng), npy(rng), pickled(), b"\x00" * (3 << 20), b"\xff" * 8000))
    text = base64.b64encode(raw).decode() + rng.choice(("", "", "=", "\n", "!"))
    for at in _holders(rows[0]):
        at["routed_experts"] = text
    return "\n".join(map(json.dumps, rows)).encode()


def _holders(tree: Any) -> list[dict[str, Any]]:
    found = [tree] if isinstance(tree, dict) and "routed_experts" in tree else []
    items = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ()
    return found + [each for item in items for each in _holders(item)]


def trace(rng: random.Random) -> bytes:
    """A trace file of a few kilobytes that decodes to gigabytes, or whose schema is a thousand deep."""
    makers: tuple[tuple[Callable[..., bytes], tuple[Any, ...]], ...] = (
        (deep_schema, ((40, 1000, 100_000),)),
        (long_texts, ((1 << 10, 1 << 16), (1 << 16,), ("category", "generation", "decoding"))),
        (token_texts, ((100, 1 << 16), (1 << 16,))),
        (repeated_texts, ((100, 1 << 12), (1 << 16,))),
        (long_list, ((1 << 16, 1 << 24), ("zstd", "gzip", "snappy", "brotli"))),
        (wide_cells, ((1 << 10, 1 << 20),)),
        (many_groups, ((10, 300),)),
    )
    maker, sizes = rng.choice(makers)
    return maker(*map(rng.choice, sizes))


@cache
def deep_schema(depth: int) -> bytes:
    """Groups within groups."""
    body, footer = apart(samples.traces()[-1])
    tree, _ = thrift.read_struct(footer)
    kind, items = thrift.get(tree, 2)
    group = [[3, thrift.I32, 0], [4, thrift.BINARY, b"a"], [5, thrift.I32, 1]]
    thrift.put(tree, 2, (kind, [items[0], *[group] * depth, *items[1:]]))
    return together(body, thrift.written(tree))


def lean(rows: int) -> dict[str, Any]:
    """The columns that a trace cannot do without."""
    return {
        "generation": pa.array([f"g{i}" for i in range(rows)]),
        "match_kind": pa.array(["overlap"] * rows),
        "context_start": pa.array([5] * rows, pa.int32()),
        "match_prob": pa.array([[0.5]] * rows, pa.list_(pa.float32())),
    }


@cache
def long_texts(rows: int, size: int, name: str) -> bytes:
    """One text in a dictionary, named by every row."""
    text = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), ["x" * size])
    return samples.parquet(pa.table({**lean(rows), name: text}), compression="zstd", store_schema=False)


@cache
def repeated_texts(rows: int, size: int) -> bytes:
    """Texts that say no more than: as the one before."""
    how = {"use_dictionary": False, "column_encoding": {"category": "DELTA_BYTE_ARRAY"}}
    return samples.parquet(pa.table({**lean(rows), "category": ["x" * size] * rows}), compression="zstd", **how)


@cache
def token_texts(count: int, size: int) -> bytes:
    """One token's text in a dictionary, named by every position of one generation."""
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * count, pa.int32()), ["x" * size])
    ends = pa.array([0, count], pa.int32())
    probabilities = pa.ListArray.from_arrays(ends, pa.array(np.full(count, 0.5, np.float32)))
    columns = {**lean(1), "match_prob": probabilities, "token_text": pa.ListArray.from_arrays(ends, texts)}
    return samples.parquet(pa.table(columns), compression="zstd", store_schema=False)


@cache
def long_list(count: int, compression: str) -> bytes:
    """One generation of many equal positions."""
    ends = pa.array([0, count], pa.int32())
    probabilities = pa.ListArray.from_arrays(ends, pa.array(np.full(count, 0.5, np.float32)))
    return samples.parquet(
        pa.table({**lean(1), "match_prob": probabilities}), compression=compression, use_dictionary=count % 3 == 1
    )


@cache
def wide_cells(width: int) -> bytes:
    """Few positions with very many ids each."""
    cells = pa.array([[b"\x00" * width] * 3], pa.list_(pa.binary(width)))
    shape = {
        name: pa.array([value], pa.int32()) for name, value in (("layers", width), ("top_k", 1), ("num_experts", 8))
    }
    columns = {**lean(1), "match_prob": pa.array([[0.5] * 3], pa.list_(pa.float32())), **shape, "experts": cells}
    return samples.parquet(pa.table(columns), compression="zstd")


@cache
def many_groups(count: int) -> bytes:
    """A footer with the same row group again and again."""
    body, footer = apart(samples.parquet(pa.table(lean(2))))
    tree, _ = thrift.read_struct(footer)
    kind, items = thrift.get(tree, 4)
    thrift.put(tree, 4, (kind, items * count))
    return together(body, thrift.written(tree))
