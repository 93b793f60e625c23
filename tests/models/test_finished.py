"""The end of a run: told from its folder, from a checkpoint alone, and to who would learn from it."""

from __future__ import annotations

import shutil
from pathlib import Path

from mptctl.data.split import Split, load_split
from mptctl.models.checkpoint import load_checkpoint, save_checkpoint
from mptctl.models.finished import Unfinished, describe_unfinished
from mptctl.training.request import RunRequest
from tests.common import Train, short_recipe, train_until_killed


def state(path: Path) -> Unfinished | None:
    return describe_unfinished(path, load_checkpoint(path).meta)


def killed_run(root: Path) -> Path:
    """A run that was killed after the first of its two epochs."""
    request = RunRequest(short_recipe(), load_split(root), root / "killed")
    train_until_killed(request, "checkpoint", 12)
    return root / "killed"


def test_a_killed_run_is_unfinished_wherever_it_is_named_from_until_it_is_resumed(
    run: Train, digits: Split, tmp_path: Path
) -> None:
    folder = killed_run(digits.run_root)
    for name in ("best.pt", "last.pt"):
        assert state(folder / name) == Unfinished(
            True, f"{folder / name}: its run is not finished (epoch 1 of 2, stopped at step 12 of 24)"
        )
    link = tmp_path / "link.pt"
    link.symlink_to(folder / "best.pt")
    found = state(link)
    assert found is not None
    assert found.certain
    alone = Path(shutil.copy(folder / "best.pt", tmp_path / "alone.pt"))
    found = state(alone)
    assert found is not None
    assert not found.certain
    assert "saved after epoch 1 of 2" in found.sentence

    old, _ = run(short_recipe(**{"runtime.seed": 6}), "old", only_old_classes=True)
    teachers = {"old": old.run.best, "refs": (folder / "best.pt",)}
    recipe = short_recipe(method="mpt-kl", **{"runtime.seed": 5})
    _, log = run(recipe, "taught", **teachers)
    told = [note for note in log.notes if note.startswith("warning")]
    assert len(told) == 1
    assert "killed/best.pt: its run is not finished (epoch 1 of 2, stopped at step 12 of 24)" in told[0]

    run(short_recipe(), "killed", resume=True)
    assert [state(folder / f"{name}.pt") for name in ("best", "last", "previous")] == [None] * 3
    _, log = run(recipe, "taught again", **teachers)
    assert not any(note.startswith("warning") for note in log.notes)


def test_a_run_that_ends_by_its_steps_is_finished(run: Train, tmp_path: Path) -> None:
    done, _ = run(short_recipe("optim.max_steps=5"))
    alone = Path(shutil.copy(done.run.last, tmp_path / "alone.pt"))
    assert (state(done.run.best), state(alone)) == (None, None)


def test_a_checkpoint_alone_says_what_it_can(run: Train, tmp_path: Path) -> None:
    done, _ = run(short_recipe())
    known = load_checkpoint(done.run.last)

    def saved(**changes: object) -> Unfinished | None:
        path = tmp_path / "alone.pt"
        save_checkpoint(path, known.meta.model_copy(update=changes), known.model)
        return state(path)

    assert saved() is None
    assert saved(origin="imported", epoch=0, global_step=0) is None
    assert saved(epoch=1, origin="imported") is None
    middle = saved(epoch=1, step_in_epoch=3, global_step=15)
    assert middle is not None
    assert middle.certain
    assert "in epoch 2 of 2" in middle.sentence


def test_a_file_that_only_lies_in_a_finished_run_is_not_vouched_for(run: Train) -> None:
    done, _ = run(short_recipe())
    known = load_checkpoint(done.run.last)
    stranger = done.run.path / "stranger.pt"
    save_checkpoint(stranger, known.meta.model_copy(update={"epoch": 1, "global_step": 12}), known.model)
    found = state(stranger)
    assert found is not None
    assert not found.certain
