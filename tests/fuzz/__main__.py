"""Run many cases and print what came of them: python -m tests.fuzz --cases 30000 --pictures 10000.

--only N runs one case again, --picture N one picture.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import sys
import tempfile
from collections import Counter
from contextlib import suppress
from functools import partial
from pathlib import Path

from mptctl.names import Verify
from tests.fuzz.cases import Case, run_case
from tests.fuzz.inputs import make_inputs
from tests.fuzz.pictures import EACH, look_at_pictures, picture_of

VERIFY: tuple[Verify, ...] = ("header", "decode")


def main() -> int:
    """1 where a case did what it must not, or Ctrl-C ended it before the last; what was done is shown all the same."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=30_000)
    parser.add_argument("--pictures", type=int, default=0, help="damaged pictures, given to all loaders")
    parser.add_argument("--picture", type=int, help="one picture, written to picture-N")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--only", type=int, help="one case, shown whole")
    parser.add_argument(
        "--keep", type=Path, default=Path("fuzz-faults"), help="folder for files that found a fault"
    )
    given = parser.parse_args()
    if given.picture is not None:
        Path(f"picture-{given.picture}").write_bytes(picture_of(given.picture, given.seed))
        print(*(look_at_pictures([given.picture], given.seed, verify) for verify in VERIFY), sep="\n")  # noqa: T201
        return 0
    worst = _pictures(range(given.first, given.first + given.pictures), given.seed) if given.pictures else 0
    with tempfile.TemporaryDirectory() as folder:
        inputs = Path(folder) / "inputs"
        inputs.mkdir()
        make_inputs(inputs)
        if given.only is not None:
            _show(run_case(given.only, given.seed, inputs))
            return 0
        numbers = range(given.first, given.first + given.cases)
        return max(worst, _many(numbers, given.seed, inputs, given.keep) if numbers else 0)


def _pictures(numbers: range, seed: int) -> int:
    """How `split` and the loaders took damaged pictures, after a look at their headers and after decoding them."""
    faults = 0
    chunks = [numbers[start : start + EACH] for start in range(0, len(numbers), EACH)]
    for verify in VERIFY:
        outcomes: Counter[str] = Counter()
        slowest = 0.0
        with multiprocessing.get_context("fork").Pool() as pool:
            for chunk in pool.imap(partial(look_at_pictures, seed=seed, verify=verify), chunks):
                for looked in chunk:
                    outcomes[looked.outcome] += 1
                    slowest = max(slowest, looked.seconds)
                    if looked.fault:
                        faults += 1
                        print(f"picture {looked.number}, {verify}: {looked.fault}", flush=True)  # noqa: T201
        told = ", ".join(f"{count:,} {outcome}" for outcome, count in sorted(outcomes.items()))
        print(f"{len(numbers):,} pictures, --verify {verify}: {told}; slowest {slowest:.1f} s", flush=True)  # noqa: T201
    return min(faults, 1)


def _many(numbers: range, seed: int, inputs: Path, keep: Path) -> int:
    codes: Counter[tuple[str, int]] = Counter()
    peak, slowest, faults = 0, 0.0, 0
    gc.freeze()  # so that no child copies what it only looks at
    with suppress(KeyboardInterrupt), multiprocessing.get_context("fork").Pool() as pool:
        for case in pool.imap(partial(run_case, seed=seed, inputs=inputs), numbers, chunksize=8):
            codes[case.file or "(command line)", case.done.returncode] += 1
            peak, slowest = max(peak, case.done.peak), max(slowest, case.seconds)
            if case.fault:
                faults += 1
                _keep(case, keep)
    gc.unfreeze()  # what stays frozen counts as leaked when the process ends
    _print_table(codes)
    done = sum(codes.values())
    print(  # noqa: T201
        f"{done:,} of {len(numbers):,} cases, {faults:,} faults; slowest {slowest:.1f} s; largest memory "
        f"{peak / 2**20:,.0f} MB"
    )
    return int(faults > 0 or done < len(numbers))


def _keep(case: Case, keep: Path) -> None:
    keep.mkdir(exist_ok=True)
    (keep / f"{case.number}-{Path(case.file).name or 'words'}").write_bytes(case.content)
    print(f"case {case.number}: {case.fault}: {case.file}: mptctl {case.words}", flush=True)  # noqa: T201
    print(f"    {case.done.stderr.strip()[-300:]!r}", flush=True)  # noqa: T201


def _print_table(codes: Counter[tuple[str, int]]) -> None:
    """Exit codes by what was damaged."""
    seen = sorted({code for _, code in codes})
    files = sorted({file for file, _ in codes})
    rows = [(file, [codes[file, code] for code in seen]) for file in files]
    rows.append(("all", [sum(column) for column in zip(*(counts for _, counts in rows), strict=True)]))
    for name, counts in [("damaged", seen), *rows]:
        print(f"{name:<24}" + "".join(f"{count:>8,}" for count in counts))  # noqa: T201


def _show(case: Case) -> None:
    print(case.file, case.words, case.content[:2000], sep="\n")  # noqa: T201
    print(case.done.stdout, case.done.stderr, case.done.returncode, case.fault or "no fault", sep="\n")  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
