"""Signals that come while the program is loaded, where Python drops what is raised, and again while it clears away."""

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

LISTENING = """
import os, signal, time
from click import command
from oracle.cli import main as program

class Dying:
    def __del__(self):
        os.kill(os.getpid(), {number})
        for _ in range(1000):  # the handler runs here, inside of a finalizer
            pass

@program.group.command()
def wait():
    for _ in range({finalizers}):
        Dying()
    time.sleep(30)

program.main()
"""


@pytest.mark.parametrize("finalizers", [0, 1])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_within_a_finalizer_stops_the_program_too(number: signal.Signals, finalizers: int) -> None:
    program = LISTENING.format(number=int(number), finalizers=finalizers)
    words = [sys.executable, "-c", program, "wait"]
    running = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    if not finalizers:
        with pytest.raises(subprocess.TimeoutExpired):  # nothing else ends it
            running.communicate(timeout=3)
        running.send_signal(number)
    said = running.communicate(timeout=20)[1]
    assert said == f"stopped ({number.name}); files appear only when a command has ended\n"
    assert running.returncode == 128 + number


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_signals_that_are_ignored_from_the_start_stay_so(number: signal.Signals) -> None:
    program = f"import signal; signal.signal({int(number)}, signal.SIG_IGN)\n"  # as nohup, or a script's background
    program += "from oracle.__main__ import signals; signals.leave_at_once()\n"
    program += LISTENING.format(number=int(number), finalizers=3).replace("sleep(30)", "sleep(0); print('ended')")
    done = subprocess.run([sys.executable, "-c", program, "wait"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ended\n", "")


def test_other_faults_of_finalizers_are_told_as_ever() -> None:
    program = LISTENING.format(number=0, finalizers=1).replace("os.kill(os.getpid(), 0)", "raise ValueError('lost')")
    words = [sys.executable, "-c", program.replace("sleep(30)", "sleep(0)"), "wait"]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stderr
    assert "Exception ignored in" in said
    assert "ValueError: lost" in said


LOADING = """
import os, sys
from oracle import __main__ as program

class Late:
    def find_spec(self, name, path=None, target=None):
        if name == "oracle.cli.main":
            os.kill(os.getpid(), {number})
            for _ in range(1000):  # the handler runs here, while modules are loaded
                pass

sys.meta_path.insert(0, Late())
program.main()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_the_program_is_loaded_ends_it_without_a_traceback(number: signal.Signals) -> None:
    words = [sys.executable, "-c", LOADING.format(number=int(number)), "--version"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (128 + number, "")
    assert done.stderr == f"stopped ({number.name}); files appear only when a command has ended\n"


def test_signals_are_heeded_before_anything_else_is_loaded() -> None:
    program = "import sys, oracle.__main__; print({'click', 'typing', 'threading', 'oracle.cli.main'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-S", "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
    assert 'draft-oracle = "oracle.__main__:main"' in (ROOT / "pyproject.toml").read_text()


CLEARING = """
import time
from oracle.cli import main as program

@program.group.command()
def wait():
    try:
        print("begun", flush=True)
        time.sleep(30)
    finally:
        print("clearing", flush=True)
        time.sleep(3)

program.main()
"""
AGAIN = "still stopping: what was begun is being cleared away …"
ENDED = "stopped (SIGINT); files appear only when a command has ended"


@pytest.mark.parametrize("terminal", [True, False])
def test_signals_are_answered_at_once_while_files_are_cleared_away(terminal: bool) -> None:
    ours, theirs = pty.openpty() if terminal else os.pipe()
    words = [sys.executable, "-c", CLEARING, "wait"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=theirs, text=True) as running:
        assert running.stdout is not None
        for awaited in ("begun", "clearing"):
            assert running.stdout.readline() == f"{awaited}\n"
            running.send_signal(signal.SIGINT)
        heard = b""
        while AGAIN.encode() not in heard:
            heard += os.read(ours, 1000)
        assert running.poll() is None, "it is still clearing away"
        running.wait(timeout=20)
        heard += os.read(ours, 1000)
    os.close(ours)
    os.close(theirs)
    assert running.returncode == 130
    expected = ["stopping …", AGAIN, ENDED] if terminal else [AGAIN, ENDED]
    assert [line for line in heard.decode().splitlines() if line] == expected


SHARDED = """
import os, signal
from pathlib import Path
from oracle.cli import main as program
from oracle.cli.shards import sharded

@program.group.command()
@program.click.argument("folder")
def wait(folder):
    with sharded(Path(folder), True, [], None):
        os.kill(os.getpid(), signal.SIGTERM)

program.main()
"""


def test_a_stopped_run_over_shards_says_that_it_goes_on(tmp_path: Path) -> None:
    words = [sys.executable, "-c", SHARDED, "wait", str(tmp_path / "out")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 143, done.stderr
    assert done.stderr == "stopped (SIGTERM); the same command goes on where it was\n"
