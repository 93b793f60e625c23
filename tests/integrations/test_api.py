"""Functions of `import mptctl`: what they take, what they refuse, and their numbers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mptctl
from mptctl.errors import ComparisonWarning, DataError, NonFiniteError, UsageError
from tests.common import CommandLine, environment
from tests.integrations.small_arrays import LABELS, NEW, OLD, OLD_CLASSES, by_hand, evaluate_arrays, large


def test_importing_is_light_and_so_is_comparing() -> None:
    # Not pyarrow, through which DuckDB reads arrays, nor pandas, which that imports where it is installed.
    heavy = [
        "torch",
        "torchvision",
        "jax",
        "polars",
        "matplotlib",
        "rich",
        "ray",
        "lightning",
        "transformers",
        "timm",
    ]
    script = (
        "import sys, mptctl\n"
        "print([m for m in ('numpy', 'pydantic', 'scipy', 'pyarrow', 'duckdb', *heavy) if m in sys.modules])\n"
        f"report = mptctl.evaluate({LABELS}, old={OLD}, new={NEW}, old_classes={OLD_CLASSES})\n"
        "print(report.nfr, report.gate(max_nfr=0.3).passed, [m for m in heavy if m in sys.modules])\n"
        "from mptctl.integrations import FlipMonitor\n"
        "FlipMonitor([0, 1], [0, 1])([0, 0])\n"
        "print([m for m in heavy if m in sys.modules])\n"
    )
    words = [sys.executable, "-c", f"heavy = {heavy!r}\n{script}"]
    out = subprocess.run(words, capture_output=True, text=True, env=environment(), check=False)
    assert out.stdout.splitlines() == [
        "[]",
        "0.25 True []",
        "NFR 50.00 % (1 / 2, 95 % interval 1.26 to 98.74 %), error 50.00 % (1 / 2)",
        "[]",
    ], out.stderr


def test_the_names_of_the_package() -> None:
    assert {"evaluate", "load", "runs", "Report", "__version__"} <= set(dir(mptctl))
    with pytest.raises(AttributeError, match="no attribute 'evalute'"):
        _ = mptctl.evalute  # type: ignore[attr-defined]


def test_numbers_are_those_of_files_of_the_same_content(mptctl: CommandLine, tmp_path: Path) -> None:
    """All of them, down to the last bit: only the names of the two models differ."""
    content = large()
    ids = np.array([f"picture {i}" for i in range(300)])
    for role in ("old", "new"):
        columns = {"id": ids, "label": content["labels"], "logits": content[role].astype(np.float64)}
        np.savez(tmp_path / f"{role}.npz", **columns)
    out = mptctl.must("evaluate", tmp_path / "old.npz", tmp_path / "new.npz", "--json")
    told = json.loads(out.stdout.replace(f"{tmp_path}/old.npz", "old").replace(f"{tmp_path}/new.npz", "new"))
    found = evaluate_arrays(ids=ids, **content).model_dump()
    assert found == told
    assert found["counts"]["negative_flips"] > 10


def test_names_of_the_logits_columns() -> None:
    """Columns are named by `classes` for the new model, and by `old_classes` for the old one."""
    old, new = np.eye(2)[[0, 0, 1, 0, 1]], np.eye(3)[[0, 1, 1, 1, 2]]
    named = {"classes": ["cat", "dog", "emu"], "old_classes": OLD_CLASSES}
    report = mptctl.evaluate(LABELS, old=old, new=new, **named)
    assert report.counts == by_hand().counts
    assert (report.old.classes, report.new.classes) == (2, 3)
    # Both of all classes: then `old_classes` says only which of them count.
    both = mptctl.evaluate(LABELS, old=new, new=new[::-1].copy(), **named)
    assert (both.n_old, both.old.classes) == (4, 3)


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"confidence": 0.95}, "gate: no limit; give one, such as max_nfr=0.02"),
        ({"max_nfr": 1}, "max_nfr=1: was percent meant? Limits are fractions below 1; 1 % is 0.01"),
        ({"max_nfr": -0.1}, "max_nfr=-0.1: must lie between 0 and 1; rates are fractions, 2 % is 0.02"),
        ({"max_nfr": 0.1, "confidence": "0.95"},
         "confidence='0.95': must be a number, at least 0.5 and below 1, such as 0.95"),
        ({"max_nfr": True}, "gate: max_nfr: input should not be true or false, got True"),
        ({"max_nfr": np.eye(2)}, r"gate: max_nfr: must be a valid number, got array([[1., 0.],\n       [0., 1.]])"),
        ({"max_nfr": 0.1, "allow_identical": "maybe"}, "gate: allow_identical: must be true or false, got 'maybe'"),
    ],
)  # fmt: skip
def test_limits_that_mean_nothing(limits: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as error:
        by_hand().gate(**limits)
    assert str(error.value) == message


TWO = {
    "labels": ["cat", "dog"] * 2 + ["cat"],
    "old": np.eye(2)[[0, 1] * 2 + [0]],
    "new": np.eye(2)[[0, 1] * 2 + [0]],
}


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        ({"new": NEW[:4]}, DataError, "new: 4 rows for 5 labels; give one for each sample"),
        ({"new": np.full((5, 3), np.nan), "classes": ["cat", "dog", "emu"]}, NonFiniteError, "new: 5 of 5 rows"),
        ({"new": None}, UsageError, "evaluate: give labels with old= and new=, or two files or frames"),
        ({"labels": np.array([0.5, 1, 1, 1, 2])}, DataError, "labels: 1 of 5 values"),
        ({"new": np.zeros((5, 3))}, DataError, "new: `logits` with text labels need `classes`"),
        ({"old_classes": ["cat", "cow"]}, DataError, "old_classes: cow not known to either model"),
        ({"old_classes": {"cat", "dog"}}, DataError, "old_classes: a set, which is no array"),
        ({"ids": ["a"]}, DataError, "ids: 1 rows for 5 labels"),
        # Columns that could be named in two ways, or in none.
        (TWO | {"classes": ["cat", "dog"], "old_classes": ["dog", "cat"]}, DataError,
         "old: `classes` and `old_classes` are the same labels in two orders"),
        (TWO | {"old": np.zeros((5, 1)), "classes": ["cat", "dog"], "old_classes": None}, DataError,
         "old: logits of 1 columns, "),
    ],
)  # fmt: skip
def test_what_cannot_be_compared_is_one_line(
    change: dict[str, Any], kind: type[Exception], message: str
) -> None:
    content = {"labels": LABELS, "old": OLD, "new": NEW, "old_classes": OLD_CLASSES} | change
    with pytest.raises(kind) as error:
        evaluate_arrays(**content)
    assert str(error.value).startswith(message)
    assert "\n" not in str(error.value)
    assert "--" not in str(error.value)


def test_names_with_dashes_stay_as_they_are() -> None:
    with pytest.raises(DataError) as error:
        mptctl.evaluate(["cat", "dog"], old=["cat", "dog"], new=["cat", "dog"], ids=["x--y", "x--y"])
    assert "(x--y)" in str(error.value)
    names, answers = ["cat", "other--class 3"], ["cat", "cat"]
    report = mptctl.evaluate(names, old=answers, new=answers, classes=["cat"], old_classes=["cat"])
    assert report.result.warnings[0].endswith("test set: other--class 3")
    report = mptctl.evaluate(names, old=answers, new=answers)
    assert report.result.warnings[0].endswith("give old_classes")


def test_a_warning_speaks_python() -> None:
    with pytest.warns(ComparisonWarning) as warned:
        report = mptctl.evaluate(LABELS, old=OLD, new=NEW)
    assert [str(each.message) for each in warned] == report.warnings
    assert {each.filename for each in warned} == {__file__}
    assert report.warnings == [
        "old does not say which classes it knows: the 2 labels that it predicts count as old, and not emu, "
        "which it never predicts; add `classes` to the file, or give old_classes"
    ]
