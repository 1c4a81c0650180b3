"""Running a module of this package in a fresh interpreter, which is ended, and has cleared away, when this one is."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any

PREFIX = "draft-oracle-bench-"  # of temporary folders; who starts a process makes and removes them
_PATIENCE_S = 20.0  # that a module has for clearing away: stopping Ray takes some
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run_module(module: str, *arguments: str, environment: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Run `python -m <this package>.<module>`; what it prints is one JSON object.

    Raises
    ------
    RuntimeError
        The module failed; the message ends with the last of what it said.
    """
    paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
    process = subprocess.Popen(
        [sys.executable, "-m", f"{__package__}.{module}", *arguments],
        env=os.environ | {"PYTHONPATH": paths} | dict(environment or {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            said, faults = process.communicate()
        except BaseException:
            process.terminate()
            try:
                process.communicate(timeout=_PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
            raise
    if process.returncode != 0:
        raise RuntimeError(f"benchmark {module} failed with exit code {process.returncode}:\n{faults[-2000:]}")
    result: dict[str, Any] = json.loads(said)
    return result


def answer(work: Callable[[], Mapping[str, Any]]) -> None:
    """Do the work of a module that `run_module` runs and print what it gives; a signal unwinds it, once."""

    def stop(number: int, _frame: object) -> None:
        for each in _SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        sys.exit(128 + number)

    for each in _SIGNALS:
        signal.signal(each, stop)
    print(json.dumps(work(), allow_nan=False))
