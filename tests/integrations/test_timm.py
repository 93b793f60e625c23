"""Networks of timm by name, and models as timm and Hugging Face publish them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from mptctl.data.split import make_split
from mptctl.errors import UsageError
from mptctl.models.checkpoint import load_checkpoint, load_model
from mptctl.models.heads import find_head
from mptctl.models.networks import build_model
from mptctl.recipe import ModelRecipe, load_recipe
from tests.common import CommandLine, Train, short_recipe

timm = pytest.importorskip("timm", reason="timm is not installed (make test-integrations)")
pytest.importorskip("safetensors", reason="safetensors is not installed (make test-integrations)")

CLASSES = [str(number) for number in range(10)]
# Three of its families, and the size of their pictures here.
NETS = {"resnet10t": 32, "mobilenetv3_small_050": 32, "vit_tiny_patch16_224": 32}


def publish(folder: Path, name: str, size: int) -> Any:
    """A model with generated weights as timm's push to a hub writes it; gives the network back."""
    from safetensors.torch import save_file

    torch.manual_seed(6)
    model = timm.create_model(name, num_classes=10, **({"img_size": size} if name.startswith("vit") else {}))
    for module in model.modules():  # statistics that are not those of a fresh network
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.uniform_(-0.1, 0.1)
            module.running_var.uniform_(0.8, 1.2)
    folder.mkdir()
    state = {key: tensor.contiguous() for key, tensor in model.state_dict().items()}
    save_file(state, str(folder / "model.safetensors"))
    seen = {"input_size": [3, size, size], "mean": [0.5, 0.4, 0.3], "std": [0.2, 0.3, 0.4]}
    seen |= {"crop_pct": 0.9, "interpolation": "bicubic"}
    config = {"architecture": name, "num_classes": 10, "label_names": CLASSES, "pretrained_cfg": seen}
    (folder / "config.json").write_text(json.dumps(config))
    return model.eval()


@pytest.mark.parametrize("name", NETS)
def test_an_imported_net_answers_as_timm(name: str, mptctl: CommandLine, tmp_path: Path) -> None:
    size = NETS[name]
    model = publish(tmp_path / "published", name, size)
    make_split("digits", run_root=tmp_path / "runs")
    flags = ("--run-root", tmp_path / "runs", "--set", "runtime.device=cpu")
    out = mptctl.must("import", tmp_path / "published", *flags)
    checkpoint = load_checkpoint(Path(out.stdout.strip()))
    data = checkpoint.meta.recipe.data
    assert checkpoint.meta.class_names == tuple(CLASSES)
    assert checkpoint.meta.recipe.model.arch == f"timm:{name}"
    assert (data.image_size, data.resized_side, data.mean) == (size, int(size / 0.9), (0.5, 0.4, 0.3))
    assert data.interpolation == "bicubic"
    assert "here they are resized" not in out.stderr
    images = torch.randn(4, 3, size, size)
    with torch.no_grad():
        assert torch.equal(load_model(checkpoint).eval()(images), model(images))


def test_the_config_of_a_network_stands_over_a_preset_and_under_what_a_person_says(tmp_path: Path) -> None:
    arch = "model.arch=timm:vit_tiny_patch16_224"
    data = load_recipe("imagenet", [arch]).data
    assert (data.mean, data.std, data.interpolation) == ((0.5,) * 3, (0.5,) * 3, "bicubic")
    assert (data.eval_resize, data.image_size) == (248, 224)
    # As timm's own transform of evaluation sees it.
    config = timm.data.resolve_model_data_config(timm.create_model("vit_tiny_patch16_224"))
    theirs = timm.data.create_transform(**config).transforms
    assert (theirs[0].size, theirs[0].interpolation.value) == (248, "bicubic")
    tagged = load_recipe("imagenet", ["model.arch=timm:vit_base_patch16_224.augreg2_in21k_ft_in1k"]).data
    assert (tagged.eval_resize, tagged.mean) == (248, (0.5,) * 3)
    said = load_recipe("imagenet", [arch, "data.mean=[0.1, 0.2, 0.3]", "data.eval_resize=256"]).data
    assert (said.mean, said.eval_resize) == ((0.1, 0.2, 0.3), 256)
    assert load_recipe("imagenet", [arch, "data.image_size=288"]).data.eval_resize == 320
    assert said.interpolation == "bicubic"
    file = tmp_path / "recipe.yaml"
    file.write_text("model: {arch: timm:vit_tiny_patch16_224}\ndata: {interpolation: bilinear}\n")
    own = load_recipe(str(file), base="imagenet").data
    assert (own.interpolation, own.mean, own.eval_resize) == ("bilinear", (0.5,) * 3, 248)
    assert own.augment == "random-resized-crop"
    file.write_text(
        load_recipe("imagenet", ["model.arch=timm:vit_tiny_patch16_224", "data.std=[1,1,1]"]).to_yaml()
    )
    assert load_recipe(str(file)) == load_recipe(str(file), of_run=True)
    assert load_recipe("imagenet", ["model.arch=timm:nothing"]).data == load_recipe("imagenet").data


def test_the_dry_run_says_what_the_networks_config_decided(mptctl: CommandLine, tmp_path: Path) -> None:
    make_split("digits", run_root=tmp_path)
    flags = ("--run-root", tmp_path, "--dry-run", "--json", "--set", "data.image_size=32", "--device", "cpu")
    out = mptctl("train-old", *flags, "--set", "model.arch=timm:resnet10t", "--set", "data.std=[1, 1, 1]")
    said = json.loads(out.stdout)
    assert f"({timm.get_pretrained_cfg('resnet10t').interpolation})" in said["seen_in_evaluation"]


@pytest.mark.parametrize(
    ("config", "code", "message"),
    [
        ('{"model_type": "vit", "architectures": ["ViTForImageClassification"]}', 5, "export it to ONNX"),
        ('{"num_classes": 10}', 5, "no architecture"),
        ("{", 5, "cannot be read as JSON"),
        ("[]", 5, "is no JSON object"),
        (
            '{"architecture": "resnet10t", "pretrained_cfg": {"input_size": "x"}}',
            5,
            "pretrained_cfg is damaged",
        ),
        ('{"architecture": "resnet10u", "label_names": ["0", "1"]}', 2, "did you mean timm:resnet10t"),
        ('{"architecture": "resnet10t"}', 2, "give --class-names FILE"),
        ('{"architecture": "hf-hub:some/thing", "label_names": ["0", "1"]}', 2, "timm has no such network"),
    ],
)
def test_what_is_not_taken_is_said(
    config: str, code: int, message: str, mptctl: CommandLine, tmp_path: Path
) -> None:
    (tmp_path / "published").mkdir()
    (tmp_path / "published" / "config.json").write_text(config)
    make_split("digits", run_root=tmp_path / "runs")
    out = mptctl("import", tmp_path / "published", "--run-root", tmp_path / "runs")
    assert (out.returncode, out.stdout) == (code, ""), out.stderr
    assert message in out.stderr
    assert not (tmp_path / "runs" / "old").exists()


def test_a_net_of_timm_is_trained(run: Train) -> None:
    recipe = short_recipe(
        "model.arch=timm:resnet10t", "data.image_size=32", "optim.epochs=1", "model.embedding_dim=3"
    )
    result, _ = run(recipe, "new")
    checkpoint = load_checkpoint(result.run.best)
    model = load_model(checkpoint)
    assert model(torch.zeros(2, 3, 32, 32)).shape == (2, 10)
    assert [len(layer.weight) for layer in find_head(model, "timm:resnet10t")[1].children()] == [3, 10]  # type: ignore[arg-type]


@pytest.mark.parametrize("name", [*NETS, "convnext_atto", "resnet10t.c3_in1k"])
def test_the_classifier_of_a_net_is_found(name: str) -> None:
    model = build_model(ModelRecipe.model_validate({"arch": f"timm:{name}", "train": "head"}), 7, 32)
    assert [len(p) for p in model.parameters() if p.requires_grad] == [7, 7]


@pytest.mark.parametrize("name", ["hf-hub:timm/resnet18", "local-dir:/etc", "no-such-net", ""])
def test_names_that_are_no_networks_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match="timm has no such network"):
        build_model(ModelRecipe.model_validate({"arch": f"timm:{name}"}), 7, 32)
