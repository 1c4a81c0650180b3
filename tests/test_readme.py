"""What README says is true: its library example runs, its commands exist, its file tables are complete."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from oracle.decisions import COLUMNS as DECISIONS
from oracle.round_columns import OPTIONAL, REQUIRED
from oracle.traces.schema import COLUMNS as TRACES

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")


def test_library_example_runs() -> None:
    [code] = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("[")


@pytest.mark.parametrize("command", sorted(set(re.findall(r"`draft-oracle ([a-z-]+)", README))))
def test_commands_exist(command: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "oracle", command, "--help"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0
    assert f"Usage: draft-oracle {command}" in done.stdout


def test_every_column_of_every_file_is_described() -> None:
    names = [c.name for c in TRACES] + [*REQUIRED, *OPTIONAL] + [name for name, _, _ in DECISIONS]
    missing = [name for name in names if f"| `{name}` |" not in README]
    assert missing == []


def test_generated_blocks_are_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, ".ci/readme.py", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
