"""The examples in docstrings print what they say."""

from __future__ import annotations

import doctest
from importlib import import_module
from pathlib import Path

import pytest

ROOTS = (Path(__file__).parents[1] / "mptctl", Path(__file__).parents[1] / "kernels" / "mpt_kernels")
MODULES = [
    ".".join(path.relative_to(root.parent).with_suffix("").parts)
    for root in ROOTS
    for path in sorted(root.rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("module", MODULES)
def test_examples(module: str) -> None:
    result = doctest.testmod(import_module(module))
    assert result.attempted and not result.failed
