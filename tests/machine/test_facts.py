"""Facts of the machine: cores also where the system does not say, packages without importing them, ranks."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mptctl.machine import facts


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
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    assert (facts.rank(), facts.local_rank(), facts.world_size()) == (0, 0, 1)
    for name, value in (("RANK", "5"), ("LOCAL_RANK", "1"), ("WORLD_SIZE", "8")):
        monkeypatch.setenv(name, value)
    assert (facts.rank(), facts.local_rank(), facts.world_size()) == (5, 1, 8)
