"""Some hundred cases of the fuzzing, and the files that once found a fault."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from tests.fuzz.cases import run_case
from tests.fuzz.inputs import make_inputs

# Cases of one test: few enough that a fault is near its number, many enough that a test is worth its start.
EACH = 30


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inputs")
    make_inputs(folder)
    return folder


@pytest.mark.parametrize("first", range(0, 300, EACH))
def test_damaged_input_is_read_or_refused_in_one_line(first: int, inputs: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a member of an archive that is there twice is meant
        cases = [run_case(number, 0, inputs) for number in range(first, first + EACH)]
    assert [(case.number, case.fault, case.words) for case in cases if case.fault] == []
