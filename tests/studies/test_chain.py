"""Chains of updates: new, lasting and healed flips by hand, and what keeps runs from being one chain."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from mptctl.errors import CheckpointError
from mptctl.evaluation.statistics import rate
from mptctl.files import write_atomically
from mptctl.studies.answers_file import write_answers
from mptctl.studies.chain import follow_flips, report_chains
from mptctl.studies.run_folders import runs_of_chain
from tests.studies.made_runs import made_part, made_run

# Ten test samples of six classes, of which generation 0 knows three and generation 1 four; generation 1 is not tested
# on the last two.
LABEL = np.array([0, 0, 1, 1, 2, 2, 3, 3, 4, 5])
TESTED = 8
# Right answers, sample by sample.
FIRST = [1, 1, 1, 1, 1, 0]
SECOND = [1, 0, 0, 1, 1, 1, 1, 1]
THIRD = [0, 0, 1, 1, 1, 0, 0, 1, 1, 0]
COUNTS = {"new": (2, 1), "lasting": (0, 1), "healed": (0, 1), "flips_first": (2, 2), "flips_before": (2, 3)}


def logits(right: list[int], known: int) -> NDArray[np.float64]:
    """Logits over the known classes whose answer is the label where it is to be right, else the class after it."""
    label = LABEL[: len(right)]
    answers = np.where(np.array(right, dtype=bool), label, (label + 1) % known)
    return np.eye(known)[answers]


def made_chain(root: Path, first: list[int] = FIRST) -> Path:
    """Three generations in the folders of a study, one method."""
    # Of a class that generation 0 does not know all its answers are wrong.
    rest = np.zeros((2, 3))
    old = made_part(LABEL[:TESTED], np.vstack([logits(first, 3), rest]), 3)
    second = made_part(LABEL[:TESTED], logits(SECOND, 4), 3)
    third = made_part(LABEL, logits(THIRD, 6), 4)
    stage = root / "1" / "1"
    made_run(stage / "old", "no-treatment", 1, old, old, old=None, num_known=3, classes=4)
    made_run(stage / "ref", "no-treatment", 1, second, second, old=None, num_known=4, classes=4)
    made_run(stage / "mpt-kl", "mpt-kl", 1, second, second, num_known=4, classes=4)
    last = root / "1" / "2" / "mpt-kl"
    answers = made_run(last, "mpt-kl", 1, third, third, num_known=6, num_old=4, fingerprint="split-2")
    # Both are called alike; the digest of the last one is its own.
    head = answers.head.model_copy(update={"digest": "last", "teachers": {"old": "mpt-kl-1"}})
    write_answers(type(answers)(last, answers.recipe, head, answers.val, answers.test))
    return root


def test_flips_are_new_lasting_or_healed_by_hand() -> None:
    right = [np.array(row, dtype=bool) for row in (
        [1, 1, 1, 1, 1, 1, 0, 0],
        [1, 0, 0, 0, 1, 1, 0, 1],
        [0, 0, 0, 1, 1, 1, 1, 0],
        [0, 0, 1, 0, 1, 0, 0, 0],
    )]  # fmt: skip
    flips = follow_flips(right)
    assert flips[0] == (3, 0, 0)
    assert flips[1] == (1, 2, 1)
    # The fourth sample is broken, healed, and broken again: new once more.
    assert flips[2] == (2, 2, 1)
    for before, now in pairwise(flips):
        assert before.new + before.lasting == now.lasting + now.healed


def test_each_update_is_held_against_the_one_before_and_the_first(tmp_path: Path) -> None:
    report = report_chains(runs_of_chain(made_chain(tmp_path)))
    (first,) = report.first
    assert (first.seed, first.classes, first.er_all) == (1, 3, rate(1, 6))
    assert [(row.name, row.method, row.generation, row.classes) for row in report.rows] == [
        ("mpt-kl", "mpt-kl", 1, 4), ("mpt-kl", "mpt-kl", 2, 6),
    ]  # fmt: skip
    assert [row.er_all for row in report.rows] == [rate(2, 8), rate(5, 10)]
    samples = {"flips_before": (6, 8)}
    for name, counts in COUNTS.items():
        of = samples.get(name, (6, 6))
        assert [getattr(row, name) for row in report.rows] == [*map(rate, counts, of)], name
    assert report.notes == []


def test_a_first_model_that_is_never_right_has_no_flips(tmp_path: Path) -> None:
    report = report_chains(runs_of_chain(made_chain(tmp_path, [0] * 6)))
    assert {row.flips_first.count for row in report.rows} == {0}
    assert report.rows[1].flips_before.count == 3


def test_an_update_whose_old_model_is_not_there_is_named(tmp_path: Path) -> None:
    root = made_chain(tmp_path)
    with pytest.raises(
        CheckpointError, match=r"2/mpt-kl: left out: its old model \(mpt-kl-1\) is not among these runs"
    ):
        report_chains(runs_of_chain(root / "1" / "2"))
    with pytest.raises(CheckpointError, match="no update among these runs"):
        report_chains([root / "1" / "1" / "old"])


def test_an_update_whose_old_model_was_overwritten_leaves_the_other_chains(tmp_path: Path) -> None:
    root = made_chain(tmp_path / "whole")
    rows = report_chains(runs_of_chain(root)).rows
    part = made_part(LABEL[:TESTED], logits(SECOND, 4), 3)
    lost = made_run(tmp_path / "lost", "no-treatment", 1, part, part, old="gone", num_known=4, classes=4)
    report = report_chains([*runs_of_chain(root), lost.folder])
    assert report.rows == rows
    said = "its old model (gone-1) is not among these runs; name a folder that holds it too"
    assert report.notes == [f"{lost.folder}: left out: {said}"]


def test_generations_of_other_pictures_are_refused(tmp_path: Path) -> None:
    root = made_chain(tmp_path)
    first = root / "1" / "1" / "old"
    elsewhere = made_part(LABEL[:6], logits(FIRST, 3), 3, first_row=2)
    answers = made_run(
        tmp_path / "other", "no-treatment", 1, elsewhere, elsewhere, old=None, num_known=3, classes=4
    )
    head = answers.head.model_copy(update={"digest": "old-1"})
    write_answers(type(answers)(first, answers.recipe, head, answers.val, answers.test))
    with pytest.raises(CheckpointError, match=r"1/mpt-kl: was asked of other test pictures than .*1/old"):
        report_chains(runs_of_chain(root / "1"))


def test_a_run_that_is_not_finished_is_left_out_and_named(tmp_path: Path) -> None:
    root = made_chain(tmp_path)
    line = b'{"event":"epoch","epoch":1,"step":3}\n'
    write_atomically(root / "1" / "2" / "mpt-kl" / "metrics.jsonl", line)
    report = report_chains(runs_of_chain(root))
    assert [row.generation for row in report.rows] == [1]
    assert len(report.notes) == 1
    assert "2/mpt-kl: left out: its run is not finished (epoch 1)" in report.notes[0]


def test_an_update_of_a_model_that_is_not_finished_says_so(tmp_path: Path) -> None:
    root = made_chain(tmp_path)
    line = b'{"event":"epoch","epoch":1,"step":3}\n'
    write_atomically(root / "1" / "1" / "old" / "metrics.jsonl", line)
    with pytest.raises(
        CheckpointError, match=r"1/old has not come to its end \(its run is not finished \(epoch 1\)\)"
    ):
        report_chains(runs_of_chain(root))
