"""Shows one case again, or one damaged picture, by its number: `python -m tests.fuzz N`, or `picture N`; `--seed S`."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from tests.fuzz.cases import run_case
from tests.fuzz.inputs import make_inputs
from tests.fuzz.pictures import look_at_pictures, picture_of

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("what", nargs="?", choices=("case", "picture"), default="case")
parser.add_argument("number", type=int)
parser.add_argument("--seed", type=int, default=0)
given = parser.parse_args()
if given.what == "picture":
    Path(f"picture-{given.number}").write_bytes(picture_of(given.number, given.seed))
    print(
        *(look_at_pictures([given.number], given.seed, verify) for verify in ("header", "decode")), sep="\n"
    )
else:
    with tempfile.TemporaryDirectory() as folder:
        make_inputs(Path(folder))
        case = run_case(given.number, given.seed, Path(folder))
    print(case.file, case.words, case.content[:2000], case.fault or "no fault", sep="\n")
    print(case.done.stdout, case.done.stderr, case.done.returncode, sep="\n")
