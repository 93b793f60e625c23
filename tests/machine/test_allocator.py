"""Memory that is kept: what the system hands out again and again without it, and what it gets back."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

# Counted in a process of its own, since the allocator remembers what a process did before. A tensor of 40 MB stands
# for the activations of a step: above 32 MB glibc never learns to keep a block by itself.
FAULTS = """
import resource, sys
from contextlib import nullcontext
import torch
from mptctl.machine.device import keep_freed_memory

def step():
    torch.ones(10 * 2**20)

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

torch.set_num_threads(1)
with keep_freed_memory() if sys.argv[1] == "kept" else nullcontext():
    for _ in range(20):
        step()
    before = faults()
    for _ in range(10):
        step()
    print(faults() - before)
"""
RESIDENT = """
from pathlib import Path
import torch
from mptctl.machine.device import keep_freed_memory

def megabytes():
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) // 1024

torch.set_num_threads(1)
with keep_freed_memory():
    with keep_freed_memory():
        made = [torch.ones(2 * 2**20) for _ in range(40)]
        high = megabytes()
        del made
    print(high - megabytes())
print(high - megabytes())
"""

glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="mallopt is glibc's")


def numbers(program: str, *arguments: str) -> list[int]:
    """The numbers that a program prints, one a line."""
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [int(line) for line in done.stdout.split()]


@glibc
def test_a_step_takes_the_memory_that_the_one_before_freed() -> None:
    (without,), (kept,) = numbers(FAULTS, "not"), numbers(FAULTS, "kept")
    assert without > 1000  # ten blocks of 10,240 pages
    assert kept < without / 10


@glibc
def test_the_system_gets_it_back_at_the_end_of_the_outermost_block() -> None:
    inside, after = numbers(RESIDENT)  # of 320 MB
    assert inside < 30
    assert after > 250
