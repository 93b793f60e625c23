"""Counted work: by hand for one network, and which teachers it counts."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from mptctl.data.split import Split
from mptctl.models.checkpoint import CheckpointMeta, load_checkpoint
from mptctl.recipe import Recipe
from mptctl.studies.answers import run_answers
from mptctl.studies.compare import compare_runs
from mptctl.studies.cost_of_run import count_model
from mptctl.studies.training_cost import count_steps
from tests.common import Train, short_recipe

SHORT = "optim.max_steps=4"


def meta_of(recipe: Recipe, classes: int) -> CheckpointMeta:
    return CheckpointMeta(recipe=recipe, class_names=tuple(map(str, range(classes))), num_old=1)


def test_operations_of_a_network_by_hand() -> None:
    recipe = short_recipe()
    assert (recipe.model.arch, recipe.data.image_size) == ("digits-net", 8)
    parameters, forward, step = count_model(meta_of(recipe, 10))
    # Multiplications and additions: 2 x places x in x out x kernel, of every convolution and of the classifier.
    first = 2 * 64 * 3 * 16 * 9
    blocks = [
        2 * 64 * (16 * 16 * 9 * 2),
        2 * 16 * (16 * 32 * 9 + 32 * 32 * 9 + 16 * 32),
        2 * 4 * (32 * 64 * 9 + 64 * 64 * 9 + 32 * 64),
    ]
    rest = sum(blocks) + 2 * 64 * 10
    assert forward == first + rest
    # Backward each of them twice, for the weights and for what came in; into the pictures nothing flows back.
    assert step == 3 * rest + 2 * first
    convolutions = 3 * 16 * 9 + sum(
        block // 2 // places for block, places in zip(blocks, (64, 16, 4), strict=True)
    )
    norms = 2 * (16 * 3 + 32 * 3 + 64 * 3)
    assert parameters == convolutions + norms + 64 * 10 + 10


def test_a_frozen_body_costs_no_backward_pass() -> None:
    recipe = short_recipe("model.train=head")
    _, forward, step = count_model(meta_of(recipe, 10))
    assert step == forward + 2 * 64 * 10


def test_attention_is_counted() -> None:
    recipe = short_recipe("model.arch=vit_b_32", "data.image_size=32")
    parameters, forward, _ = count_model(meta_of(recipe, 10))
    # Two places (the picture is one patch, and the class token): each layer has 12 x 768^2 weights, used at both.
    assert forward == pytest.approx(2 * 2 * 12 * 12 * 768**2, rel=0.03)
    assert parameters > 12 * 12 * 768**2


def test_teachers_are_counted_where_the_method_asks_them_and_members_each(run: Train, digits: Split) -> None:
    old = run(short_recipe(SHORT, **{"runtime.seed": 9}), "old", only_old_classes=True)[0].run.best
    refs = tuple(
        run(short_recipe(SHORT, **{"runtime.seed": 10 + i}), f"ensemble/{i}")[0].run.best for i in range(3)
    )
    # Counted from 0: the second epoch is the first with teachers.
    elodi = {"method.elodi_start_epoch": 1, "optim.epochs": 3}
    run(short_recipe(method="elodi", **elodi), "elodi", old=old, refs=refs)
    run(short_recipe("optim.epochs=3"), "no-treatment", old=old)
    work = run_answers(digits.run_root / "elodi").head.work
    steps, per_epoch = count_steps(digits.run_root / "elodi")
    assert steps is not None
    assert per_epoch is not None
    assert steps == 3 * per_epoch
    batch = short_recipe().optim.batch_size
    assert work.pictures == steps * batch
    assert work.taught_pictures == (steps - per_epoch) * batch
    member = work.teachers["ref0"]
    assert member is not None
    assert set(work.teachers) == {"old", "ref0", "ref1", "ref2"}
    assert member.training == 4 * batch * work.training_step
    rows = {row.name: row for row in compare_runs([digits.run_root]).rows}
    assert set(rows) == {"no-treatment", "elodi"}
    assert run_answers(digits.run_root / "no-treatment").head.work.teachers == {}
    known = [teacher for teacher in work.teachers.values() if teacher is not None]
    asked = (steps - per_epoch) * sum(teacher.forward for teacher in known)
    expected = 1 + (asked / work.training_step + 3 * 4) / steps
    assert rows["elodi"].cost == pytest.approx(expected, abs=1e-12)


def test_the_reference_that_a_plain_run_begins_with_is_counted_by_its_training(
    run: Train, digits: Split
) -> None:
    old = run(short_recipe(SHORT, **{"runtime.seed": 9}), "old", only_old_classes=True)[0].run.best
    ref = run(short_recipe(SHORT, **{"runtime.seed": 10}), "ref")[0].run.best
    longer = {"optim.max_steps": 6, "method.init": "ref"}
    run(short_recipe(**longer), "no-treatment", old=old, refs=(ref,))
    work = run_answers(digits.run_root / "no-treatment").head.work
    assert work.own is not None
    assert list(work.teachers) == ["ref"]
    assert (work.asked, work.taught) == (0, work.own / 6 * 4)


def test_a_teacher_that_comes_back_is_counted_then(run: Train, digits: Split, tmp_path: Path) -> None:
    old = run(short_recipe(SHORT, **{"runtime.seed": 9}), "old", only_old_classes=True)[0].run
    ref = run(short_recipe(SHORT, **{"runtime.seed": 10}), "ref")[0].run
    folder = run(short_recipe(SHORT, method="mpt-kl"), "mpt-kl", old=old.best, refs=(ref.best,))[0].run.path
    ref.path.rename(tmp_path / "away")
    assert run_answers(folder).head.work.teachers["ref"] is None
    (tmp_path / "away").rename(ref.path)
    assert run_answers(folder).head.work.teachers["ref"] is not None
    assert load_checkpoint(folder / "best.pt").digest == run_answers(folder).head.digest


def test_steps_are_read_from_packed_metrics_too(run: Train) -> None:
    folder = run(short_recipe(SHORT))[0].run
    content = folder.metrics.read_bytes()
    folder.metrics.unlink()
    assert count_steps(folder.path) == (None, None)
    (folder.path / "metrics.jsonl.gz").write_bytes(gzip.compress(content))
    assert count_steps(folder.path) == (4, 4)
