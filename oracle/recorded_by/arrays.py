"""Expert ids out of bytes: .npy and .npz files, base64 of .npy bytes, base64 of raw int32. Never a pickle.

What a header claims is compared with the bytes that are there before anything is allocated.
"""

import base64
import binascii
import math
import re
import struct
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.errors import InputError, printable
from oracle.files import shown

NPY_MAGIC = b"\x93NUMPY"
MOST_BYTES = 1 << 30  # of one array: 300,000 tokens of 48 layers, top-8, int64
_DEFLATED = 1032  # bytes that one byte can unpack to
_MOST_HEADER_BYTES = 10_000  # as NumPy itself
_HEADER = re.compile(
    rb"\{'descr': '([<>=|]?[a-zA-Z]\d{0,9})', 'fortran_order': (True|False), "
    rb"'shape': \(((?:-?\d{1,18}(?:, ?-?\d{1,18}){0,31},?)?)\) {0,40},? ?\}\s*"
)
_NO_PICKLE = "an object array (a pickle), which can run code when it is read; save integers: np.save(file, array)"


def integers_in_npy(raw: bytes, place: str) -> NDArray[Any]:
    """Read the bytes of a .npy file that holds whole numbers.

    Returns
    -------
    Any shape and integer type; read-only.

    Raises
    ------
    InputError
        Not .npy bytes, a pickle, numbers that are not whole, a shape that the bytes do not fill.
    """
    if not raw.startswith(NPY_MAGIC):
        if raw[:1] == b"\x80":
            raise InputError(f"{place}: holds a pickle, which can run code when it is read; send .npy bytes (np.save)")
        raise InputError(
            f"{place}: is not a .npy file (it starts with {raw[:6]!r}); raw int32, as SGLang sends it, is read "
            "with --from sglang"
        )
    shape, fortran, dtype, begin = _header(raw, place)
    if dtype.hasobject:
        raise InputError(f"{place}: holds {_NO_PICKLE}")
    if dtype.kind not in "iu":
        raise InputError(f"{place}: holds {dtype.name}; expert ids and counts are whole numbers")
    claimed, there = math.prod(shape) * dtype.itemsize, len(raw) - begin
    if min(shape, default=0) < 0 or claimed != there or math.prod(size or 1 for size in shape) > MOST_BYTES:
        raise InputError(
            f"{place}: the header claims the shape {printable(str(shape))} of {dtype.name}, {claimed} bytes; {there} "
            "follow: was it cut off?"
        )
    flat = np.frombuffer(raw, dtype, offset=begin)
    return flat.reshape(shape, order="F" if fortran else "C")


def _header(raw: bytes, place: str) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Give the shape, whether it is in Fortran's order, the type, and where the array begins; nothing is evaluated."""
    at = 10 if raw[6:7] == b"\x01" else 12
    begin = at + int.from_bytes(raw[8:at], "little")
    found = _HEADER.fullmatch(raw[at:begin]) if begin - at <= _MOST_HEADER_BYTES and begin <= len(raw) else None
    if found is None or raw[6] not in (1, 2, 3):
        raise InputError(
            f"{place}: the .npy header is damaged (it is none that NumPy writes for numbers); save it again"
        )
    kind, fortran, sizes = (part.decode("ascii") for part in found.groups())
    try:
        dtype = np.dtype(kind)
    except (TypeError, ValueError) as error:
        raise InputError(f"{place}: the .npy header names no type ({printable(kind, 40)!r}); save it again") from error
    return tuple(int(size) for size in sizes.split(",") if size.strip()), fortran == "True", dtype, begin


def from_base64(text: str, place: str) -> bytes:
    """Decode base64.

    Raises
    ------
    InputError
        It is none, or more than is read.
    """
    if len(text) > MOST_BYTES // 3 * 4:
        raise InputError(
            f"{place}: {len(text)} characters of base64; at most {MOST_BYTES >> 20} MiB are read at a time"
        )
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InputError(f"{place}: is not base64 ({error}); it starts with {printable(text[:24])!r}") from error


def npy_in_base64(text: str, place: str) -> NDArray[Any]:
    """Read base64 of .npy bytes, as vLLM sends it."""
    return integers_in_npy(from_base64(text, place), place)


def int32_in_base64(text: str, place: str) -> NDArray[np.int32]:
    """Read base64 of raw little-endian int32, as SGLang sends it: one flat array, whose shape it does not say.

    Raises
    ------
    InputError
        It is no base64, is .npy, or does not hold whole int32.
    """
    raw = from_base64(text, place)
    if raw.startswith(NPY_MAGIC):
        raise InputError(f"{place}: holds .npy bytes, as vLLM sends them, and not raw int32; read it with --from vllm")
    if len(raw) % 4:
        raise InputError(f"{place}: {len(raw)} bytes are not int32, which take 4 each; was it cut off?")
    return np.frombuffer(raw, "<i4")


def arrays_in_npz(path: str | Path) -> Mapping[str, NDArray[Any]]:
    """Read a .npz file of whole numbers, in which each array is checked as a .npy file of its own.

    Raises
    ------
    InputError
        Not a .npz file, or an array in it is refused.
    """
    place = shown(path)
    found = {}
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
            if size > MOST_BYTES:
                raise InputError(
                    f"{place}: unpacks to {size} bytes; at most {MOST_BYTES} are read; save one request a file"
                )
            if size > _DEFLATED * Path(path).stat().st_size:
                raise InputError(f"{place}: claims to unpack to {size} bytes, more than any file of its size can hold")
            for entry in archive.infolist():
                if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                    raise InputError(f"{place}: is compressed as np.savez_compressed never does; save it again")
                name = entry.filename.removesuffix(".npy")
                with archive.open(entry) as member:
                    raw = member.read(entry.file_size + 1)
                found[name] = integers_in_npy(raw, f"{place}, {printable(name, 40)}")
    except InputError:
        raise
    except (zipfile.BadZipFile, OSError, RuntimeError, EOFError, ValueError, struct.error, zlib.error) as error:
        raise InputError(f"{place}: cannot be read as .npz ({printable(str(error), 100)}); save it again") from error
    return found


def read_npy(path: str | Path) -> NDArray[Any]:
    """Read a .npy file of whole numbers.

    Raises
    ------
    InputError
        It cannot be read, is too large, or `integers_in_npy` refuses it.
    """
    place = shown(path)
    try:
        if Path(path).stat().st_size > MOST_BYTES:
            raise InputError(f"{place}: holds more than {MOST_BYTES >> 20} MiB; save one request a file")
        return integers_in_npy(Path(path).read_bytes(), place)
    except OSError as error:
        raise InputError(f"{place}: cannot be read ({error.strerror}); check the path and its permissions") from error
