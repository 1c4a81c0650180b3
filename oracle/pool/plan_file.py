"""A memory plan typed by hand, as TOML or JSON, read strictly: every fault of the file at once.

    format = "draft-oracle/pool"
    version = 1
    [hardware]   [model]   [[precision]] …   [kv]   [[kv_precision]] …   [[tenant]] …   [[speedup]] …
    [timing]     [early_exit]   [[unique_experts]] …

[hardware] is needed, with a size of HBM also [model] and [[precision]]; what else is left open is said. gib is 2^30
bytes, gb is 10^9.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from oracle.errors import MOST_DRAFT_TOKENS, Faults, InputError
from oracle.files import read_text, shown
from oracle.latency.model_checks import check_keys, check_number, check_numbers, kind_of
from oracle.levers.handwritten import check_format, tree_from_text
from oracle.pool.attention_file import OF, kv_from_table
from oracle.pool.early_exit import EarlyExit
from oracle.pool.kv_cache import KvCache
from oracle.pool.plan import GIB, Memory, Model, Plan, Precision, Tenant
from oracle.pool.ranges import NOT_NEGATIVE, POSITIVE, SHARE, within
from oracle.pool.speedup import Speedup
from oracle.pool.timing import Timing
from oracle.pool.unique_experts import UniqueExperts

FORMAT = "draft-oracle/pool"
VERSION = 1
GB = 1_000_000_000
_WHOLE = ("count", "context_tokens", "draft_length", "layers", "values_per_scale", "experts", "experts_per_token")
TABLES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "hardware": ((), ("usable_gib", "usable_gb", "hbm_gib", "hbm_gb", "usable_share", "pool_gib", "reserve_gib")),
    "model": (
        ("parameters",),
        (
            "active_parameters",
            "kept_parameters",
            "kept_bytes_per_parameter",
            "expert_parameters",
            "experts",
            "experts_per_token",
        ),
    ),
    "precision": (("name", "bytes_per_value"), ("scale_bytes", "values_per_scale", "verify_ms_per_token")),
    "kv_precision": (("name", "bytes_per_value"), ("scale_bytes", "values_per_scale")),
    "unique_experts": (("tokens", "experts"), ("draft_length",)),
    "tenant": (("name", "count", "context_tokens"), ()),
    "speedup": (
        ("name", "draft_length"),
        (
            "parameters",
            "bytes_per_parameter",
            "extra_gib",
            "parameters_read",
            "kv_bytes_per_token",
            "acceptance",
            "acceptance_length",
            "round_host_ms",
            "round_base_ms",
            "round_ms_per_tenant",
        ),
    ),
    "timing": (
        (),
        (
            "bandwidth_gb_per_s",
            "kv_read_share",
            "step_host_ms",
            "verify_ms_per_token",
            "step_base_ms",
            "step_ms_per_tenant",
        ),
    ),
    "early_exit": (("layers", "exit_layers", "probabilities"), ("rows_that_double", "compaction_layers")),
}
_LISTED = ("precision", "kv_precision", "unique_experts", "tenant", "speedup")
# Values whose units are changed, so that their range is checked as they are written.
_CONVERTED = {"extra_gib": NOT_NEGATIVE, "bandwidth_gb_per_s": POSITIVE}
# What stands in for a value that is missing or no number, so that the rules for the others are still checked.
_NEUTRAL: dict[str, Any] = {
    "parameters": 1e300,
    "draft_length": MOST_DRAFT_TOKENS,
    "layers": 1_000_000,
    "exit_layers": (1,),
    "probabilities": (1,),
}
# Values that go together: one of the wrong kind is not one that is missing.
_TOGETHER = (
    "expert_parameters",
    "experts",
    "experts_per_token",
    "bandwidth_gb_per_s",
    "step_base_ms",
    "step_ms_per_tenant",
    "round_base_ms",
    "round_ms_per_tenant",
    "usable_share",
    "usable_gib",
    "usable_gb",
    "hbm_gib",
    "hbm_gb",
    "pool_gib",
)


def read_plan(path: str | Path) -> Plan:
    """Read a file; TOML, or JSON where it begins with a brace.

    Raises
    ------
    InputError
        It cannot be read, is neither, or holds any fault.
    """
    return plan_from_text(read_text(path), shown(path))


def plan_from_text(text: str, source: str) -> Plan:
    """Read a plan from TOML or JSON; `source` is what to call it in messages.

    Raises
    ------
    InputError
        All faults at once.
    """
    tree = tree_from_text(text, source)
    faults = Faults()
    check_format(tree, source, FORMAT, VERSION, OF, (*TABLES, "kv"), faults)
    check_keys(tree, f"{source}: ", ("hardware",), ("format", "version", *list(TABLES)[1:], "kv"), faults, OF)
    listed: dict[str, list[dict[str, Any]]] = {}
    single: dict[str, dict[str, Any] | None] = {}
    for name in TABLES:
        if name in _LISTED:
            listed[name] = _rows(tree, name, source, faults)
        else:
            single[name] = _single(tree, name, source, faults)
    attention = _table(tree["kv"], f"{source}: kv", faults) if "kv" in tree else None
    kv = None if attention is None else kv_from_table(attention, f"{source}: kv", faults)
    memory = _memory(single["hardware"] or {}, f"{source}: hardware", faults)
    plan = _built(single, listed, memory, kv, source, faults)
    faults.raise_if_any()
    if plan is None:
        raise InputError(f"{source}: holds no memory plan")
    return plan


def _built(
    single: Mapping[str, Any],
    listed: Mapping[str, list[dict[str, Any]]],
    memory: Memory,
    kv: KvCache | None,
    source: str,
    faults: Faults,
) -> Plan | None:
    own = Faults()
    found = own.made(
        lambda: Plan(
            memory,
            None if single["model"] is None else Model(**single["model"]),
            tuple(Precision(**row) for row in listed["precision"]),
            kv,
            tuple(Precision(**row) for row in listed["kv_precision"]),
            tuple(Tenant(**row) for row in listed["tenant"]),
            tuple(Speedup(**_in_bytes(row, "extra_gib", "extra_bytes", GIB)) for row in listed["speedup"]),
            _timing(single["timing"]),
            None if single["early_exit"] is None else EarlyExit(**single["early_exit"]),
            tuple(UniqueExperts(**row) for row in listed["unique_experts"]),
        )
    )
    for fault in own:
        faults.add(f"{source}: {fault}")
    return found


def _timing(values: dict[str, Any] | None) -> Timing | None:
    if values is None:
        return None
    bandwidth = values.pop("bandwidth_gb_per_s", None)
    return Timing(None if bandwidth is None else bandwidth * GB, **values)


def _in_bytes(row: dict[str, Any], key: str, name: str, unit: int) -> dict[str, Any]:
    value = row.pop(key, None)
    return row if value is None else row | {name: round(value * unit)}


def _table(value: Any, place: str, faults: Faults) -> Mapping[str, Any] | None:
    if isinstance(value, dict):
        return value
    faults.add(f"{place} is {kind_of(value)}; it is a table, [{place.rpartition(' ')[2]}]")
    return None


def _single(tree: Mapping[str, Any], name: str, source: str, faults: Faults) -> dict[str, Any] | None:
    """Check the keys and kinds of one table; None where it is not there."""
    table = _table(tree[name], f"{source}: {name}", faults) if name in tree else None
    return None if table is None else _values(table, name, f"{source}: {name}.", faults)


def _rows(tree: Mapping[str, Any], name: str, source: str, faults: Faults) -> list[dict[str, Any]]:
    """Check a list of tables."""
    rows = tree.get(name, [])
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        faults.add(f"{source}: {name} is {kind_of(rows)}; it is a list of tables, each begun by [[{name}]]")
        return []
    return [_values(row, name, f"{source}: {name} {i}: ", faults) for i, row in enumerate(rows, 1)]


def _values(table: Mapping[str, Any], name: str, place: str, faults: Faults) -> dict[str, Any]:
    """Take the values of a table that are what they should be; neutral ones stand in for the others."""
    needed, optional = TABLES[name]
    check_keys(table, place, needed, optional, faults, OF)
    values: dict[str, Any] = {key: _NEUTRAL.get(key, 1) for key in needed}
    if "name" in needed:
        values["name"] = f"number {place.rpartition(':')[0].rpartition(' ')[2]}"
    for key in (*needed, *optional):
        whole = key != "experts" if name == "unique_experts" else key in _WHOLE
        if key in table and _fine(table[key], key, f"{place}{key}", faults, whole=whole):
            values[key] = tuple(table[key]) if isinstance(table[key], list) else table[key]
        elif key in table and key in _TOGETHER:
            values[key] = 1
    return values


def _fine(value: Any, key: str, place: str, faults: Faults, *, whole: bool) -> bool:
    """Note a value of the wrong kind."""
    if key == "name":
        if isinstance(value, str) and value.strip():
            return True
        faults.add(f"{place} is {'empty' if isinstance(value, str) else kind_of(value)}; it is a text")
        return False
    if key in ("exit_layers", "probabilities"):
        return check_numbers(value, place, faults, whole=key == "exit_layers")
    if not check_number(value, place, faults, whole=whole):
        return False
    return key not in _CONVERTED or within(value, _CONVERTED[key], place, faults)


def _memory(given: dict[str, Any], place: str, faults: Faults) -> Memory:
    """Find the usable bytes; exactly one way of stating them is allowed."""
    rules = dict.fromkeys(("usable_gib", "usable_gb", "hbm_gib", "hbm_gb", "pool_gib"), POSITIVE)
    rules |= {"usable_share": SHARE, "reserve_gib": NOT_NEGATIVE}
    checked = [within(given[key], rule, f"{place}.{key}", faults) for key, rule in rules.items() if key in given]
    whole = [key for key in ("usable_gib", "usable_gb", "hbm_gib", "hbm_gb", "pool_gib") if key in given]
    if len(whole) != 1:
        faults.add(
            f"{place}: {', '.join(whole) or 'no size'}; give one of usable_gib, usable_gb, pool_gib, or hbm_gib or "
            "hbm_gb with usable_share"
        )
    if len(whole) != 1 or not all(checked):
        return Memory(1 << 59)
    (key,) = whole
    if key.startswith("hbm") != ("usable_share" in given):
        faults.add(f"{place}: usable_share goes with hbm_gib or hbm_gb, and they with it; give both or the usable size")
    size = given[key] * given.get("usable_share", 1) * (GIB if key.endswith("gib") else GB)
    return Memory(round(size), round(given.get("reserve_gib", 0) * GIB), key == "pool_gib")
