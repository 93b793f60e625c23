"""The versions of constraints.txt, which `make test` installs, and what was counted with one of them."""

from __future__ import annotations

from functools import cache
from importlib.metadata import version

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from tests.common import ROOT


@cache
def pinned_versions() -> dict[str, Version]:
    """The version of each package that constraints.txt names."""
    found = {}
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines():
        requirement = Requirement(line)
        (pin,) = requirement.specifier
        found[requirement.name] = Version(pin.version)
    return found


def is_counted(package: str) -> bool:
    """Whether the minor release of a package that is installed is the one of constraints.txt."""
    return Version(version(package)).release[:2] == pinned_versions()[package].release[:2]


def counted_with(package: str) -> pytest.MarkDecorator:
    """Skips a test of figures that were counted with the `package` of constraints.txt where another minor release of
    it is installed."""
    reason = f"counted with {package} {pinned_versions()[package]}; here is {version(package)}"
    return pytest.mark.skipif(not is_counted(package), reason=reason)
