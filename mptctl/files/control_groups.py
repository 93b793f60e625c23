"""Reads how much CPU time and memory Linux control groups allow this process, as in a container.

Versions 1 and 2 are read (Linux, Documentation/admin-guide/cgroup-v1 and cgroup-v2.rst). A limit holds for a
group and all groups within it. So the limit of this process is the smallest one from its own group up to the
mounted group. `system` is the root of the file system; tests give another folder.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

SYSTEM = Path("/")
# Bytes. Version 1 expresses "no limit" by a larger number.
UNLIMITED = 2**60


def cpu_quota(system: Path = SYSTEM) -> float | None:
    """Read how much CPU time this process may use, as a number of processors; None without a limit.

    Args:
        system: root of the file system.
    """
    quotas = []
    for group in _groups("cpu", system):
        quota, _, period = read_system_text(group / "cpu.max").partition(" ")
        if not quota:
            names_v1 = "cpu.cfs_quota_us", "cpu.cfs_period_us"
            quota, period = (read_system_text(group / name) for name in names_v1)
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
        used = read_system_text(group / "memory.current") or read_system_text(group / "memory.usage_in_bytes")
        lines = read_system_text(group / "memory.stat").splitlines()
        stat = dict(line.split(" ", 1) for line in lines if " " in line)
        inactive = stat.get("total_inactive_file", stat.get("inactive_file", "0"))
        free.append(max(0, limit - int(used or 0) + int(inactive)))
    return min(free, default=None)


def _memory_limits(system: Path) -> Iterator[tuple[Path, int]]:
    """Yield each group of this process that has a memory limit, as a folder, with the limit in bytes."""
    for group in _groups("memory", system):
        limit = read_system_text(group / "memory.max") or read_system_text(group / "memory.limit_in_bytes")
        if limit.isdecimal() and int(limit) < UNLIMITED:
            yield group, int(limit)


def _groups(controller: str, system: Path) -> Iterator[Path]:
    """Yield the folders of this process's groups for a controller, from its own group up to the mounted one.

    A hierarchy is mounted at ``/sys/fs/cgroup``, of version 1 in a folder named like its controllers there.
    In a container the own group itself may be mounted, so folders below the mount need not be there.
    """
    for line in read_system_text(system / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        own = PurePosixPath(path.lstrip("/"))
        for group in (own, *own.parents):
            if ".." not in group.parts:
                yield system / "sys/fs/cgroup" / controllers / group


def read_system_text(path: Path) -> str:
    """Read a system file as stripped text; empty if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""
