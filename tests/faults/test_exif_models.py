"""Row 87: import, runs and exported programs say whether a model sees pictures turned by their EXIF rotation."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import nn

from mptctl.data.loading.part import LoadPlan
from mptctl.data.split import make_split
from mptctl.inference.picture_check import Samples, find_better_preparation
from mptctl.recipe import DataRecipe
from tests.common import CPU, CommandLine
from tests.faults.phone_pictures import HEIGHT, exif_of, phone_pictures
from tests.faults.test_exif import as_folder


class TopOrBottom(nn.Module):
    """Answers the second class where the lower half of a picture is brighter than the upper one."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: (B, 3, S, S) -> logits: (B, 2)."""
        upper, lower = (half.mean(dim=(1, 2, 3)) for half in x.chunk(2, dim=2))
        return torch.stack([upper - lower, lower - upper], dim=1)


def half_bright(label: int, *, turned: bool, seed: int) -> Image.Image:
    """A picture whose upper (class 0) or lower half is bright; turned: as a phone on its head stores it."""
    levels_of = np.full((HEIGHT, HEIGHT, 3), 60 + seed % 40, dtype=np.uint8)
    levels_of[HEIGHT // 2 :] += 100
    is_on_head = (label == 0) != turned
    return Image.fromarray(levels_of[::-1] if is_on_head else levels_of)


def samples_of(root: Path, exif: str, *, turned: int) -> Samples:
    """60 validation pictures of each of two classes, of which some a class have a tag to be turned by."""
    for part, count in (("train", 1), ("val", 60)):
        for label, name in enumerate(("a", "b")):
            (root / part / name).mkdir(parents=True)
            for number in range(count):
                is_turned = number < turned
                picture = half_bright(label, turned=is_turned, seed=number)
                picture.save(root / part / name / f"{number:02}.jpg", exif=exif_of(3 if is_turned else 1))
    split = make_split("imagefolder", run_root=root / "runs", data_root=root, val_fraction=0.0)
    data = DataRecipe.model_validate({"image_size": HEIGHT, "exif": exif})
    plan = LoadPlan(split, data, "test", 50, seed=0, train=False, device=CPU)
    return Samples(plan, plan.indices, split.labels[plan.indices])


def test_row_87_import_finds_that_a_model_was_trained_on_turned_pictures(tmp_path: Path) -> None:
    model = TopOrBottom().eval()
    told = samples_of(tmp_path / "told", "apply", turned=12)
    assert find_better_preparation(model, told, any_size=True) is None
    untold = samples_of(tmp_path / "untold", "ignore", turned=12)
    better = find_better_preparation(model, untold, any_size=True)
    assert (better.error_before.count, better.error.count) == (24, 0)
    assert better.flags(untold.plan.data, "rgb") == "--set 'data.exif=\"apply\"'"


def test_row_87_import_finds_that_a_model_was_trained_on_pictures_as_stored(tmp_path: Path) -> None:
    samples = samples_of(tmp_path, "apply", turned=60)
    # All pictures are on their head, so a model that answers the other way round is one of pictures as stored.
    exchange = nn.Linear(2, 2, bias=False)
    with torch.no_grad():
        exchange.weight.copy_(torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
    turned_around = nn.Sequential(TopOrBottom(), exchange).eval()
    better = find_better_preparation(turned_around, samples, any_size=True)
    assert better.flags(samples.plan.data, "rgb") == "--set 'data.exif=\"ignore\"'"


def test_row_87_import_tries_it_only_where_a_picture_is_turned(tmp_path: Path) -> None:
    from mptctl.inference.picture_check import list_other_preparations

    data = DataRecipe.model_validate({"image_size": HEIGHT})
    assert {other.data.exif for other in list_other_preparations(data, [], rotated=False)} == {"ignore"}
    assert {other.data.exif for other in list_other_preparations(data, [], rotated=True)} == {
        "ignore",
        "apply",
    }


def test_row_87_a_run_says_whether_it_turns_pictures_and_so_does_what_is_exported(
    tmp_path: Path, mptctl: CommandLine
) -> None:
    (root,) = as_folder(tmp_path, phone_pictures(), mptctl)
    split = make_split(
        "imagefolder",
        run_root=tmp_path / "runs",
        data_root=Path(str(root)),
        val_fraction=0.2,
        old_fraction=1.0,
    )
    words = ("--run-root", split.run_root, "--recipe", "digits", "--set", "data.image_size=8")
    short = ("--set", "optim.epochs=1", "--set", "optim.batch_size=4", "--set", "runtime.device=cpu")
    planned = mptctl("train-ref", *words, *short, "--set", "data.exif=apply", "--dry-run")
    assert " ".join(planned.stdout.split()).count("EXIF rotation applied, shorter side to 8 pixels") == 2
    done = mptctl("train-ref", *words, *short, "--set", "data.exif=apply")
    assert done.returncode == 0, done.stderr
    out = tmp_path / "model.safetensors"
    done = mptctl("export", "ref", *words[:2], "--format", "safetensors", "--out", out)
    assert done.returncode == 0, done.stderr
    described = json.loads(Path(f"{out}.json").read_text(encoding="utf-8"))
    assert described["preprocessing"]["exif"] == "apply"
