"""A model made by plain torchvision code becomes the old model of an update."""

from __future__ import annotations

from pathlib import Path

import torch
import torchvision

from mptctl.data.split import Split
from mptctl.models.checkpoint import load_checkpoint
from mptctl.models.importing import prepare_import, read_class_names
from mptctl.models.run_folder import RunDir
from mptctl.recipe import load_recipe
from mptctl.release.new_run import write_run
from tests.forked import mptctl_process

SIZE = ("data.image_size=32",)


def take_in(weights: Path, classes: Path, folder: Path, split: Split) -> Path:
    """Import a model as the old one of a split."""
    checkpoint = prepare_import(
        weights,
        class_names=read_class_names(classes),
        recipe=load_recipe("digits", SIZE, {"model.arch": "resnet18"}),
        folder=folder,
        classes=split.classes.names,
        num_old=split.classes.num_old,
    )
    write_run(RunDir(folder), "refuse for good", checkpoint.meta, checkpoint.model, None)
    return checkpoint.path


def foreign(folder: Path, num_classes: int, names: list[str]) -> tuple[Path, Path]:
    """The files that somebody without mptctl would have: torchvision's model, its state dict, a list of names."""
    torch.manual_seed(3)
    model = torchvision.models.resnet18(num_classes=num_classes)
    weights, classes = folder / "production.pt", folder / "classes.txt"
    torch.save(model.state_dict(), weights)
    classes.write_text("\n".join(names) + "\n")
    return weights, classes


def test_a_resnet_from_elsewhere_teaches_an_update_and_is_evaluated(tmp_path: Path, digits: Split) -> None:
    """All by the command line, with the old classes in another order than the split's."""
    root = digits.run_root
    weights, classes = foreign(tmp_path, 5, ["4", "3", "2", "1", "0"])
    small = ["--set", "data.image_size=32", "--set", "runtime.threads=1"]
    out = mptctl_process(
        "import", weights, "--arch", "resnet18", "--class-names", classes, "--run-root", root, *small
    )
    assert out.returncode == 0, out.stderr
    meta = load_checkpoint(root / "old" / "best.pt").meta
    assert (meta.origin, meta.class_names, meta.num_old) == ("imported", ("4", "3", "2", "1", "0"), 5)
    out = mptctl_process("train-baseline", "pct-kl", "--run-root", root, *small, "--set", "optim.max_steps=4")
    assert out.returncode == 0, out.stderr
    out = mptctl_process("evaluate", "old", "pct-kl", "--run-root", root, "--json")
    assert out.returncode == 0, out.stderr
    assert '"n_old":' in out.stdout


def test_a_teacher_in_another_class_order_answers_in_the_splits(tmp_path: Path, digits: Split) -> None:
    from mptctl.models.checkpoint import load_model
    from mptctl.teachers.ensemble import Teacher

    weights, classes = foreign(tmp_path, 5, ["4", "3", "2", "1", "0"])
    path = take_in(weights, classes, tmp_path / "old", digits)
    recipe = load_recipe("digits", SIZE)
    checkpoint = load_checkpoint(path)
    teacher = Teacher(checkpoint, digits.classes.old, recipe.data, torch.device("cpu"), recipe.runtime, "old")
    images = torch.randn(3, 3, 32, 32)
    with torch.no_grad():
        plain = load_model(checkpoint).eval()(images)
    torch.testing.assert_close(teacher(images), plain.flip(1), rtol=1e-4, atol=1e-5)
