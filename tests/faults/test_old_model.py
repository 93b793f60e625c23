"""Rows 80, 81 and 83: an old model from whose right answers nothing follows, as a whole or where a rule looks."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import mptctl as package
from mptctl.data.split import make_split
from mptctl.errors import CheckpointError
from mptctl.inference.named_models import load_predictions
from mptctl.names import Session
from mptctl.release.adjust import adjust
from mptctl.release.requests import AdjustSettings
from tests.common import CommandLine
from tests.evaluation.files import write
from tests.faults.test_gate_rules import write_gate
from tests.inference.test_imported import bright_or_dark, grey_pictures, handed_over

NAMES = np.array(["ant", "bee", "cow", "dog", "emu"])


def write_models(
    folder: Path, truth: np.ndarray, old: np.ndarray, new: np.ndarray, **more: object
) -> list[Path]:
    """Two files of predictions, given as places in `NAMES`; both say their classes."""
    ids = [f"s{i:04d}" for i in range(len(truth))]
    known = {"id": ids, "label": NAMES[truth], "classes": NAMES[: truth.max() + 1]} | more
    return [
        write(folder / f"{name}.npz", **known, pred=NAMES[answers])
        for name, answers in (("old", old), ("new", new))
    ]


def mostly_right(truth: np.ndarray, error: float, seed: int = 0) -> np.ndarray:
    """Answers with an error, whose wrong ones are spread evenly over the other classes."""
    rng = np.random.default_rng(seed)
    classes = truth.max() + 1
    wrong = rng.random(len(truth)) < error
    return np.where(wrong, (truth + rng.integers(1, classes, len(truth))) % classes, truth)


def failed(mptctl: CommandLine, *words: object) -> dict[str, object]:
    """The JSON of a comparison whose gate fails."""
    done = mptctl("evaluate", *words, "--json")
    assert done.returncode == 3, (done.returncode, done.stderr)
    return dict(json.loads(done.stdout))


def old_by_chance(kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Labels, and answers of an old model that are right by no more than chance.

    rolled: the columns of the head are moved by one, and one answer is right by luck.
    constant: always the most frequent class, which has 60 of 100 samples.
    two: two classes, of which 52 of 200 are right.
    """
    if kind == "rolled":
        truth = np.arange(452) % 5
        return truth, np.where(np.arange(452) == 7, truth, (truth + 1) % 5)
    if kind == "constant":
        return np.repeat([0, 1, 2], [60, 30, 10]), np.zeros(100, dtype=np.int64)
    truth = np.arange(200) % 2
    return truth, np.where(np.arange(200) < 52, truth, 1 - truth)


@pytest.mark.parametrize("kind", ["rolled", "constant", "two"])
def test_row_80_an_old_model_that_is_right_by_chance_fails_any_limit(
    tmp_path: Path, mptctl: CommandLine, kind: str
) -> None:
    truth, old = old_by_chance(kind)
    files = write_models(tmp_path, truth, old, mostly_right(truth, 0.05))
    gate = write_gate(tmp_path, "must_keep: {by: {class: ant}}")
    for limit in (("--max-nfr", "50"), ("--max-er-increase", "50"), ("--gate", gate)):
        report = failed(mptctl, *files, *limit)
        assert "old-by-chance" in report["gate"]["failed"]
        [said] = [check["message"] for check in report["gate"]["checks"] if check["name"] == "old-by-chance"]
        assert f"right on {(truth == old).sum()} of {len(truth)} samples" in said
        assert "kappa" in said
        assert "preprocessing" in said
    with pytest.warns(match="kappa"):  # Python says the same
        report = package.evaluate(NAMES[truth], old=NAMES[old], new=NAMES[truth], old_classes="all")
    gate = report.gate(max_nfr=0.9)
    assert (gate.passed, gate.failed[0]) == (False, "old-by-chance")


@pytest.mark.parametrize(
    ("truth", "old"),
    [
        ([0, 0, 1, 1], [0, 0, 0, 1]),  # four samples, kappa 0.5
        ([0] * 9, [0] * 1 + [1] * 8),  # one class: kappa says nothing, and the model is right once
        ([0] * 50 + [1] * 50, [0] * 70 + [1] * 30),
    ],
)
def test_row_80_an_old_model_that_is_better_than_chance_passes(
    tmp_path: Path, mptctl: CommandLine, truth: list[int], old: list[int]
) -> None:
    files = write_models(tmp_path, np.array(truth), np.array(old), np.array(truth), classes=NAMES[:2])
    mptctl.must("evaluate", *files, "--max-nfr", "50")


@pytest.mark.parametrize("answer", ["constant", "never"])
def test_row_80_adjust_refuses_such_an_old_model(runs: Path, tmp_path: Path, answer: str) -> None:
    model = load_predictions({"model": "old"}, Session(runs), part="val").models["model"]
    wrong = {
        "constant": np.repeat(model.classes[:1], len(model)),
        "never": np.where(model.labels == "0", "1", "0"),
    }
    old = write(
        tmp_path / "old.npz", id=model.ids, label=model.labels, pred=wrong[answer], classes=model.classes
    )
    request = AdjustSettings(new="new", old=str(old), max_nfr=90)
    with pytest.raises(CheckpointError, match="kappa" if answer == "constant" else "is wrong on all"):
        adjust(request, Session(runs))
    assert not (runs / "new-adjusted").exists()


@pytest.mark.parametrize(
    ("exchanged", "said"),
    [
        ([0, 3, 2, 1, 4], "bee is called dog, dog is called bee"),
        ([0, 2, 4, 3, 1], "bee is called cow, cow is called emu, emu is called bee"),
    ],
)
def test_row_81_exchanged_names_of_classes_fail_the_gate(
    tmp_path: Path, mptctl: CommandLine, exchanged: list[int], said: str
) -> None:
    """40 samples a class, of which OLD gets 85 % right under its right names."""
    truth = np.arange(200) % 5
    old = np.array(exchanged)[mostly_right(truth, 0.15)]
    files = write_models(tmp_path, truth, old, mostly_right(truth, 0.1, seed=1))
    report = failed(mptctl, *files, "--max-nfr", "20")
    [message] = [
        check["message"] for check in report["gate"]["checks"] if check["name"] == "old-names-exchanged"
    ]
    assert said in message
    assert any(said in warning for warning in report["warnings"])
    # Without a limit it is said, and nothing fails.
    done = mptctl.must("evaluate", *files, "--json")
    assert any(said in warning for warning in json.loads(done.stdout)["warnings"])


def test_row_81_names_that_are_right_pass(tmp_path: Path, mptctl: CommandLine) -> None:
    """Two classes are hard to tell apart, and one is nearly always taken for the other; no names are exchanged."""
    truth = np.arange(200) % 5
    old = mostly_right(truth, 0.15)
    old[truth == 1] = np.where(np.arange(40) < 36, 3, 1)
    files = write_models(tmp_path, truth, old, mostly_right(truth, 0.1, seed=1))
    mptctl.must("evaluate", *files, "--max-nfr", "20")
    # A class on which OLD is never right is said.
    old = np.where(truth == 2, 4, mostly_right(truth, 0.1))
    done = mptctl.must("evaluate", *write_models(tmp_path, truth, old, truth), "--max-nfr", "20", "--json")
    assert any("never right on 1 class (cow)" in warning for warning in json.loads(done.stdout)["warnings"])


def test_row_81_import_says_which_names_are_exchanged(tmp_path: Path, mptctl: CommandLine) -> None:
    """A network that tells dark pictures from bright ones, whose list of names has the two exchanged."""
    grey_pictures(tmp_path / "data", {"dark": (20, 60), "bright": (240, 60)})
    places = {"run_root": tmp_path / "runs", "data_root": tmp_path / "data"}
    make_split("imagefolder", **places, val_fraction=0.5, test_fraction=0.2)
    words = ("--recipe", "digits", "--run-root", tmp_path / "runs", "--overwrite")
    done = mptctl.must(*handed_over(tmp_path, bright_or_dark(2), ["dark", "bright"]), *words)
    [line] = [line for line in done.stderr.splitlines() if "exchanged" in line]
    assert line.startswith("in: warning: ")
    assert "dark is called bright, bright is called dark" in line
    assert "validation error 100.00 %" in done.stderr
    assert "warning: no better than always answering one class" in done.stderr
    right = mptctl(*handed_over(tmp_path, bright_or_dark(2), ["bright", "dark"]), *words).stderr
    assert ("validation error 0.00 %" in right, "warning" in right) == (True, False)


SLICES = "slices: [{by: {country: de}, max_nfr: 50}]"


def write_countries(folder: Path, right_in_de: int, of: int) -> list[Path]:
    """200 samples of five classes, of which OLD is right on all but some of country de."""
    truth = np.arange(200) % 5
    in_de = np.arange(200) < of
    old = np.where(in_de & (np.arange(200) >= right_in_de), (truth + 1) % 5, truth)
    return write_models(folder, truth, old, truth, country=np.where(in_de, "de", "fr"))


@pytest.mark.parametrize(
    ("right", "of", "name"),
    [
        (0, 3, "old-never-right"),
        (0, 40, "old-never-right"),
        (1, 40, "old-by-chance"),
        (1, 20, "old-by-chance"),
    ],
)
def test_row_83_a_slice_in_which_old_is_never_right_fails(
    tmp_path: Path, mptctl: CommandLine, right: int, of: int, name: str
) -> None:
    report = failed(mptctl, *write_countries(tmp_path, right, of), "--gate", write_gate(tmp_path, SLICES))
    assert report["gate"]["failed"] == [f"{name} of country=de"]
    assert "country=de" in next(c["message"] for c in report["gate"]["checks"] if not c["passed"])


@pytest.mark.parametrize(("right", "of"), [(30, 40), (1, 2), (3, 8)])
def test_row_83_a_slice_in_which_old_errs_by_bad_luck_passes(
    tmp_path: Path, mptctl: CommandLine, right: int, of: int
) -> None:
    files = write_countries(tmp_path, right, of)
    mptctl.must("evaluate", *files, "--gate", write_gate(tmp_path, SLICES))


def test_row_83_a_slice_that_is_mostly_of_one_class_passes(tmp_path: Path, mptctl: CommandLine) -> None:
    """In it 98 of 100 are right, though kappa is below 0: one bee is called ant, and one ant bee."""
    truth = np.concatenate([np.zeros(99, dtype=np.int64), [1], np.arange(100) % 5])
    old = truth.copy()
    old[[0, 99]] = [1, 0]
    country = np.where(np.arange(200) < 100, "de", "fr")
    files = write_models(tmp_path, truth, old, truth, country=country)
    mptctl.must("evaluate", *files, "--gate", write_gate(tmp_path, SLICES))


@pytest.mark.parametrize("rule", ["by", "file", "ids"])
def test_row_83_each_rule_of_must_keep_protects_something(
    tmp_path: Path, mptctl: CommandLine, rule: str
) -> None:
    """The 40 samples of country de, and s0000 among them, are all wrong; s0199 is right and beside them."""
    files = write_countries(tmp_path, 0, 40)
    (tmp_path / "bad.txt").write_text("s0000\ns0001\n")
    (tmp_path / "good.txt").write_text("s0199\n")
    rules = {
        "by": "ids: [s0199], by: {country: de}",
        "file": "ids: [s0199], file: bad.txt",
        "ids": "ids: [s0000], file: good.txt",
    }
    report = failed(mptctl, *files, "--gate", write_gate(tmp_path, f"must_keep: {{{rules[rule]}}}"))
    assert report["gate"]["failed"] == ["must-keep"]
    [check] = report["gate"]["checks"]
    named = {"by": "country=de", "file": "must_keep.file", "ids": "must_keep.ids"}[rule]
    assert named in check["message"]
    assert "OLD is wrong on all" in check["message"]
