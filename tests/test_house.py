"""The house: its rooms, and files and folders that one can look through. The contracts of imports hold its floors."""

from __future__ import annotations

import ast

import pytest

from tests.common import ROOT

# At most: the 18 rooms of the house's plan, and with them `release` and `integrations`.
ROOMS, LINES, WIDTH, FILES = 20, 400, 110, 25
# Folder of each package.
PACKAGES = {"mptctl": ROOT / "mptctl", "mpt_kernels": ROOT / "kernels" / "mpt_kernels"}


def test_the_house_is_no_larger() -> None:
    inside = [path for path in PACKAGES["mptctl"].iterdir() if not path.name.startswith("__")]
    rooms = [path.name for path in inside if path.suffix == ".py" or list(path.glob("*.py"))]
    assert len(rooms) + 1 <= ROOMS, sorted(rooms)  # and the kernels


@pytest.mark.parametrize("package", PACKAGES)
def test_every_file_says_what_it_is_for_and_is_short(package: str) -> None:
    for path in sorted(PACKAGES[package].rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        assert ast.get_docstring(ast.parse(text)), path
        assert text.count("\n") <= LINES, path
        assert max(map(len, text.splitlines())) <= WIDTH, path
        assert path.stem not in ("utils", "helpers", "misc"), path


def test_no_folder_is_larger_than_one_looks_through() -> None:
    for folder in (path for path in PACKAGES["mptctl"].rglob("*") if path.is_dir()):
        if folder.name != "cli":  # a file for each verb
            assert len(list(folder.glob("*.py"))) <= FILES, folder
