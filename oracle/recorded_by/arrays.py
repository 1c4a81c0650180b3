"""Expert ids out of bytes: .npy and .npz files, base64 of .npy bytes, base64 of raw int32. Never a pickle.

What a header claims is compared with the bytes that are there before anything is allocated.
"""

import base64
import binascii
import io
import math
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.errors import InputError, printable
from oracle.files import shown

NPY_MAGIC = b"\x93NUMPY"
MOST_BYTES = 1 << 30  # of one array: 300,000 tokens of 48 layers, top-8, int64
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
        hint = "it is a pickle; " if raw[:1] == b"\x80" else ""
        raise InputError(
            f"{place}: is not a .npy file (it starts with {raw[:6]!r}); {hint}raw int32, as SGLang sends it, is read "
            "with --from sglang"
        )
    stream = io.BytesIO(raw)
    try:
        version = np.lib.format.read_magic(stream)
        reader = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = reader(stream)
    except (ValueError, OSError, SyntaxError, MemoryError, RecursionError) as error:
        raise InputError(
            f"{place}: the .npy header is damaged ({printable(str(error), 100)}); save it again"
        ) from error
    if dtype.hasobject:
        raise InputError(f"{place}: holds {_NO_PICKLE}")
    if dtype.kind not in "iu":
        raise InputError(f"{place}: holds {dtype.name}; expert ids and counts are whole numbers")
    claimed, there = math.prod(shape) * dtype.itemsize, len(raw) - stream.tell()
    if min(shape, default=0) < 0 or claimed != there:
        raise InputError(
            f"{place}: the header claims the shape {printable(str(shape))} of {dtype.name}, {claimed} bytes; {there} "
            "follow: was it cut off?"
        )
    flat = np.frombuffer(raw, dtype, offset=stream.tell())
    return flat.reshape(shape, order="F" if fortran else "C")


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
            for entry in archive.infolist():
                name = entry.filename.removesuffix(".npy")
                with archive.open(entry) as member:
                    raw = member.read(MOST_BYTES + 1)
                found[name] = integers_in_npy(raw, f"{place}, {printable(name, 40)}")
    except (zipfile.BadZipFile, OSError, NotImplementedError, RuntimeError, EOFError) as error:
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
