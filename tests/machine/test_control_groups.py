"""Limits of control groups, read from copies of the files that containers and slices of the system have."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mptctl.files.control_groups import cpu_quota, free_group_memory, memory_limit
from mptctl.machine.facts import usable_cores, usable_memory

FLAGS = "rw,nosuid,nodev,noexec,relatime"
GB = 2**30
# (proc/self/cgroup, proc/self/mountinfo, other files) of each, and then quota, limit and what is free.
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
        (4.0, 8 * GB, 6 * GB),
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
        (2.5, 2 * GB, GB),
    ),
    "a group above the one that is mounted": (
        "0::/../../init.scope\n",
        f"29 23 0:26 / /sys/fs/cgroup {FLAGS} - cgroup2 cgroup2 rw\n",
        {"sys/fs/cgroup/cpu.max": "100000 100000\n"},
        (1.0, None, None),
    ),
    "no control groups": ("", "22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n", {}, (None, None, None)),
}


def build(root: Path, name: str) -> Path:
    groups, mounts, files, _ = SYSTEMS[name]
    for path, content in {**files, "proc/self/cgroup": groups, "proc/self/mountinfo": mounts}.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(content)
    return root


@pytest.mark.parametrize("name", SYSTEMS)
def test_the_least_limit_of_a_group_and_those_around_it_holds(name: str, tmp_path: Path) -> None:
    system = build(tmp_path, name)
    assert (cpu_quota(system), memory_limit(system), free_group_memory(system)) == SYSTEMS[name][3]


def test_cores_are_those_of_the_quota(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(64)))
    cores = {name: usable_cores(build(tmp_path / str(i), name)) for i, name in enumerate(SYSTEMS)}
    assert list(cores.values()) == [4, 2, 1, 64]


def test_memory_is_the_containers_where_that_is_less(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sysconf", {"SC_PHYS_PAGES": 4 * GB // 4096, "SC_PAGE_SIZE": 4096}.get)
    memory = {name: usable_memory(build(tmp_path / str(i), name)) for i, name in enumerate(SYSTEMS)}
    assert list(memory.values()) == [4 * GB, 2 * GB, 4 * GB, 4 * GB]
