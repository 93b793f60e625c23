"""The answers of a run: exact through the file, small, and asked anew where the checkpoint is another one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mptctl.data.split import Split
from mptctl.errors import CheckpointError
from mptctl.inference.predict import predict
from mptctl.models.checkpoint import load_checkpoint
from mptctl.names import Part
from mptctl.studies.answers import run_answers
from mptctl.studies.answers_file import ANSWERS_NAME, PartAnswers, read_answers
from tests.common import Train, short_recipe
from tests.studies.made_runs import made_part, made_run


def test_answers_are_those_of_the_checkpoint_also_once_they_are_read_again(run: Train, digits: Split) -> None:
    result, _ = run(short_recipe())
    folder = result.run.path
    asked = run_answers(folder)
    assert (folder / ANSWERS_NAME).is_file()
    read = run_answers(folder)
    names = np.array(digits.classes.names)
    checkpoint = load_checkpoint(folder / "best.pt")
    parts: tuple[Part, ...] = ("val", "test")
    for part in parts:
        found = predict({"run": checkpoint}, digits, part=part)["run"]
        assert found.logits is not None
        for answers in (getattr(asked, part), getattr(read, part)):
            assert (digits.ids(answers.index.astype(np.int64)) == found.ids).all()
            assert (names[answers.label] == found.labels).all()
            assert (names[answers.answers()] == found.preds).all()
            top = found.logits - found.logits.max(axis=1, keepdims=True)
            np.testing.assert_allclose(answers.confidence, 1 / np.exp(top).sum(axis=1), atol=2**-11)
            # With a bias, but where the gap is within rounding of it.
            biased = found.logits.astype(np.float64)
            biased[:, digits.classes.num_old :] -= 0.7
            clear = np.abs(answers.gap.astype(np.float64) - 0.7) > 1e-3
            assert clear.mean() > 0.9
            assert (answers.answers(0.7) == biased.argmax(axis=1))[clear].all()
    assert read.head == asked.head


def test_a_trained_anew_checkpoint_is_asked_anew(run: Train) -> None:
    folder = run(short_recipe("optim.max_steps=3"))[0].run.path
    first = run_answers(folder)
    run(short_recipe("optim.max_steps=6"), overwrite=True)
    second = run_answers(folder)
    assert second.head.digest != first.head.digest
    assert second.head.digest == load_checkpoint(folder / "best.pt").digest
    assert [each.head.work.pictures for each in (first, second)] == [
        steps * second.recipe.optim.batch_size for steps in (3, 6)
    ]


def test_damaged_answers_are_asked_anew_or_named(run: Train, tmp_path: Path) -> None:
    folder = run(short_recipe("optim.max_steps=3"))[0].run.path
    whole = run_answers(folder)
    content = (folder / ANSWERS_NAME).read_bytes()
    (folder / ANSWERS_NAME).write_bytes(content[: len(content) // 2])
    assert (run_answers(folder).test.answers() == whole.test.answers()).all()
    assert (folder / ANSWERS_NAME).read_bytes() == content
    (folder / ANSWERS_NAME).write_bytes(content[: len(content) // 2])
    (folder / "best.pt").unlink()
    with pytest.raises(CheckpointError, match=r"answers\.npz: not to be read"):
        run_answers(folder)
    with pytest.raises(CheckpointError, match="no run"):
        run_answers(tmp_path)


def test_of_near_ties_the_answer_is_kept_whatever_the_rounding() -> None:
    label = np.zeros(5, dtype=np.int64)
    logits = np.full((5, 6), -9.0)
    # Old class 0 and new class 3: a tie, one that is only just new, only just old, far new, far old.
    logits[:, 0], logits[:, 3] = 8.0, 8.0 + np.array([0.0, 1e-9, -1e-9, 1e9, -1e9])
    assert made_part(label, logits).answers().tolist() == [0, 3, 0, 3, 0]
    assert made_part(label, logits).answers().tolist() == logits.argmax(axis=1).tolist()
    old = made_part(label, logits[:, :3])
    assert (old.gap == -np.inf).all()
    assert old.answers(-1e9).tolist() == [0] * 5


def test_answers_of_ten_thousand_samples_take_less_than_150_kb(tmp_path: Path) -> None:
    # The worst case: labels, answers and logits of which none says anything of another.
    rng = np.random.default_rng(0)

    def part(n: int, rows: np.ndarray) -> PartAnswers:
        made = made_part(rng.integers(100, size=n), rng.normal(size=(n, 100)) * 4, 50)
        return PartAnswers(**made.__dict__ | {"index": rows.astype(np.int32)})

    held_out = np.sort(rng.choice(50_000, 5_000, replace=False))
    made = made_run(
        tmp_path / "run", "mpt-kl", 1, part(10_000, np.arange(50_000, 60_000)), part(5_000, held_out),
        classes=100,
    )  # fmt: skip
    assert (tmp_path / "run" / ANSWERS_NAME).stat().st_size < 150_000
    read = read_answers(tmp_path / "run")
    assert read is not None
    for name in ("val", "test"):
        for key, array in getattr(made, name).__dict__.items():
            np.testing.assert_array_equal(getattr(getattr(read, name), key), array)
