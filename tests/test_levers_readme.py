"""The page of keys beside the cases, held against the readers: it names every key, with its default, and no other."""

import re
from dataclasses import fields, replace

import numpy as np
import pytest
from levers_strategies import LEVERS, example, traffic

from oracle.levers.break_even import repetitiveness_needed
from oracle.levers.deployment import Deployment, Precision, Speculation
from oracle.levers.deployment_file import KEYS
from oracle.levers.experts import hit_share
from oracle.levers.measured_file import JSON_KEYS
from oracle.levers.regime import NAMES
from oracle.levers.traffic_file import COLUMNS

TEXT = (LEVERS / "README.md").read_text("utf-8")
DEFAULTS = {
    field.name: field.default
    for kind in (Deployment, Speculation, Precision)
    for field in fields(kind)
    if isinstance(field.default, str | int | float)
}


def documented():
    """Rows of every table of keys, by the line that introduces it: key, unit, default, meaning."""
    found = {}
    for part in re.split(r"^(?=`[^`\n]+`)", TEXT, flags=re.MULTILINE)[1:]:
        rows = [
            [cell.strip() for cell in line.strip("|").split("|")] for line in part.splitlines() if line.startswith("|")
        ]
        if rows and rows[0] == ["key", "unit", "default", "meaning"]:
            found[re.match("`([^`]+)`", part)[1].strip("[]")] = {row[0].strip("`"): row[1:] for row in rows[2:]}
    return found


PAGES = documented()
READ = {
    "(top)": ((), ("min_quality",)),
    **KEYS,
    "traffic": (NAMES, [name for name in COLUMNS if name not in NAMES]),
    "--measured": (("precision",), [name for name in JSON_KEYS if name != "precision"]),
}


def test_every_table_is_there():
    assert PAGES.keys() == READ.keys()


@pytest.mark.parametrize("table", READ)
def test_every_key_is_documented_with_its_default(table):
    needed, optional = READ[table]
    rows = PAGES[table]
    assert sorted(rows) == sorted((*needed, *optional))
    for key, (unit, default, meaning) in rows.items():
        assert unit, key
        assert meaning, key
        assert (default == "needed") == (key in needed), key
        if key in optional and key in DEFAULTS and table in KEYS:
            value = DEFAULTS[key]
            assert default.strip('"') == (str(value).lower() if isinstance(value, bool | str) else f"{value:g}"), key


def test_break_evens_of_the_page_are_the_model_s():
    whole = example()
    growing = replace(whole, reads_grow=True)
    rows = re.findall(r"^\| (\d+), ([a-z ]+) \| (\S+) \| (\S+) \| (\S+) \|$", TEXT, re.MULTILINE)
    assert len(rows) == 9
    for batch, how, *shown in rows:
        for deployment in {"all experts read": [whole], "reads grow": [growing], "either": [whole, growing]}[how]:
            found = [
                float(repetitiveness_needed(deployment, p, traffic(), np.array(float(batch))))
                for p in deployment.precisions
            ]
            assert ["never" if np.isinf(r) else f"{r:.3f}" for r in found] == shown


def test_an_effective_number_gives_the_union_back():
    effective = 64 * (1 - (1 - 6.70 / 64) ** (1 / 2))
    assert round(effective, 2) == 3.44
    assert 64 * float(hit_share(replace(example(), experts=64, experts_per_token=effective), 2)) == pytest.approx(6.70)
