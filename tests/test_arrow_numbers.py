"""Numbers between Arrow and NumPy without what imports pandas: `to_numpy` and `pa.array` are the references."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracle.columns import codes_of, floats_of, nulls_of, numpy_of
from oracle.result_files import flat_array, list_array, text_array

CASES = Path(__file__).parent.parent / "cases"
KINDS = (
    pa.int8(),
    pa.int16(),
    pa.int32(),
    pa.int64(),
    pa.uint8(),
    pa.uint64(),
    pa.float16(),
    pa.float32(),
    pa.float64(),
)
NUMBERS = st.lists(st.integers(0, 100) | st.none(), max_size=20)


@st.composite
def columns(draw, kinds=KINDS):
    """Columns of numbers: arrays, slices of arrays, and several of them in chunks."""
    kind = draw(st.sampled_from(kinds))
    parts = []
    for numbers in draw(st.lists(NUMBERS, max_size=3)):
        given = [None if n is None else kind.to_pandas_dtype()(n) for n in numbers]
        begin = draw(st.integers(0, len(numbers)))
        parts.append(pa.array(given, kind).slice(begin))
    return parts[0] if len(parts) == 1 and draw(st.booleans()) else pa.chunked_array(parts, kind)


@given(columns())
def test_numbers_nulls_and_floats_are_those_arrow_gives(column):
    null = [value is None for value in column.to_pylist()]
    values = numpy_of(column)
    assert values.dtype == column.type.to_pandas_dtype()
    assert [v for v, missing in zip(values.tolist(), null, strict=True) if not missing] == [
        v for v in column.to_pylist() if v is not None
    ]
    assert nulls_of(column).tolist() == null
    wide = floats_of(column)
    assert wide.dtype == np.float64
    assert not wide.flags.writeable
    np.testing.assert_array_equal(wide, [np.nan if v is None else float(v) for v in column.to_pylist()])


@given(st.lists(st.lists(st.sampled_from(["a", "b", "ü", ""]) | st.none(), max_size=6), max_size=3))
def test_codes_name_what_is_there(parts):
    column = pa.chunked_array([pa.array(part, pa.string()) for part in parts], pa.string())
    codes, names = codes_of(column)
    assert [None if c < 0 else names[c] for c in codes] == column.to_pylist()


@given(
    st.sampled_from([np.int16, np.int32, np.int64, np.float32, np.float64]),
    st.lists(st.tuples(st.integers(0, 99), st.booleans()), max_size=40),
)
def test_what_is_written_is_what_arrow_would_make_of_it(dtype, cells):
    values = np.array([v for v, _ in cells], dtype)
    null = np.array([missing for _, missing in cells], np.bool_)
    for mask in (None, null):
        made = flat_array(values, mask)
        made.validate(full=True)
        assert made.equals(pa.array(values, mask=mask))
        assert made.null_count == (0 if mask is None else int(null.sum()))


@given(st.lists(st.text(max_size=5), max_size=9))
def test_texts_and_lists(texts):
    made = text_array(texts)
    made.validate(full=True)
    assert made.equals(pa.array(texts, pa.string()))
    lists = list_array(flat_array(np.arange(2 * len(texts))), 2 * np.arange(len(texts) + 1))
    lists.validate(full=True)
    assert lists.to_pylist() == [[2 * n, 2 * n + 1] for n in range(len(texts))]


@pytest.mark.parametrize("command", ["solve", "validate"])
def test_a_small_trace_needs_no_pandas(command, tmp_path):
    options = {"solve": ["-m", str(CASES / "published-a100" / "model.json"), "-o", str(tmp_path / "d.parquet")]}
    trace = CASES / "alpha-code-licence" / "trace.parquet"
    asked = ["draft-oracle", command, str(trace), *options.get(command, [])]
    program = (
        "import sys; from oracle.cli.main import main\n"
        f"sys.argv = {asked!r}\n"
        "try: main()\n"
        "finally: print('pandas' in sys.modules, 'pyarrow.compute' in sys.modules, file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "False False"
