"""Random predictions files against ten lines: the same counts, or a refusal where the file is unsound.

Every second case is sound and must be taken; the others go through the kinds of `KINDS` in turn and must be refused.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from mptctl.errors import DataError
from mptctl.evaluation.evaluate import compare
from mptctl.evaluation.reading.predictions import read_predictions
from tests.evaluation.damage import KINDS, Kind
from tests.evaluation.random_files import expected, make, write


def run(case: int, folder: Path) -> tuple[str, tuple[int, ...] | None, tuple[int, ...] | None, str]:
    """One case: its kind (empty: sound), the counts, those of the ten lines, and the refusal."""
    rng = np.random.default_rng(case)
    names = list(KINDS)
    kind = names[case // 2 % len(names)] if case % 2 else ""
    damage = KINDS.get(kind, Kind({}))
    pair = make(rng, **damage.fixed)
    counts = expected(*pair)
    if damage.before is not None:
        pair = damage.before(rng, pair)
    paths = [folder / f"{name}{model.form}" for name, model in zip(("old", "new"), pair, strict=True)]
    for model, path in zip(pair, paths, strict=True):
        write(rng, model, path)
    if damage.after is not None:
        damage.after(rng, paths[int(rng.integers(2))])
    try:
        report = compare(*(read_predictions(path) for path in paths))
    except DataError as error:
        return kind, None, counts, str(error)
    strange = sum(p == "a class without samples" for model in pair for p in model.preds)
    assert sum("no list of classes" in warning for warning in report.warnings) == sum(
        "a class without samples" in model.preds for model in pair
    ), f"case {case}: {strange} unknown answers, and {report.warnings}"
    return kind, tuple(report.counts.model_dump().values()), counts, ""


# Sixty cases meet each kind once or twice.
@pytest.mark.parametrize(
    "cases", [range(60), pytest.param(range(60, 360), marks=pytest.mark.nightly)], ids=["60", "300 more"]
)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_the_same_counts_as_ten_lines_or_a_refusal(cases: range, tmp_path: Path) -> None:
    refused: Counter[str] = Counter()
    agreed = 0
    for case in cases:
        kind, found, counts, message = run(case, tmp_path)
        if kind:
            assert found is None, f"case {case}: {kind}: taken, with {found} where {counts} is right"
            assert "\n" not in message and ("old." in message or "new." in message), f"case {case}: {message}"
            refused[kind] += 1
        else:
            assert found == counts, f"case {case}: {found} where {counts} is right; {message}"
            agreed += 1
    print(f"{agreed} sound pairs agreed, {refused.total()} unsound ones were refused: {dict(refused)}")
    assert refused.keys() == KINDS.keys()
