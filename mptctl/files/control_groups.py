"""The cores and memory that a container or a slice of the system allows this process, by control groups.

Version 1 and 2 (Linux, Documentation/admin-guide/cgroup-v1 and cgroup-v2.rst). A limit holds for a group and
for all groups within it, so the least one from the process's own group up to the mount decides.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

SYSTEM = Path("/")
# Version 1 says "no limit" by the largest number of whole pages; no machine has as much.
UNLIMITED = 2**60


class _Mount(NamedTuple):
    """A mounted hierarchy of groups.

    Attributes:
        root: the group that is mounted, as `/proc/self/cgroup` names groups.
        place: where.
        controllers: what it limits; of version 2 empty, which stands for all.
    """

    root: PurePosixPath
    place: Path
    controllers: frozenset[str]


def cpu_quota(system: Path = SYSTEM) -> float | None:
    """Processors' worth of time that this process's groups may take; None without a limit.

    Args:
        system: where the file system of the machine begins.
    """
    found = []
    for group in _groups("cpu", system):
        quota, _, period = system_text(group / "cpu.max").partition(" ")
        if not quota:
            quota, period = system_text(group / "cpu.cfs_quota_us"), system_text(group / "cpu.cfs_period_us")
        if quota.isdecimal() and period.isdecimal() and int(quota) and int(period):
            found.append(int(quota) / int(period))
    return min(found, default=None)


def memory_limit(system: Path = SYSTEM) -> int | None:
    """Bytes that this process's groups may take; None without a limit."""
    return min((limit for _, limit in _memory_limits(system)), default=None)


def free_group_memory(system: Path = SYSTEM) -> int | None:
    """Bytes that this process's groups may still take; None without a limit.

    File pages that nobody has used for a while count as free, since the system takes them back.
    """
    free = []
    for group, limit in _memory_limits(system):
        used = system_text(group / "memory.current") or system_text(group / "memory.usage_in_bytes")
        lines = system_text(group / "memory.stat").splitlines()
        stat = dict(line.split(" ", 1) for line in lines if " " in line)
        unused = stat.get("total_inactive_file", stat.get("inactive_file", "0"))
        free.append(max(0, limit - int(used or 0) + int(unused)))
    return min(free, default=None)


def _memory_limits(system: Path) -> Iterator[tuple[Path, int]]:
    for group in _groups("memory", system):
        limit = system_text(group / "memory.max") or system_text(group / "memory.limit_in_bytes")
        if limit.isdecimal() and int(limit) < UNLIMITED:
            yield group, int(limit)


def _groups(controller: str, system: Path) -> Iterator[Path]:
    """The folders of this process's groups that a controller limits, from its own one up to the mount."""
    own = _own_groups(system)
    for mount in _mounts(system):
        if mount.controllers and controller not in mount.controllers:
            continue
        path = own.get(controller if mount.controllers else "")
        if path is None:
            continue
        # In a container, what is mounted may be the own group, or one that the path does not lead to.
        below = path.relative_to(mount.root) if path.is_relative_to(mount.root) else PurePosixPath()
        for inner in (below, *below.parents):
            if ".." not in inner.parts:
                yield mount.place / inner


def _own_groups(system: Path) -> dict[str, PurePosixPath]:
    """The group of this process by controller; that of version 2 by an empty name."""
    found: dict[str, PurePosixPath] = {}
    for line in system_text(system / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        found |= dict.fromkeys(controllers.split(","), PurePosixPath(path))
    return found


def _mounts(system: Path) -> Iterator[_Mount]:
    for line in system_text(system / "proc/self/mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        kind, *_, options = after.split(" ")
        if kind not in ("cgroup", "cgroup2"):
            continue
        _, _, _, root, place, *_ = before.split(" ")
        controllers = frozenset(options.split(",")) if kind == "cgroup" else frozenset[str]()
        yield _Mount(PurePosixPath(root), system / place.lstrip("/"), controllers)


def system_text(path: Path) -> str:
    """The text of a file of the system; empty where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""
