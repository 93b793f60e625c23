"""The loop: what a run leaves behind, what it chooses, and what stops it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from mptctl.data.split import Split, load_split, make_split
from mptctl.errors import UsageError
from mptctl.models.checkpoint import load_checkpoint, save_checkpoint
from mptctl.models.metrics_log import read_metrics
from mptctl.models.run_folder import EnvironmentFile
from mptctl.recipe import load_recipe
from mptctl.training.assemble import assemble
from mptctl.training.distributed import ProcessGroup
from mptctl.training.request import RunRequest
from mptctl.training.step import train_step
from mptctl.training.train import train
from tests.common import CPU, Log, Train, assert_same_run, short_recipe, train_until_killed


def weights(path: Path) -> dict[str, torch.Tensor]:
    return load_checkpoint(path).model


def same(one: Path, other: Path) -> bool:
    a, b = weights(one), weights(other)
    return a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)


def test_a_run_leaves_everything_that_explains_it(run: Train, digits: Split) -> None:
    result, log = run(short_recipe("optim.epochs=3"))
    folder = result.run
    names = {p.name for p in folder.path.iterdir()}
    assert names == {
        "best.pt", "last.pt", "previous.pt", "recipe.yaml", "split.json", "metrics.jsonl", "environment.json",
        "tensorboard", digits.file.table,
    }  # fmt: skip
    assert load_recipe(str(folder.recipe)) == short_recipe("optim.epochs=3")
    environment = EnvironmentFile.model_validate_json(folder.environment.read_text())
    assert environment.versions["torch"] == torch.__version__.partition("+")[0]
    last = load_checkpoint(folder.last).meta
    assert (last.epoch, last.global_step, last.class_names) == (3, 36, digits.classes.names)
    assert last.split_fingerprint == digits.fingerprint
    assert result.steps == 36
    assert log.lines == read_metrics(folder.metrics)
    assert [line.event for line in log.lines].count("epoch") == 3


def test_the_best_checkpoint_has_the_lowest_validation_error(run: Train) -> None:
    result, log = run(short_recipe("optim.epochs=6"))
    errors = [line.val_error for line in log.lines if line.event == "epoch"]
    best = load_checkpoint(result.run.best).meta
    assert best.metrics["val_error"] == min(e for e in errors if e is not None) == result.best_error
    # Of equally good epochs, the latest.
    assert best.epoch == len(errors) - errors[::-1].index(best.metrics["val_error"])


def test_without_a_validation_part_best_is_last(tmp_path: Path) -> None:
    split = make_split("digits", run_root=tmp_path, val_fraction=0.0)
    result = train(RunRequest(recipe=short_recipe(), split=split, folder=tmp_path / "run"), Log())
    assert result.best_error is None
    assert same(result.run.best, result.run.last)


def test_the_same_seed_gives_the_same_weights_and_another_seed_others(run: Train) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        run(short_recipe(**{"runtime.seed": seed}), name)
    root = run(short_recipe(), "d")[0].run.path.parent
    assert same(root / "a" / "best.pt", root / "b" / "best.pt")
    assert not same(root / "a" / "best.pt", root / "c" / "best.pt")


def test_the_old_model_knows_old_classes_and_teaches_the_update(run: Train, digits: Split) -> None:
    old, _ = run(short_recipe(), "old", only_old_classes=True)
    ref, _ = run(short_recipe(**{"runtime.seed": 9}), "ref")
    assert load_checkpoint(old.run.best).meta.class_names == digits.classes.old
    assert weights(old.run.best)["fc.weight"].shape[0] == digits.classes.num_old
    update, log = run(short_recipe(method="mpt-kl"), "mpt", old=old.run.best, refs=(ref.run.best,))
    step = next(line for line in log.lines if line.event == "step")
    assert step.terms is not None
    assert set(step.terms) == {"loss", "ce", "fd_old", "fd_ref"}
    assert step.terms["loss"] == pytest.approx(sum(v for k, v in step.terms.items() if k != "loss"), rel=1e-4)
    assert update.validation.nfr is not None
    meta = load_checkpoint(update.run.best).meta
    assert meta.teachers == {
        "old": load_checkpoint(old.run.best).digest, "ref": load_checkpoint(ref.run.best).digest
    }  # fmt: skip


def test_a_teacher_that_began_as_the_run_begins_is_warned_of_but_not_an_imported_one(
    run: Train, digits: Split
) -> None:
    old, _ = run(short_recipe(**{"runtime.seed": 8}), "old", only_old_classes=True)
    ref, _ = run(short_recipe(**{"runtime.seed": 9}), "ref")
    known, imported = load_checkpoint(ref.run.best), digits.run_root / "imported.pt"
    save_checkpoint(imported, known.meta.model_copy(update={"origin": "imported"}), known.model)

    def warnings(seed: int, teacher: Path) -> list[str]:
        recipe = short_recipe("optim.max_steps=1", method="mpt-kl", **{"runtime.seed": seed})
        _, log = run(recipe, f"{teacher.stem} {seed}", old=old.run.best, refs=(teacher,))
        return [note for note in log.notes if note.startswith("warning")]

    assert warnings(9, ref.run.best) == [
        f"warning: {ref.run.best}: began with this run's seed 9, so the two are not independent; "
        "give one of them another --seed"
    ]
    assert warnings(10, ref.run.best) == warnings(9, imported) == []


def test_the_weight_whose_gradient_is_not_finite_is_named(digits: Split) -> None:
    """Clipping would spread it to all gradients before anybody looks."""
    recipe = short_recipe("optim.clip_grad_norm=1.0")
    made = assemble(RunRequest(recipe, digits, digits.run_root / "run"), CPU, ProcessGroup())
    student = made.student
    student.model.get_parameter("fc.weight").register_hook(lambda gradient: gradient * float("nan"))
    before = {name: value.clone() for name, value in student.model.named_parameters()}
    batch = next(iter(made.train.epoch(0)))
    assert torch.isfinite(train_step(student, batch, recipe.optim.lr, len(batch.labels))["loss"])
    failed = student.guard.failed()
    assert failed is not None and failed.what == "the gradient of fc.weight"
    assert all(torch.equal(before[name], value) for name, value in student.model.named_parameters())
    made.train.close()


def test_a_folder_with_a_run_is_touched_by_a_run_alone_that_overwrites_it_and_can_start(run: Train) -> None:
    result, _ = run(short_recipe())
    before = {p.name: os.stat(p).st_mtime_ns for p in result.run.path.iterdir()}
    with pytest.raises(UsageError, match=r"already holds a run.*--resume.*--overwrite.*--name"):
        run(short_recipe())
    with pytest.raises(UsageError, match="batch"):
        run(short_recipe("optim.batch_size=4096"), overwrite=True)
    assert before == {p.name: os.stat(p).st_mtime_ns for p in result.run.path.iterdir()}
    run(short_recipe("optim.lr=0.01"), overwrite=True)
    assert load_recipe(str(result.run.recipe)).optim.lr == 0.01


def test_the_best_checkpoint_is_of_an_epoch_in_which_the_method_is_on(run: Train) -> None:
    """ELODI's teachers, which know nothing here, spoil a model that was better before they joined."""
    old, _ = run(short_recipe("optim.max_steps=1"), "old", only_old_classes=True)
    ref, _ = run(short_recipe("optim.max_steps=1", **{"runtime.seed": 9}), "ref")
    teachers = {"old": old.run.best, "refs": (ref.run.best,)}
    keys = ("optim.epochs=5", "method.elodi_start_epoch=3", "method.elodi_ref=20", "optim.clip_grad_norm=1.0")
    recipe = short_recipe(*keys, method="elodi")
    whole, log = run(recipe, "elodi", **teachers)
    errors = [line.val_error for line in log.lines if line.event == "epoch" and line.val_error is not None]
    assert min(errors[:3]) < min(errors[3:]), "the case shows nothing"
    best = load_checkpoint(whole.run.best).meta
    assert best.epoch > 3
    assert best.metrics["val_error"] == whole.best_error == min(errors[3:])

    split = load_split(whole.run.path.parent)
    killed = RunRequest(recipe, split, split.run_root / "killed", **teachers)  # type: ignore[arg-type]
    train_until_killed(killed, "checkpoint", 2 * whole.steps // 5)
    assert not (killed.folder / "best.pt").exists()
    resumed, _ = run(recipe, "killed", resume=True, **teachers)
    assert_same_run(resumed.run, whole.run)
