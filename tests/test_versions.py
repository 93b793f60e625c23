"""The one set of versions: each package that pyproject.toml names has one that it allows; no address stands there."""

from __future__ import annotations

import re
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.common import ROOT
from tests.versions import pinned_versions

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
NAMED = [
    *PROJECT["build-system"]["requires"],
    *PROJECT["project"]["dependencies"],
    *(text for extra in PROJECT["project"]["optional-dependencies"].values() for text in extra),
]


@pytest.mark.parametrize("text", sorted({text for text in NAMED if not text.startswith("mptctl[")}))
def test_a_package_of_the_project_has_a_version_that_is_allowed(text: str) -> None:
    requirement = Requirement(text)
    pin = pinned_versions().get(canonicalize_name(requirement.name))
    assert pin is not None, "run: make constraints"
    assert requirement.specifier.contains(pin), f"{pin}; run: make constraints"


def test_there_are_names_and_versions_and_no_addresses() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    for line in lines:
        assert re.fullmatch(r"[a-z0-9-]+==[0-9][0-9a-z.]*( ; [^:/@]+)?", line), line
    # One version each, whatever the Python.
    assert len({line.partition("==")[0] for line in lines}) == len(lines)
