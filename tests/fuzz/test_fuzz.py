"""Some hundred cases of the fuzzing, and some damaged pictures in all loaders."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from mptctl.names import Verify
from tests.fuzz.cases import run_case
from tests.fuzz.inputs import make_inputs
from tests.fuzz.pictures import look_at_pictures

# Cases of one test: few enough that a fault is near its number, many enough that a test is worth its start.
EACH = 30


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inputs")
    make_inputs(folder)
    return folder


@pytest.mark.parametrize(
    "first",
    [0, *(pytest.param(n, marks=pytest.mark.nightly) for n in range(EACH, 300, EACH))],
)
def test_damaged_input_is_read_or_refused_in_one_line(first: int, inputs: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a member of an archive that is there twice is meant
        cases = [run_case(number, 0, inputs) for number in range(first, first + EACH)]
    assert [(case.number, case.fault, case.words) for case in cases if case.fault] == []


# After these numbers stand those that once found a fault: bytes between segments, an odd CMYK, a second header,
# Huffman codes that Pillow alone reads, a PNG with a row too few, one with a wrong checksum.
FOUND = [2, 18, 380, 703, 1854, 2309, 2816, 3052, 3428]


@pytest.mark.parametrize("verify", ["header", "decode"])
def test_a_damaged_picture_is_read_alike_by_all_loaders_or_refused_by_name(verify: Verify) -> None:
    looked = look_at_pictures([*range(40), *FOUND], 0, verify)
    assert [(one.number, one.fault) for one in looked if one.fault] == []
    # Of each kind some, or the damage is none.
    assert {one.outcome for one in looked} >= {"refused by split", "read"}
