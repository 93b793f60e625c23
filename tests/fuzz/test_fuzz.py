"""Some cases of the fuzzing, and some damaged pictures in all loaders; `make fuzz` takes ten thousands."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from mptctl.names import Verify
from tests.fuzz.cases import run_case
from tests.fuzz.inputs import make_inputs
from tests.fuzz.pictures import EACH, look_at_pictures

CASES, PICTURES, SEED = map(int, os.environ.get("MPTCTL_FUZZ", "300 40 0").split())
# Cases of one test: few enough that a fault is near its number, many enough that a test is worth its start.
TOGETHER = 30
# Pictures that once found a fault, with seed 0: bytes between segments, an odd CMYK, a second header, Huffman codes
# that Pillow alone reads, a PNG with a row too few, one with a wrong checksum.
FOUND = [2, 18, 380, 703, 1854, 2309, 2816, 3052, 3428]


def parts(count: int, size: int) -> list[ParameterSet]:
    """Numbers in parts, of which the first alone is met by day."""
    chunks = [range(first, min(first + size, count)) for first in range(0, count, size)]
    return [
        pytest.param(chunk, id=str(chunk[0]), marks=[pytest.mark.nightly] * (chunk[0] > 0))
        for chunk in chunks
    ]


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inputs")
    make_inputs(folder)
    return folder


@pytest.mark.parametrize("numbers", parts(CASES, TOGETHER))
def test_damaged_input_is_read_or_refused_in_one_line(numbers: range, inputs: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a member of an archive that is there twice is meant
        cases = [run_case(number, SEED, inputs) for number in numbers]
    assert [(case.number, case.fault, case.words) for case in cases if case.fault] == []


@pytest.mark.parametrize("verify", ["header", "decode"])
@pytest.mark.parametrize("numbers", parts(PICTURES, EACH))
def test_a_damaged_picture_is_read_alike_by_all_loaders_or_refused_by_name(
    numbers: range, verify: Verify
) -> None:
    looked = look_at_pictures([*numbers, *(() if numbers.start else FOUND)], SEED, verify)
    assert [(one.number, one.fault) for one in looked if one.fault] == []
    # Of each kind some, or the damage is none.
    assert {one.outcome for one in looked} >= {"refused by split", "read"}
