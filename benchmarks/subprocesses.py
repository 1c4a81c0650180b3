"""Running a module of this package in a fresh interpreter."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any


def run_module(module: str, *arguments: str, environment: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Run `python -m <this package>.<module>`; what it prints is one JSON object.

    Raises
    ------
    RuntimeError
        The module failed; the message ends with the last of what it said.
    """
    paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
    done = subprocess.run(
        [sys.executable, "-m", f"{__package__}.{module}", *arguments],
        env=os.environ | {"PYTHONPATH": paths} | dict(environment or {}),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"benchmark {module} failed with exit code {done.returncode}:\n{done.stderr[-2000:]}")
    result: dict[str, Any] = json.loads(done.stdout)
    return result
