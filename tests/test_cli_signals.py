"""Signals that come where Python drops what is raised."""

import signal
import subprocess
import sys

import pytest

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


def test_other_faults_of_finalizers_are_told_as_ever() -> None:
    program = LISTENING.format(number=0, finalizers=1).replace("os.kill(os.getpid(), 0)", "raise ValueError('lost')")
    words = [sys.executable, "-c", program.replace("sleep(30)", "sleep(0)"), "wait"]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stderr
    assert "Exception ignored in" in said
    assert "ValueError: lost" in said
