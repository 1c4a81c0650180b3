"""A deployment typed by hand, as TOML or JSON, read strictly: every fault of the file at once.

    format = "draft-oracle/deployment"
    version = 1
    [hardware]     [model]     [costs]     [speculation]     [[precision]] …
    [assumptions]  [traffic]  [running]   (optional)

The keys are those of `Deployment`, `Speculation`, `Precision` and `Regime`; `eta_low` and `eta_high` stand for an
interval, as `repetitiveness_low` … do in traffic. [running] says how it is set: precision, speculation, prefix_cache.
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from oracle.errors import Faults, InputError, InputWarning, printable
from oracle.files import read_text, shown
from oracle.latency.model_checks import check_keys, check_number, kind_of
from oracle.levers.deployment import Deployment, Precision, Speculation
from oracle.levers.handwritten import check_format, tree_from_text
from oracle.levers.procedure import Configuration
from oracle.levers.traffic_checks import PlainTraffic, check_plain, check_values

FORMAT = "draft-oracle/deployment"
VERSION = 1
_OF = "a deployment"
# What stands in for a value that is no number, so that the rules for the others are still checked.
_NEUTRAL = {
    **dict.fromkeys(("hbm_bytes", "bandwidth_bytes_per_s", "parameters"), 1e300),
    **dict.fromkeys(("draft_length", "reference_draft_length"), 1),
}
_NUMBERS = {
    "hardware": (("hbm_bytes", "bandwidth_bytes_per_s"), ("price_per_hour",)),
    "model": (
        ("parameters", "parameters_read", "kv_bytes_per_token"),
        ("expert_parameters", "experts", "experts_per_token"),
    ),
    "costs": (("prefill_ms_per_token", "cache_ms_per_token"), ()),
    "speculation": (
        ("draft_length", "round_host_ms", "verify_batch"),
        ("reference_draft_length", "base_match", "autocorrelation", "reading"),
    ),
    "assumptions": ((), ("kv_read_share", "kv_shared_on_hit", "prefill_by_precision", "reads_grow")),
}
_WHOLE = ("draft_length", "reference_draft_length", "experts")
_FLAGS = ("kv_shared_on_hit", "prefill_by_precision", "reads_grow")
_RUNNING = (("precision", "speculation", "prefix_cache"), ())
_PRECISION = (("name", "bytes_per_parameter", "eta"), ("quality", "kappa", "eta_low", "eta_high"))
# Keys of every table, needed and optional; those of [traffic] are of `oracle.levers.traffic_checks`.
KEYS = {**_NUMBERS, "precision": _PRECISION, "running": _RUNNING}


@dataclass(frozen=True)
class DeploymentFile:
    """A deployment and the traffic that its file states, unchecked where it is to be completed by another file.

    `running` is how its levers are set; None: not stated.
    """

    deployment: Deployment
    traffic: PlainTraffic
    running: Configuration | None = None


def read_deployment(path: str | Path) -> DeploymentFile:
    """Read a file; TOML, or JSON where it begins with a brace.

    Raises
    ------
    InputError
        It cannot be read, is neither, or holds any fault.
    """
    return deployment_from_text(read_text(path), shown(path))


def deployment_from_text(text: str, source: str) -> DeploymentFile:
    """Read a deployment from TOML or JSON.

    Parameters
    ----------
    text, source
        The content, and what to call it in messages.

    Raises
    ------
    InputError
        All faults at once.
    """
    tree = tree_from_text(text, source)
    faults = Faults()
    needed = ("hardware", "model", "costs", "speculation", "precision")
    check_format(tree, source, FORMAT, VERSION, _OF, needed, faults)
    optional = ("format", "version", "assumptions", "traffic", "running", "min_quality")
    check_keys(tree, f"{source}: ", needed, optional, faults, _OF)
    given = {name: _section(tree, name, source, faults) for name in _NUMBERS}
    how = given.pop("speculation")
    precisions = _precisions(tree, source, faults)
    if "min_quality" in tree and check_number(tree["min_quality"], f"{source}: min_quality", faults):
        given["quality"] = {"min_quality": tree["min_quality"]}
    traffic = check_plain(_table(tree, "traffic", source, faults), f"{source}: traffic.", faults)
    check_values(f"{source}: traffic", traffic, faults)
    deployment = _built(given, how, precisions, source, faults)
    running = _running(tree, precisions, source, faults)
    faults.raise_if_any()
    if deployment is None:
        raise InputError(f"{source}: holds no deployment")
    _warn_of_rising_eta(deployment, source)
    return DeploymentFile(deployment, traffic, running)


def _running(
    tree: Mapping[str, Any], precisions: tuple[Precision, ...], source: str, faults: Faults
) -> Configuration | None:
    """Read how the levers are set."""
    if "running" not in tree:
        return None
    place, table = f"{source}: running.", _table(tree, "running", source, faults)
    check_keys(table, place, *_RUNNING, faults, _OF)
    for key in ("speculation", "prefix_cache"):
        if key in table and not isinstance(table[key], bool):
            faults.add(f"{place}{key} is {kind_of(table[key])}; it is true or false")
    names = [each.name for each in precisions]
    named = table.get("precision", names[0] if names else "")
    if named not in names:
        said = printable(named, 80) if isinstance(named, str) else kind_of(named)
        faults.add(f"{place}precision is {said}; it is one of {', '.join(map(printable, names))}")
        return None
    return Configuration(names.index(named), bool(table.get("speculation")), bool(table.get("prefix_cache")))


def _table(tree: Mapping[str, Any], name: str, source: str, faults: Faults) -> Mapping[str, Any]:
    table = tree.get(name, {})
    if isinstance(table, dict):
        return table
    faults.add(f"{source}: {name} is {kind_of(table)}; it is a table, [{name}]")
    return {}


def _section(tree: Mapping[str, Any], name: str, source: str, faults: Faults) -> dict[str, Any]:
    """Check the keys and kinds of one table; what is no number is left neutral."""
    needed, optional = _NUMBERS[name]
    table = _table(tree, name, source, faults)
    if name in tree or needed:
        check_keys(table, f"{source}: {name}.", needed, optional, faults, _OF)
    values: dict[str, Any] = {key: _NEUTRAL.get(key, 0.5) for key in needed if key != "parameters_read"}
    for key in (*needed, *optional):
        if key not in table:
            continue
        place, value = f"{source}: {name}.{key}", table[key]
        if key == "reading":
            if isinstance(value, str):
                values[key] = value
            else:
                faults.add(f"{place} is {kind_of(value)}; it is a text")
        elif key in _FLAGS:
            if isinstance(value, bool):
                values[key] = value
            else:
                faults.add(f"{place} is {kind_of(value)}; it is true or false")
        elif check_number(value, place, faults, whole=key in _WHOLE):
            values[key] = value
    if name == "model":
        values.setdefault("parameters_read", values["parameters"])
    return values


def _precisions(tree: Mapping[str, Any], source: str, faults: Faults) -> tuple[Precision, ...]:
    listed = tree.get("precision", [])
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
        faults.add(f"{source}: precision is {kind_of(listed)}; it is a list of tables, each begun by [[precision]]")
        return (Precision("?", 1.0, 1.0),)
    found = []
    for i, each in enumerate(listed, 1):
        own = each.get("name")
        known = isinstance(own, str) and own.strip() and sum(other.get("name") == own for other in listed) == 1
        place = f"{source}: precision {printable(own) if known else i}: "
        check_keys(each, place, *_PRECISION, faults, _OF)
        values: dict[str, Any] = {"name": f"number {i}", "bytes_per_parameter": 1.0, "eta": 1.0}
        if "name" in each and not isinstance(each["name"], str):
            faults.add(f"{place}name is {kind_of(each['name'])}; it is a text")
        elif "name" in each:
            values["name"] = each["name"]
        numbers = [key for part in _PRECISION for key in part if key != "name" and key in each]
        fine = {key: each[key] for key in numbers if check_number(each[key], f"{place}{key}", faults)}
        if ("eta_low" in each) != ("eta_high" in each):
            faults.add(f"{place}eta_low and eta_high go together; give both or none")
        ends = (fine.pop("eta_low", None), fine.pop("eta_high", None))
        if None not in ends and "eta" in fine:
            values["eta_interval"] = ends
        found.append(Precision(**(values | fine)))
    return tuple(found)


def _built(
    given: Mapping[str, Mapping[str, Any]],
    how: Mapping[str, Any],
    precisions: tuple[Precision, ...],
    source: str,
    faults: Faults,
) -> Deployment | None:
    values = {key: value for section in given.values() for key, value in section.items()}
    own = Faults()
    found = own.made(lambda: Deployment(**values, precisions=precisions, speculation=Speculation(**how)))
    for fault in own:
        faults.add(f"{source}: {fault}")
    return found


def _warn_of_rising_eta(deployment: Deployment, source: str) -> None:
    ordered = sorted(deployment.precisions, key=lambda p: -p.bytes_per_parameter)
    for wider, narrower in pairwise(ordered):
        if narrower.eta > wider.eta:
            warnings.warn(
                f"{source}: eta rises from {wider.eta:g} ({printable(wider.name)}) to {narrower.eta:g} "
                f"({printable(narrower.name)}) as parameters get fewer bytes; quantisation usually costs acceptance",
                InputWarning,
                stacklevel=3,
            )
