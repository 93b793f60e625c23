"""The one set of versions: each package that pyproject.toml names has one that it allows; no address stands there."""

from __future__ import annotations

import re
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from mptctl.cli.unforeseen import LEFT_OUT
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


def test_the_gate_takes_the_same_versions_and_leaves_out_what_the_program_can_say_is_missing() -> None:
    lines = (ROOT / "requirements-gate.txt").read_text(encoding="utf-8").splitlines()
    gate = dict(line.partition(" ; ")[0].split("==") for line in lines)
    pins = pinned_versions()
    assert {name: str(pins[name]) for name in gate} == gate, "run: make constraints"
    needed = {canonicalize_name(Requirement(text).name) for text in PROJECT["project"]["dependencies"]}
    left_out = {"torch", "torchvision", "torchcodec", "nvidia-dali-cuda130", "ray", "optuna", "tensorboardx"}
    assert needed - set(gate) == left_out
    assert {name.partition("-")[0] for name in left_out} == {module.lower() for module in LEFT_OUT}
