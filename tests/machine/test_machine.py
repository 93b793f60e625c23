"""Facts of the machine: cores, memory and packages, limits of containers, the allocator, and what `doctor` says."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from mptctl.files.control_groups import cpu_quota, free_group_memory, memory_limit
from mptctl.machine import facts
from mptctl.machine.doctor import MIN_FREE, Check, examine
from mptctl.machine.facts import usable_cores, usable_memory


def test_cores_are_counted_where_the_system_does_not_say_which_may_be_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert facts.usable_cores(tmp_path) == len(os.sched_getaffinity(0))
    monkeypatch.delattr(os, "sched_getaffinity")
    assert facts.usable_cores(tmp_path) == os.cpu_count()


def test_packages_are_looked_for_also_inside_packages_that_are_not_there() -> None:
    assert facts.has_package("numpy")
    assert facts.has_package("importlib.metadata")
    assert not facts.has_package("nosuchpackage")
    assert not facts.has_package("nosuchpackage.inside")
    assert facts.version_of("nosuchpackage") is None
    assert "nosuchpackage" not in facts.versions()
    assert facts.versions()["numpy"] == facts.version_of("numpy")


def test_a_worker_knows_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("RANK", "5"), ("LOCAL_RANK", "1"), ("WORLD_SIZE", "8")):
        monkeypatch.setenv(name, value)
    assert (facts.rank(), facts.local_rank(), facts.world_size()) == (5, 1, 8)


def test_everything_is_examined_and_advice_goes_with_every_fault(tmp_path: Path) -> None:
    checks = {check.name: check for check in examine(tmp_path / "not" / "there" / "yet")}
    assert set(checks) == {
        "Python", "comparisons", "torch", "torchvision", "JPEG", "GPU", "Triton", "DALI", "Ray Tune", "cores", "storage"
    }  # fmt: skip
    assert checks["torch"].found == torch.__version__
    assert (checks["GPU"].state == "ok") == torch.cuda.is_available()
    assert all(check.advice for check in checks.values() if check.state != "ok")


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    storage = examine(file / "runs")[-1]
    assert (storage.state, storage.advice) == ("unusable", "choose another --run-root")
    assert storage.found.startswith(f"{file} cannot be written: ")


def test_storage_is_judged_by_what_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def judge(free: int) -> Check:
        monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=free))
        return examine(tmp_path)[-1]

    enough, short = judge(MIN_FREE), judge(MIN_FREE - 1)
    assert (enough.state, enough.found, enough.advice) == ("ok", f"1 GB free at {tmp_path}", None)
    assert (short.state, short.found, short.advice) == ("unusable", "1.0 GB free", "make room")


FLAGS = "rw,nosuid,nodev,noexec,relatime"
GB = 2**30
# (proc/self/cgroup, proc/self/mountinfo, other files) of each; then quota, limit and what is free; cores and memory.
SYSTEMS = {
    "docker, a namespace of its own": (
        "0::/\n",
        f"1042 1021 0:29 / /sys/fs/cgroup ro,{FLAGS} - cgroup2 cgroup rw,nsdelegate,memory_recursiveprot\n",
        {
            "sys/fs/cgroup/cpu.max": "400000 100000\n",
            "sys/fs/cgroup/memory.max": f"{8 * GB}\n",
            "sys/fs/cgroup/memory.current": f"{3 * GB}\n",
            "sys/fs/cgroup/memory.stat": f"anon {GB}\nfile {2 * GB}\ninactive_file {GB}\nactive_file {GB}\n",
        },
        (4.0, 8 * GB, 6 * GB), 4, 4 * GB,
    ),
    "a slice of systemd, whose limits hold for what is within it": (
        "0::/user.slice/user-1000.slice/session-3.scope\n",
        f"29 23 0:26 / /sys/fs/cgroup {FLAGS} shared:4 - cgroup2 cgroup2 rw,nsdelegate\n",
        {
            "sys/fs/cgroup/user.slice/cpu.max": "max 100000\n",
            "sys/fs/cgroup/user.slice/memory.max": f"{2 * GB}\n",
            "sys/fs/cgroup/user.slice/memory.current": f"{GB}\n",
            "sys/fs/cgroup/user.slice/user-1000.slice/cpu.max": "250000 100000\n",
            "sys/fs/cgroup/user.slice/user-1000.slice/memory.max": "max\n",
            "sys/fs/cgroup/user.slice/user-1000.slice/session-3.scope/cpu.max": "800000 100000\n",
            "sys/fs/cgroup/user.slice/user-1000.slice/session-3.scope/memory.max": f"{4 * GB}\n",
            "sys/fs/cgroup/user.slice/user-1000.slice/session-3.scope/memory.current": "0\n",
        },
        (2.5, 2 * GB, GB), 2, 2 * GB,
    ),
    "a group above the one that is mounted": (
        "0::/../../init.scope\n",
        f"29 23 0:26 / /sys/fs/cgroup {FLAGS} - cgroup2 cgroup2 rw\n",
        {"sys/fs/cgroup/cpu.max": "100000 100000\n"},
        (1.0, None, None), 1, 4 * GB,
    ),
    "no control groups": ("", "22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n", {}, (None, None, None), 64, 4 * GB),
}  # fmt: skip


def build(root: Path, name: str) -> Path:
    groups, mounts, files = SYSTEMS[name][:3]
    for path, content in {**files, "proc/self/cgroup": groups, "proc/self/mountinfo": mounts}.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(content)
    return root


@pytest.mark.parametrize("name", SYSTEMS)
def test_the_least_limit_of_a_group_and_those_around_it_holds(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a machine of 64 cores and 4 GB."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(64)))
    monkeypatch.setattr(os, "sysconf", {"SC_PHYS_PAGES": 4 * GB // 4096, "SC_PAGE_SIZE": 4096}.get)
    system, (limits, cores, memory) = build(tmp_path, name), SYSTEMS[name][3:]
    assert (cpu_quota(system), memory_limit(system), free_group_memory(system)) == limits
    assert (usable_cores(system), usable_memory(system)) == (cores, memory)


# Counted in a process of its own, since the allocator remembers what a process did before. A tensor of 40 MB stands
# for the activations of a step: above 32 MB glibc never learns to keep a block by itself.
FREED = """
import resource
from contextlib import nullcontext
from pathlib import Path
import torch
from mptctl.machine.device import keep_freed_memory

def faults(steps):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(steps):
        torch.ones(10 * 2**20)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

def megabytes():
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) // 1024

torch.set_num_threads(1)
for how in (nullcontext, keep_freed_memory):
    with how():
        faults(20)
        print(faults(10))
with keep_freed_memory():
    with keep_freed_memory():
        made = [torch.ones(2 * 2**20) for _ in range(40)]
        high = megabytes()
        del made
    print(high - megabytes())
print(high - megabytes())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="mallopt is glibc's")
def test_a_step_takes_what_the_one_before_freed_and_the_system_gets_it_back_at_the_end() -> None:
    done = subprocess.run([sys.executable, "-c", FREED], capture_output=True, text=True, check=True)
    without, kept, inside, after = map(int, done.stdout.split())
    assert without > 1000  # ten blocks of 10,240 pages
    assert kept < without / 10
    # Of 320 MB, with a block of another inside.
    assert inside < 30
    assert after > 250
