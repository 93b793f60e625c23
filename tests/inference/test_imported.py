"""Sentences of `import` on the model that it took in, and its warning."""

from __future__ import annotations

import math
import shutil
from pathlib import Path

import pytest
import torch
from PIL import Image

from mptctl.data.split import Split, make_split
from mptctl.evaluation.statistics import rate
from mptctl.inference.imported import is_at_chance
from mptctl.models.checkpoint import load_checkpoint
from mptctl.models.networks import SMALL_NETS, SmallResNet
from tests.common import CommandLine, Train, short_recipe


def handed_over(folder: Path, state: dict[str, torch.Tensor], names: list[str]) -> tuple[str | Path, ...]:
    """The command line that brings a model in."""
    torch.save(state, folder / "weights.pt")
    (folder / "names.txt").write_text("\n".join(names))
    words = ("--arch", "digits-net", "--class-names", folder / "names.txt", "--name", "in")
    return ("import", folder / "weights.pt", *words, "--set", "runtime.device=cpu")


def grey_pictures(data: Path, classes: dict[str, tuple[int, int]]) -> None:
    """Write training pictures: for each class its grey level, at most 5 brighter, and their number."""
    for name, (grey, count) in classes.items():
        (data / "train" / name).mkdir(parents=True)
        for i in range(count):
            Image.new("RGB", (8, 8), (grey + i % 5,) * 3).save(data / "train" / name / f"{i:02}.png")


def bright_or_dark(classes: int) -> dict[str, torch.Tensor]:
    """Weights of a model that answers one of its first two classes.

    It is the first where the mean of what is above 0 is above 0.3: in levels to 255, always.
    """
    shapes = SmallResNet(classes, *SMALL_NETS["digits-net"]).state_dict()
    state = {name: torch.zeros_like(tensor) for name, tensor in shapes.items()}
    for name, tensor in state.items():
        if name.endswith("running_var") or (tensor.ndim == 1 and name.endswith(".weight")):
            tensor.fill_(1.0)
    state["stem.0.weight"][0, 0, 1, 1] = 1.0
    for stage in (1, 2):
        state[f"stages.{stage}.shortcut.0.weight"][0, 0] = 1.0
    state["fc.weight"][0, 0], state["fc.bias"][0] = 1.0, -0.3
    state["fc.bias"][2:] = -1.0
    return state


def test_import_says_what_it_took_in_and_the_error_that_training_measured(
    run: Train, mptctl: CommandLine, digits: Split, tmp_path: Path
) -> None:
    old, _ = run(short_recipe(), "trained", only_old_classes=True)
    best = load_checkpoint(old.run.best)
    error = best.meta.metrics["val_error"]
    assert error is not None and 0 < error < 0.5, "the case shows nothing"
    held_out = len(digits.indices("val", 5))
    names = list(digits.classes.old)
    done = mptctl(*handed_over(tmp_path, best.model, names), "--run-root", digits.run_root)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{digits.run_root / 'in' / 'best.pt'}\n"
    assert "in: 5 classes" in done.stderr
    mean = " ".join(f"{value:g}" for value in best.meta.recipe.data.mean)
    assert (
        f"pictures: shorter side to 8 pixels (bilinear), centre crop of 8 x 8, mean {mean}, std "
        in done.stderr
    )
    wrong = round(error * held_out)
    assert f"validation error {100 * error:.2f} % ({wrong} of {held_out} pictures" in done.stderr
    assert "warning" not in done.stderr

    # The same model with its classes in another order, and with pictures made in another way.
    again = ("--run-root", digits.run_root, "--overwrite")
    turned = mptctl(*handed_over(tmp_path, best.model, names[1:] + names[:1]), *again)
    assert turned.returncode == 0
    assert "warning: no better than always answering one class" in turned.stderr
    assert "order of its logits" in turned.stderr
    words = handed_over(tmp_path, best.model, names)
    shifted = mptctl(*words, *again, "--set", "data.mean=[90,90,90]")
    assert shifted.returncode == 0
    assert "mean 90 90 90" in shifted.stderr
    assert "warning: pictures are most likely not prepared as this model was trained" in shifted.stderr
    assert "--set 'data.mean=[" in shifted.stderr

    # Pictures of the wrong size, and what the warning advises.
    large = mptctl(*words, *again, "--set", "data.image_size=32")
    assert large.returncode == 0
    assert "% (" in large.stderr
    assert "with --size 8; import it again with that" in large.stderr
    advised = mptctl(
        *words, *again, "--recipe", "imagenet", "--size", "8",
        "--set", "data.mean=[0.5,0.5,0.5]", "--set", "data.std=[0.5,0.5,0.5]",
    )  # fmt: skip
    assert f"validation error {100 * error:.2f} % ({wrong} of {held_out} pictures" in advised.stderr


def test_without_a_validation_part_or_a_split_it_says_so(mptctl: CommandLine, tmp_path: Path) -> None:
    make_split("digits", run_root=tmp_path / "runs", val_fraction=0.0)
    words = handed_over(
        tmp_path, SmallResNet(5, *SMALL_NETS["digits-net"]).state_dict(), ["0", "1", "2", "3", "4"]
    )
    done = mptctl(*words, "--run-root", tmp_path / "runs")
    assert done.returncode == 0, done.stderr
    assert "in: not validated: the split holds out no picture of these classes" in done.stderr
    done = mptctl(*words, "--run-root", tmp_path / "none", "--recipe", "digits")
    assert done.returncode == 0, done.stderr
    assert "in: not validated: no split.json" in done.stderr
    assert load_checkpoint(tmp_path / "none" / "in" / "best.pt").meta.num_old == 5


@pytest.mark.parametrize(
    ("where", "bias", "recipe", "said"),
    [
        ("split", math.inf, (), "fc.bias: NaN or infinite numbers"),
        ("none", math.nan, ("--recipe", "digits"), "fc.bias: NaN or infinite numbers"),
        ("split", 3e38, (), "rows of logits are not finite"),
    ],
)
def test_numbers_that_are_not_finite_are_refused_with_and_without_a_split(
    where: str, bias: float, recipe: tuple[str, ...], said: str, mptctl: CommandLine, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    grey_pictures(data, {"bright": (240, 5), "dark": (20, 5)})
    make_split(
        "imagefolder", run_root=tmp_path / "split", data_root=data, val_fraction=0.5, test_fraction=0.2
    )
    state = bright_or_dark(2)
    state["fc.weight"][0, 0], state["fc.bias"][0] = 3e38, bias
    words = ("--run-root", tmp_path / where, *recipe, "--set", "data.image_size=8")
    done = mptctl(*handed_over(tmp_path, state, ["bright", "dark"]), *words)
    assert (done.returncode, done.stdout) == (6, "")
    assert said in done.stderr
    assert not (tmp_path / where / "in").exists()


def test_the_test_part_and_classes_behind_the_last_known_one_are_not_read(
    mptctl: CommandLine, tmp_path: Path
) -> None:
    data, runs = tmp_path / "data", tmp_path / "runs"
    grey_pictures(data, {"a": (0, 10), "b": (250, 10)})
    shutil.copytree(data / "train", data / "val")
    make_split("imagefolder", run_root=runs, data_root=data, val_fraction=0.2)
    shutil.rmtree(data / "val")

    def taken(*names: str) -> str:
        weights = SmallResNet(len(names), *SMALL_NETS["digits-net"]).state_dict()
        # The loader reads what it is asked for alone.
        keys = ("--recipe", "digits", "--set", "data.loader=threaded", "--run-root", runs, "--overwrite")
        done = mptctl(*handed_over(tmp_path, weights, [*names]), *keys)
        assert done.returncode == 0, done.stderr
        return done.stderr

    assert "of 4 pictures of the classes that it knows" in taken("b", "a")
    shutil.rmtree(data / "train" / "b")
    assert "of 2 pictures of the classes that it knows" in taken("a")
    # A validation picture that is gone keeps no model out.
    shutil.rmtree(data / "train")
    said = taken("b", "a")
    assert "in: not validated: " in said
    assert "gone since split" in said


def test_few_pictures_are_not_taken_for_a_model_at_chance(mptctl: CommandLine, tmp_path: Path) -> None:
    # Of five validation pictures one is wrong: dim is taken for bright.
    data = tmp_path / "data"
    grey_pictures(data, {"bright": (240, 5), "dark": (20, 5), "dim": (240, 3)})
    make_split("imagefolder", run_root=tmp_path, data_root=data, val_fraction=0.5, test_fraction=0.2)
    words = handed_over(tmp_path, bright_or_dark(3), ["bright", "dark", "dim"])
    done = mptctl(*words, "--recipe", "digits", "--run-root", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "validation error 20.00 % (1 of 5 pictures" in done.stderr
    assert (
        "warning: not shown to be better than always answering one class, which errs on 60.00 %: "
        "too few validation pictures" in done.stderr
    )


@pytest.mark.parametrize(
    ("wrong", "counts", "at_chance"),
    [
        (45, [50, 50], True),  # upper end 0.548, one answer 0.5
        (30, [50, 50], False),  # upper end 0.396
        (100, [50, 50], True),
        (5, [95, 5], True),  # as often wrong as always the first class
        (0, [95, 5], False),
        (0, [1, 1], False),  # its interval reaches far, but it made no error
        (0, [7], False),
        (3, [7], True),
        (90, [20, 20, 20, 20, 20], True),
        (60, [20, 20, 20, 20, 20], False),  # upper end 0.691, one answer 0.8
    ],
)
def test_chance_level_is_the_error_of_one_answer(wrong: int, counts: list[int], at_chance: bool) -> None:
    assert is_at_chance(rate(wrong, sum(counts)), counts) is at_chance
