"""The README of the plans names every key that the reader takes, with the defaults of the code."""

import re
from dataclasses import MISSING, fields

import pytest
from pool_strategies import POOL

from oracle.pool.attention_file import SHAPES
from oracle.pool.early_exit import EarlyExit
from oracle.pool.kv_cache import KvCache
from oracle.pool.plan import Memory, Model, Precision, Tenant
from oracle.pool.plan_file import TABLES
from oracle.pool.speedup import Speedup
from oracle.pool.timing import Timing
from oracle.pool.unique_experts import UniqueExperts

ROW = re.compile(r"^\| `\[+([a-z_]+)\]+` \| `([a-z_]+)` \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
ROWS = {(table, key): (unit, default) for table, key, unit, default, _ in ROW.findall((POOL / "README.md").read_text())}
CLASSES = {
    "hardware": Memory, "model": Model, "precision": Precision, "kv_precision": Precision, "kv": KvCache,
    "tenant": Tenant, "speedup": Speedup, "timing": Timing, "early_exit": EarlyExit, "unique_experts": UniqueExperts,
}  # fmt: skip


def test_every_key_is_documented_and_no_other():
    keys = {(table, key) for table, (needed, more) in TABLES.items() for key in (*needed, *more)}
    keys |= {("kv", key) for needed, more in SHAPES for key in (*needed, *more)}
    assert set(ROWS) == keys


@pytest.mark.parametrize(("table", "key"), sorted(ROWS))
def test_units_and_defaults(table, key):
    unit, default = ROWS[table, key]
    assert ("GiB" in unit) == key.endswith("_gib")
    assert (unit in {"GB", "GB/s"}) == ("_gb" in key)
    assert (unit == "ms") == ("_ms" in key)
    if table in TABLES:
        assert (default == "needed") == (key in TABLES[table][0])
    known = {field.name: field.default for field in fields(CLASSES[table])}
    if known.get(key, MISSING) not in (MISSING, None):
        assert float(default) == known[key]
    elif known.get(key, MISSING) is None:
        assert not re.fullmatch(r"[\d.]+", default)
