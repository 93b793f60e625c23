"""`model.pretrained`: which weights are taken, what is made new, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torchvision

from mptctl.errors import CheckpointError, UsageError
from mptctl.models.checkpoint import CheckpointMeta, save_checkpoint
from mptctl.models.networks import build_model
from mptctl.models.pretrained import load_pretrained
from mptctl.recipe import Recipe, load_recipe

ABC = ("a", "b", "c")


def recipe(*overrides: str, arch: str = "resnet18") -> Recipe:
    return load_recipe("digits", ("data.image_size=32", *overrides), {"model.arch": arch})


def save_as_ours(path: Path, keys: Recipe) -> dict[str, torch.Tensor]:
    """A checkpoint of a model of three classes; gives its weights."""
    source = build_model(keys.model, 3, 32).state_dict()
    save_checkpoint(path, CheckpointMeta(recipe=keys, class_names=ABC, num_old=2), source)
    return source


def begun(pretrained: Path, keys: Recipe, names: tuple[str, ...] = ABC) -> tuple[torch.nn.Module, list[str]]:
    """A model that began with weights, and what was said of it."""
    model = build_model(keys.model, len(names), keys.data.image_size)
    return model, load_pretrained(model, keys, str(pretrained), names)


def test_weights_fill_everything_but_a_classifier_of_other_classes(tmp_path: Path) -> None:
    source = torchvision.models.resnet18(num_classes=7).state_dict()
    torch.save(source, tmp_path / "r18.pth")
    model, said = begun(tmp_path / "r18.pth", recipe("model.embedding_dim=8"))
    own = model.state_dict()
    assert all(torch.equal(own[name], source[name]) for name in source if not name.startswith("fc."))
    assert len(said) == 2
    assert "120 of 124 tensors" in said[0]
    assert said[1] == (
        "made new: fc.0.weight, fc.0.bias, fc.1.weight and 1 more; left out of the file: fc.weight, fc.bias"
    )


def test_the_head_of_a_run_is_taken_where_its_classes_are_the_same(tmp_path: Path) -> None:
    keys = recipe()
    source = save_as_ours(tmp_path / "run" / "best.pt", keys)
    for named in (tmp_path / "run", tmp_path / "run" / "best.pt"):
        model, said = begun(named, keys)
        assert torch.equal(model.state_dict()["fc.weight"], source["fc.weight"])
        assert said[1] == "made new: nothing; left out of the file: nothing"
        model, said = begun(named, keys, ("a", "c", "b"))  # as many, and others
        assert not torch.equal(model.state_dict()["fc.weight"], source["fc.weight"])
        assert torch.equal(model.state_dict()["conv1.weight"], source["conv1.weight"])
        assert said[1] == "made new: fc.weight, fc.bias; left out of the file: fc.weight, fc.bias"


def test_weights_that_know_other_pictures_bring_a_warning(tmp_path: Path) -> None:
    keys = recipe()
    save_as_ours(tmp_path / "x.pt", keys)
    _, said = begun(tmp_path / "x.pt", recipe("data.mean=[0.1,0.2,0.3]"))
    assert "was trained with data.mean=[0.5, 0.5, 0.5]" in said[2]
    assert len(begun(tmp_path / "x.pt", keys)[1]) == 2


@pytest.mark.parametrize(
    ("state", "arch", "message"),
    [
        (
            {"encoder.pos_embedding": torch.zeros(1, 5, 768)},
            "vit_b_32",
            r"name the architecture and the data\.image_size that the file",
        ),
        ({"conv1.weight": torch.zeros(64, 3, 7, 7)}, "resnet18", r"does not fit model\.arch resnet18"),
    ],
)
def test_weights_of_another_network_are_refused(
    state: dict[str, torch.Tensor], arch: str, message: str, tmp_path: Path
) -> None:
    torch.save(state, tmp_path / "x.pth")
    with pytest.raises(CheckpointError, match=message) as end:
        begun(tmp_path / "x.pth", recipe(arch=arch))
    assert "\n" not in str(end.value)


def test_a_damaged_checkpoint_of_ours_is_not_taken_for_a_state_dict(tmp_path: Path) -> None:
    keys = recipe(arch="digits-net")
    save_as_ours(tmp_path / "x.pt", keys)
    content = torch.load(tmp_path / "x.pt", weights_only=True)
    content["model"]["fc.bias"] += 1
    torch.save(content, tmp_path / "x.pt")
    with pytest.raises(CheckpointError, match="digest expected"):
        begun(tmp_path / "x.pt", keys)


@pytest.mark.parametrize(
    ("pretrained", "message"),
    [("model.onnx", "is an ONNX model, which is not trained"), ("torchvision", "nothing is downloaded")],
)
def test_what_is_no_file_of_weights_is_refused(pretrained: str, message: str, tmp_path: Path) -> None:
    torch.hub.set_dir(str(tmp_path))
    with pytest.raises(UsageError, match=message):
        begun(Path(pretrained), recipe())
