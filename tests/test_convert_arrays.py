"""Expert ids out of bytes: what is read equals what was written; everything else is refused before it can do harm."""

import base64
import io
import pickle
import zipfile

import numpy as np
import pytest

from oracle.errors import InputError
from oracle.recorded_by import arrays


def npy(array: np.ndarray, *, allow_pickle: bool = False) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=allow_pickle)
    return file.getvalue()


def said(call, *arguments) -> str:
    with pytest.raises(InputError) as caught:
        call(*arguments)
    return str(caught.value)


@pytest.mark.parametrize("dtype", ["u1", "<u2", ">i4", "<i8"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_npy_as_numpy_writes_it(dtype, order):
    array = np.arange(24).reshape(2, 3, 4).astype(dtype, order=order)
    found = arrays.npy_in_base64(base64.b64encode(npy(array)).decode(), "here")
    assert found.tolist() == array.tolist()
    assert not found.flags.writeable


def test_empty_and_scalar_arrays():
    assert arrays.integers_in_npy(npy(np.zeros((0, 2, 2), np.int32)), "here").shape == (0, 2, 2)
    assert arrays.integers_in_npy(npy(np.array(7)), "here").tolist() == 7


class Harmful:
    """A pickle that would run code when it is loaded."""

    def __reduce__(self):
        return (pytest.fail, ("the pickle was loaded",))


def test_a_pickle_disguised_as_npy_is_never_loaded():
    raw = npy(np.array([Harmful()], object), allow_pickle=True)
    assert said(arrays.integers_in_npy, raw, "here") == (
        "here: holds an object array (a pickle), which can run code when it is read; save integers: np.save(file, "
        "array)"
    )
    assert said(arrays.integers_in_npy, pickle.dumps([1]), "here") == (
        "here: holds a pickle, which can run code when it is read; send .npy bytes (np.save)"
    )


def test_a_huge_claimed_shape_is_refused_before_allocation():
    header = "{'descr': '<i4', 'fortran_order': False, 'shape': (1099511627776, 48, 8), }"
    raw = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode()
    assert said(arrays.integers_in_npy, raw, "here") == (
        "here: the header claims the shape (1099511627776, 48, 8) of int32, 1688849860263936 bytes; 0 follow: was it "
        "cut off?"
    )
    negative = raw.replace(b"(1099511627776, 48, 8)", b"(-1, -1)              ")
    assert "claims the shape (-1, -1)" in said(arrays.integers_in_npy, negative, "here")


def test_npy_that_was_cut_or_damaged():
    raw = npy(np.arange(10, dtype=np.int32))
    assert said(arrays.integers_in_npy, raw[:-4], "here") == (
        "here: the header claims the shape (10,) of int32, 40 bytes; 36 follow: was it cut off?"
    )
    assert said(arrays.integers_in_npy, raw[:20], "here").startswith("here: the .npy header is damaged")
    assert said(arrays.integers_in_npy, npy(np.zeros(3)), "here") == (
        "here: holds float64; expert ids and counts are whole numbers"
    )


def test_raw_int32_is_not_npy_and_npy_is_not_raw_int32():
    raw = base64.b64encode(np.arange(5, dtype="<i4").tobytes()).decode()
    assert arrays.int32_in_base64(raw, "here").tolist() == [0, 1, 2, 3, 4]
    assert said(arrays.npy_in_base64, raw, "here") == (
        "here: is not a .npy file (it starts with b'\\x00\\x00\\x00\\x00\\x01\\x00'); raw int32, as SGLang sends it, "
        "is read with --from sglang"
    )
    wrapped = base64.b64encode(npy(np.arange(5))).decode()
    assert said(arrays.int32_in_base64, wrapped, "here") == (
        "here: holds .npy bytes, as vLLM sends them, and not raw int32; read it with --from vllm"
    )
    assert said(arrays.int32_in_base64, base64.b64encode(b"12345").decode(), "here") == (
        "here: 5 bytes are not int32, which take 4 each; was it cut off?"
    )


@pytest.mark.parametrize("text", ["no base64!", "abc", "AAA\n", "ключ"])
def test_base64_that_is_none(text):
    assert said(arrays.from_base64, text, "here").startswith("here: is not base64 (")


def test_base64_longer_than_is_read(monkeypatch):
    monkeypatch.setattr(arrays, "MOST_BYTES", 2 << 20)
    assert said(arrays.from_base64, "A" * (3 << 20), "here") == (
        "here: 3145728 characters of base64; at most 2 MiB are read at a time"
    )


def test_npz(tmp_path):
    path = tmp_path / "q.npz"
    np.savez_compressed(path, a=np.arange(4), b=np.zeros((2, 2), np.uint8))
    assert {name: array.tolist() for name, array in arrays.arrays_in_npz(path).items()} == {
        "a": [0, 1, 2, 3],
        "b": [[0, 0], [0, 0]],
    }
    np.savez(path, bad=np.array([Harmful()], object))
    assert said(arrays.arrays_in_npz, path) == (
        f"{path}, bad: holds an object array (a pickle), which can run code when it is read; save integers: "
        "np.save(file, array)"
    )


def test_npz_that_unpacks_to_too_much(tmp_path, monkeypatch):
    monkeypatch.setattr(arrays, "MOST_BYTES", 1 << 20)
    path = tmp_path / "bomb.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.npy", bytes(3 << 20))
    assert path.stat().st_size < 1 << 16
    assert said(arrays.arrays_in_npz, path) == (
        f"{path}: unpacks to 3145728 bytes; at most 1048576 are read; save one request a file"
    )


def test_files_that_are_none(tmp_path):
    path = tmp_path / "q.npz"
    path.write_bytes(b"PK\x03\x04 and no more")
    assert said(arrays.arrays_in_npz, path).startswith(f"{path}: cannot be read as .npz (")
    assert said(arrays.read_npy, tmp_path / "none.npy") == (
        f"{tmp_path / 'none.npy'}: cannot be read (No such file or directory); check the path and its permissions"
    )
