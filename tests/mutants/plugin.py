"""Runs a test session with one mutant in the package: `pytest -p tests.mutants.plugin --mutant NAME`."""

from __future__ import annotations

import pytest

from tests.mutants.mutant import read_mutants


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that names the mutant."""
    parser.addoption("--mutant", required=True, help="name of a mutant of tests/mutants/mutants.tsv")


def pytest_configure(config: pytest.Config) -> None:
    """Install the mutant before a test is collected."""
    name = config.getoption("--mutant")
    next(mutant for mutant in read_mutants() if mutant.name == name).install()
