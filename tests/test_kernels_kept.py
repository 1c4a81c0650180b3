"""Where compiled kernels go on a machine that lets none be kept: a folder of the process's own, gone at its end."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TINY = ROOT / "cases" / "tiny-moe" / "traces.parquet"
MODEL = ROOT / "cases" / "published-a100" / "model.json"

SURVIVAL = """
import os, sys, tempfile
import numpy as np
from numba import config
from kernels.survival import survival_along
survival, to_end = np.empty((3, 2)), np.empty(3)
survival_along(np.full(3, 0.5, np.float32), np.array([0, 3]), survival, to_end)
print(survival[0].tolist(), oct(os.stat(config.CACHE_DIR).st_mode)[-4:], os.path.dirname(config.CACHE_DIR))
"""


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A copy of the program in which nothing can be kept beside the kernels, whoever asks: a file is in the way."""
    folder = tmp_path / "installed"
    for name in ("oracle", "kernels"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "kernels" / "__pycache__").write_text("in the way")
    (tmp_path / "temporary").mkdir()
    return folder


def run(installed: Path, *words: str | Path, cache: str | None = None) -> subprocess.CompletedProcess[str]:
    given = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    given |= dict.fromkeys(("HOME", "XDG_CACHE_HOME"), "/dev/null/none")
    given |= {"TMPDIR": str(installed.parent / "temporary"), "PYTHONDONTWRITEBYTECODE": "1"}
    given |= {"PYTHONPATH": str(installed)} | ({"NUMBA_CACHE_DIR": cache} if cache else {})
    return subprocess.run(
        [sys.executable, *map(str, words)], cwd=installed, env=given, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("cache", [None, "/dev/null/none"])
def test_a_command_works_with_one_line_of_warning(installed: Path, cache: str | None) -> None:
    done = run(installed, "-m", "oracle", "solve", TINY, "-m", MODEL, cache=cache)
    assert done.returncode == 0, done.stderr
    assert "19,746 decisions" in done.stdout
    [said] = done.stderr.splitlines()
    assert said.startswith(f"warning: compiled kernels cannot be kept: neither {installed}/kernels/__pycache__ nor ")
    assert "set NUMBA_CACHE_DIR to a folder that only you can write to" in said
    assert not list((installed.parent / "temporary").iterdir())


def test_the_library_works_with_a_folder_nobody_else_can_enter(installed: Path) -> None:
    done = run(installed, "-c", SURVIVAL)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("] ")[0] == "[0.5, 0.25"
    assert done.stdout.split("] ")[1].split() == ["0700", str(installed.parent / "temporary")]
    assert "UncachedWarning: compiled kernels cannot be kept" in done.stderr
    assert not list((installed.parent / "temporary").iterdir())


def test_where_kernels_can_be_kept_nothing_is_said(installed: Path) -> None:
    kept = installed.parent / "kept"
    done = run(installed, "-W", "error", "-c", SURVIVAL, cache=str(kept))
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert list(kept.rglob("*.nbc"))


def test_kernels_compiled_beside_the_source_are_taken_from_there(installed: Path) -> None:
    (installed / "kernels" / "__pycache__").unlink()
    assert run(installed, "-c", SURVIVAL.replace("config.CACHE_DIR", "'/'")).returncode == 0
    assert list((installed / "kernels" / "__pycache__").glob("*.nbc"))
    program = "from numba.core import caching\ncaching.CacheImpl._locator_classes.remove(caching.InTreeCacheLocator)\n"
    done = run(installed, "-c", program + SURVIVAL + "print(sum(survival_along.stats.cache_hits.values()))")
    assert done.returncode == 0, done.stderr
    assert "cannot be kept" in done.stderr
    assert done.stdout.splitlines()[-1] == "1"
