"""Reads how much CPU time and memory Linux control groups allow this process, as in a container.

Version 2 is read (Linux, Documentation/admin-guide/cgroup-v2.rst). A limit holds for a
group and all groups within it. So the limit of this process is the smallest one from its own group up to the
mounted group. `system` is the root of the file system; tests give another folder.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

SYSTEM = Path("/")


def cpu_quota(system: Path = SYSTEM) -> float | None:
    """Read how much CPU time this process may use, as a number of processors; None without a limit.

    Args:
        system: root of the file system.
    """
    quotas = []
    for group in _groups(system):
        quota, _, period = read_system_text(group / "cpu.max").partition(" ")
        if quota.isdecimal() and period.isdecimal() and int(quota) and int(period):
            quotas.append(int(quota) / int(period))
    return min(quotas, default=None)


def memory_limit(system: Path = SYSTEM) -> int | None:
    """Read how many bytes of memory this process's groups may use in all; None without a limit."""
    return min((limit for _, limit in _memory_limits(system)), default=None)


def free_group_memory(system: Path = SYSTEM) -> int | None:
    """Read how many bytes of memory this process's groups may still use; None without a limit.

    Inactive file pages count as free, since the system reclaims them.
    """
    free = []
    for group, limit in _memory_limits(system):
        used = read_system_text(group / "memory.current")
        lines = read_system_text(group / "memory.stat").splitlines()
        stat = dict(line.split(" ", 1) for line in lines if " " in line)
        free.append(max(0, limit - int(used or 0) + int(stat.get("inactive_file", "0"))))
    return min(free, default=None)


def _memory_limits(system: Path) -> Iterator[tuple[Path, int]]:
    """Yield each group of this process that has a memory limit, as a folder, with the limit in bytes."""
    for group in _groups(system):
        limit = read_system_text(group / "memory.max")
        if limit.isdecimal():
            yield group, int(limit)


def _groups(system: Path) -> Iterator[Path]:
    """Yield the folders of this process's groups, from its own group up to the one that is mounted.

    The hierarchy is mounted at ``/sys/fs/cgroup``. In a container the own group itself may be mounted, so
    folders below the mount need not be there.
    """
    for line in read_system_text(system / "proc/self/cgroup").splitlines():
        if line.startswith("0::"):
            own = PurePosixPath(line.removeprefix("0::").lstrip("/"))
            for group in (own, *own.parents):
                if ".." not in group.parts:
                    yield system / "sys/fs/cgroup" / group


def read_system_text(path: Path) -> str:
    """Read a system file as stripped text; empty if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""
