"""Signals: the first asks, the second ends the process at once."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from tests.training.conftest import environment

ASKED = """
import os, sys, time
from mptctl.training.signals import stop_on_signals
number, times = int(sys.argv[1]), int(sys.argv[2])
with stop_on_signals() as request:
    for _ in range(times):
        os.kill(os.getpid(), number)
        time.sleep(0.01)
    print("asked", request.signum)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_asks_and_the_second_ends_at_once(number: int) -> None:
    def send(times: int) -> subprocess.CompletedProcess[str]:
        words = [sys.executable, "-c", ASKED, str(int(number)), str(times)]
        return subprocess.run(words, capture_output=True, text=True, env=environment(), check=False)

    once, twice = send(1), send(2)
    assert (once.returncode, once.stdout) == (0, f"asked {int(number)}\n")
    assert (twice.returncode, twice.stdout) == (128 + number, "")
