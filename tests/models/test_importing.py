"""A model made by plain torchvision code becomes the old model of an update."""

from __future__ import annotations

from pathlib import Path

import torch
import torchvision

from mptctl.data.split import Split
from mptctl.models.checkpoint import Checkpoint, CheckpointMeta, load_checkpoint, load_model
from mptctl.models.importing import read_class_names, read_foreign_model
from mptctl.recipe import load_recipe
from tests.forked import mptctl_process

SIZE = ("data.image_size=32",)


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
    from mptctl.teachers.ensemble import Teacher

    weights, classes = foreign(tmp_path, 5, ["4", "3", "2", "1", "0"])
    names, recipe = read_class_names(classes), load_recipe("digits", SIZE, {"model.arch": "resnet18"})
    recipe, state, _ = read_foreign_model(weights, names, recipe)
    meta = CheckpointMeta(recipe=recipe, class_names=tuple(names), num_old=5)
    checkpoint = Checkpoint(weights, meta, state, None, "")
    teacher = Teacher(checkpoint, digits.classes.old, recipe.data, torch.device("cpu"), recipe.runtime, "old")
    images = torch.randn(3, 3, 32, 32)
    with torch.no_grad():
        plain = load_model(checkpoint).eval()(images)
    torch.testing.assert_close(teacher(images), plain.flip(1), rtol=1e-4, atol=1e-5)
