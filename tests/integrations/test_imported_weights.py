"""Weights saved by torchvision, timm and transformers themselves: import measures the error that those have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torchvision
from PIL import Image
from torch import Tensor, nn

from mptctl.data.split import load_split, make_split
from tests.common import CommandLine

timm = pytest.importorskip("timm", reason="timm is not installed (make test-integrations)")
transformers = pytest.importorskip(
    "transformers", reason="transformers is not installed (make test-integrations)"
)
pytest.importorskip("safetensors", reason="safetensors is not installed (make test-integrations)")
# Warnings of other people's libraries are no failures of ours.
pytestmark = pytest.mark.filterwarnings("default")

# Pictures as large as evaluation resizes them: Pillow and torch round differently where they resize.
CLASSES, STORED, SIZE = ("ash", "elm", "fir", "oak"), 36, 32
MEAN, STD = (0.5, 0.4, 0.3), (0.2, 0.3, 0.25)
CONFIG = {"mean": MEAN, "std": STD, "crop_pct": 0.875, "interpolation": "bilinear"}
Saved = Callable[[nn.Module, Path], tuple[Path, tuple[str, ...]]]


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of pictures whose classes differ in colour, and which noise hides."""
    root, random = tmp_path_factory.mktemp("pictures"), np.random.default_rng(5)
    colours = random.uniform(60, 190, (len(CLASSES), 3))
    for part, count in (("train", 60), ("val", 50)):
        for name, colour in zip(CLASSES, colours, strict=True):
            (root / part / name).mkdir(parents=True)
            for number in range(count):
                level = colour + random.normal(0, 30, 3)
                picture = np.clip(level + random.normal(0, 40, (STORED, STORED, 3)), 0, 255).astype(np.uint8)
                Image.fromarray(picture).save(root / part / name / f"{number:02}.png")
    return root


def batch(folder: Path) -> tuple[Tensor, Tensor]:
    """All pictures of a part as timm's own evaluation makes them, and their labels."""
    transform = timm.data.create_transform(input_size=(3, SIZE, SIZE), is_training=False, **CONFIG)
    data = torchvision.datasets.ImageFolder(folder, transform=transform)
    images, labels = zip(*data, strict=True)
    return torch.stack(images), torch.tensor(labels)


def trained(model: nn.Module, pictures: Path) -> nn.Module:
    """The model after a few steps."""
    torch.manual_seed(1)
    images, labels = batch(pictures / "train")
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    model.train()
    for _ in range(6):
        for part in torch.randperm(len(labels)).split(48):
            logits = model(images[part])
            logits = getattr(logits, "logits", logits)
            optimizer.zero_grad()
            nn.functional.cross_entropy(logits, labels[part]).backward()
            optimizer.step()
    return model.eval()


@torch.no_grad()
def errors(model: nn.Module, images: Tensor, labels: Tensor) -> int:
    logits = model(images)
    return int((getattr(logits, "logits", logits).argmax(dim=1) != labels).sum())


def as_state_dict(arch: str) -> Saved:
    def save(model: nn.Module, folder: Path) -> tuple[Path, tuple[str, ...]]:
        torch.save(model.state_dict(), folder / "production.pt")
        return folder / "production.pt", ("--arch", arch)

    return save


def as_safetensors(arch: str) -> Saved:
    def save(model: nn.Module, folder: Path) -> tuple[Path, tuple[str, ...]]:
        from safetensors.torch import save_file

        save_file(model.state_dict(), folder / "production.safetensors")
        return folder / "production.safetensors", ("--arch", arch)

    return save


def as_timm_publishes(model: Any, folder: Path) -> tuple[Path, tuple[str, ...]]:
    model.pretrained_cfg |= CONFIG | {"input_size": (3, SIZE, SIZE)}
    timm.models.save_for_hf(model, folder / "published", model_config={"label_names": list(CLASSES)})
    return folder / "published", ()


def as_transformers_saves(model: Any, folder: Path) -> tuple[Path, tuple[str, ...]]:
    transformers.utils.logging.disable_progress_bar()
    model.save_pretrained(folder / "saved")
    return folder / "saved", ()


def resnet_with_a_sequential() -> nn.Module:
    model = torchvision.models.resnet18()
    model.fc = nn.Sequential(nn.Linear(512, len(CLASSES)))
    return model


def wrapped() -> nn.Module:
    cfg = {**CONFIG, "input_size": [3, SIZE, SIZE], "num_classes": len(CLASSES)}
    config = transformers.TimmWrapperConfig(
        architecture="resnet10t",
        num_labels=len(CLASSES),
        id2label=dict(enumerate(CLASSES)),
        label2id={name: number for number, name in enumerate(CLASSES)},
        pretrained_cfg=cfg,
    )
    model: nn.Module = transformers.TimmWrapperForImageClassification(config)
    return model


FORMS: dict[str, tuple[Callable[[], nn.Module], Saved]] = {
    "torchvision, fc": (
        lambda: torchvision.models.resnet18(num_classes=len(CLASSES)),
        as_state_dict("resnet18"),
    ),
    "torchvision, fc.0": (resnet_with_a_sequential, as_state_dict("resnet18")),
    "timm, state dict": (
        lambda: timm.create_model("resnet10t", num_classes=len(CLASSES)),
        as_state_dict("timm:resnet10t"),
    ),
    "timm, safetensors, classifier": (
        lambda: timm.create_model("mobilenetv3_small_050", num_classes=len(CLASSES)),
        as_safetensors("timm:mobilenetv3_small_050"),
    ),
    "timm, published, head.fc": (
        lambda: timm.create_model("convnext_atto", num_classes=len(CLASSES)),
        as_timm_publishes,
    ),
    "transformers, folder": (wrapped, as_transformers_saves),
}


@pytest.mark.parametrize("form", FORMS)
def test_the_error_is_what_the_other_program_computes(
    form: str, pictures: Path, mptctl: CommandLine, tmp_path: Path
) -> None:
    make, save = FORMS[form]
    torch.manual_seed(2)
    model = trained(make(), pictures)
    make_split("imagefolder", run_root=tmp_path / "runs", data_root=pictures, val_fraction=0.3)
    weights, words = save(model, tmp_path)
    (tmp_path / "names.txt").write_text("\n".join(CLASSES))
    keys = [f"data.image_size={SIZE}", "runtime.device=cpu"]
    if words:
        words += ("--class-names", str(tmp_path / "names.txt"))
        keys += [f"data.eval_resize={int(SIZE / 0.875)}", f"data.mean={list(MEAN)}", f"data.std={list(STD)}"]
    flags = [word for key in keys for word in ("--set", key)]
    out = mptctl.must("import", weights, *words, *flags, "--run-root", tmp_path / "runs")
    held_out = load_split(tmp_path / "runs")
    rows = held_out.indices("val")
    transform = timm.data.create_transform(input_size=(3, SIZE, SIZE), is_training=False, **CONFIG)
    seen = [transform(Image.open(pictures / name)) for name in held_out.ids(rows).tolist()]
    labels = torch.from_numpy(held_out.labels[rows])
    wrong = errors(model, torch.stack(seen), labels)
    assert 0 < wrong < 0.7 * len(rows), "the case shows nothing"
    assert f"({wrong} of {len(rows)} pictures" in out.stderr
    assert "warning" not in out.stderr
