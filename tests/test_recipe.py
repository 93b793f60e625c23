"""Recipes: presets, files, overrides, and what is refused with which words."""

from __future__ import annotations

from pathlib import Path

import pytest

from mptctl.errors import UsageError
from mptctl.names import METHOD_NAMES
from mptctl.recipe import (
    SPEED,
    TRAINING,
    Recipe,
    change_recipe,
    differences,
    list_changeable_keys,
    list_marked_data_keys,
    load_recipe,
    preset_names,
    recipe_keys,
)


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_is_valid_and_survives_its_own_yaml(name: str, tmp_path: Path) -> None:
    recipe = load_recipe(name)
    file = tmp_path / "recipe.yaml"
    file.write_text(recipe.to_yaml())
    assert load_recipe(str(file)) == recipe


def test_the_papers_settings() -> None:
    cifar, imagenet = load_recipe("cifar100"), load_recipe("imagenet")
    assert (cifar.method.k, cifar.optim.epochs) == (4, 100)
    assert (cifar.optim.lr, cifar.optim.weight_decay) == (0.1, 5e-4)
    assert (cifar.data.padding, cifar.model.stem, cifar.optim.batch_size) == (4, "imagenet", 128)
    assert (imagenet.method.k, imagenet.optim.epochs, imagenet.optim.step_epochs) == (1.5, 90, 30)
    assert imagenet.model.embedding_dim == 128
    assert (cifar.method.alpha, cifar.method.beta, cifar.method.tau) == (1, 5, 5)


def test_the_settings_of_calibrated_training() -> None:
    cifar, tiny, cub = (load_recipe(f"{name}-calibration") for name in ("cifar10", "tiny-imagenet", "cub"))
    assert {r.model.arch for r in (cifar, tiny, cub)} == {"resnet50"}
    assert (tiny.data.image_size, tiny.model.stem, tiny.optim.batch_size) == (64, "small", 64)
    assert (tiny.optim.epochs, tiny.optim.schedule, tiny.optim.milestones) == (100, "step", (40, 60))
    assert tiny.optim.clip_grad_norm == 2
    assert (cifar.data.image_size, cifar.optim.batch_size) == (32, 128)
    assert (cub.data.image_size, cub.model.pretrained) == (224, None)
    criterion = tiny.criterion
    assert (criterion.name, criterion.smoothing, criterion.gamma, criterion.weight) == ("ce", 0.05, 3, 0.1)
    assert (criterion.margin, criterion.alpha, criterion.reduction) == (10, 0.1, "mean")


def from_file(key: str, text: str, folder: Path) -> Recipe:
    group, _, name = key.partition(".")
    file = folder / "r.yaml"
    file.write_text(f"{group}:\n  {name}: {text}\n")
    return load_recipe(str(file))


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("optim.lr", "1e-3", 0.001),
        ("optim.lr", "+10.5E-1", 1.05),
        ("optim.nesterov", "true", True),
        ("optim.clip_grad_norm", "null", None),
        ("optim.clip_grad_norm", "", None),
        ("data.std", "[0.1, 2e-1, 1]", (0.1, 0.2, 1.0)),
        ("model.pretrained", "a=b.pt", "a=b.pt"),
        ("model.pretrained", "'1e-3'", "1e-3"),
        ("model.pretrained", "${optim.lr}", "${optim.lr}"),
        ("model.pretrained", "torchvision # by name", "torchvision"),
        # Lists of the command line need no brackets.
        ("data.mean", " 0.5, 0.4,0.3 ", (0.5, 0.4, 0.3)),
        ("data.mean", "[0.5, 0.4, 0.3]", (0.5, 0.4, 0.3)),
        ("model.freeze", "conv1,layer1.*", ("conv1", "layer1.*")),
        ("model.freeze", "conv1", ("conv1",)),
    ],
)
def test_values_of_set_are_read_as_those_of_a_file(
    key: str, text: str, value: object, tmp_path: Path
) -> None:
    (tmp_path / "empty.yaml").write_text("")
    by_set = load_recipe(str(tmp_path / "empty.yaml"), [f"{key}={text}"])
    group, _, name = key.partition(".")
    found = getattr(getattr(by_set, group), name)
    assert (found, type(found)) == (value, type(value))
    if not isinstance(value, tuple) or text.startswith("["):
        assert by_set == from_file(key, text, tmp_path)


def test_groups_are_merged_key_by_key_and_lists_are_replaced() -> None:
    plain = load_recipe("digits")
    overrides = ["optim={lr: 5e-1, momentum: 0.1}", "optim.momentum=0.2", "data.std=[1, 1, 2]", "method.k=2"]
    recipe = load_recipe("digits", overrides, {"method.k": 7.0})  # the command wins over what is set
    assert differences(plain, recipe) == [
        ("data.std", plain.data.std, (1.0, 1.0, 2.0)),
        ("optim.lr", plain.optim.lr, 0.5),
        ("optim.momentum", plain.optim.momentum, 0.2),
        ("method.k", plain.method.k, 7.0),
    ]


def test_a_recipe_is_changed_without_being_read_again() -> None:
    recipe = load_recipe("digits", ["optim.lr=0.5"])
    keys = {"method.name": "mpt-lm", "method.k": 7, "runtime.seed": 3}
    assert change_recipe(recipe, keys, "digits") == load_recipe("digits", ["optim.lr=0.5"], keys)
    assert change_recipe(recipe, {}, "digits") == recipe
    with pytest.raises(UsageError, match=r"recipe digits: method.k: .*finite number, got nan"):
        change_recipe(recipe, {"method.k": float("nan")}, "digits")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("optim:\n  learning_rate: 0.1\n", "unknown key optim.learning_rate"),
        ("optim:\n  momentun: 0.1\n", "did you mean optim.momentum"),
        ("optin:\n  lr: 0.1\n", "did you mean optim"),
        ("optim:\n  lr: -1\n", r"optim.lr: .*greater than 0, got -1"),
        ("method:\n  name: mtp-kl\n", "did you mean mpt-kl"),
        ("data:\n  std: [0, 1, 1]\n", r"data.std: must be above 0"),
        ("data:\n  scale: [1, 0.1]\n", r"data.scale: .*smaller first"),
        ("data:\n  scale: [0.1, 2]\n", r"data.scale: .*at most 1"),
        (
            "data:\n  image_size: 8\n  padding: 9\n",
            r"data.padding: must be at most data.image_size, 8, got 9",
        ),
        ("optim:\n  batch_size: 4\n  accumulate: 4\n", "fewer than 2"),
        (
            "optim:\n  schedule: step\n  milestones: [60, 40]\n",
            r"optim\.milestones: must rise, got \[60, 40\]",
        ),
        ("optim:\n  milestones: [40]\n", r"optim\.milestones: the cosine schedule has none"),
        ("optim: 3\n", "optim: must be a mapping of keys, got '3'"),
        ("mixup: 0.1\n", r"unknown key mixup; did you mean data\.mixup\?"),
        ("model: {mixup: 0.1}\n", r"unknown key model\.mixup; did you mean data\.mixup\?"),
        ("optim: {drop_path: 0.1}\n", r"unknown key optim\.drop_path; did you mean model\.drop_path\?"),
        ("data: {class_weight: 1}\n", r"class_weight; did you mean criterion\.class_weights\?"),
    ],
)
def test_wrong_recipes_are_refused_by_name(text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "r.yaml"
    file.write_text(text)
    with pytest.raises(UsageError, match=message) as caught:
        load_recipe(str(file))
    assert "\n" not in str(caught.value)


def test_what_is_neither_a_preset_nor_a_text_is_called_so(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="did you mean cifar100"):
        load_recipe("cifar-100")
    file = tmp_path / "best.pt"
    for content in (b"PK\x03\x04\x00\x00\x08", b"optim: {lr: \xe4}"):
        file.write_bytes(content)
        with pytest.raises(
            UsageError, match=r"best\.pt: is not a text file in UTF-8, as YAML is; name a YAML"
        ):
            load_recipe(str(file))


def test_every_key_says_what_it_is() -> None:
    keys = recipe_keys()
    assert {key.partition(".")[0] for key in keys} == set(Recipe.model_fields)
    assert all(field.description for field in keys.values())
    assert "elodi-topk" in METHOD_NAMES


def test_marks_say_what_a_key_changes() -> None:
    assert list_marked_data_keys(SPEED) == {"loader", "threads", "prefetch", "resident_limit_gb"}
    assert list_marked_data_keys(TRAINING) == {
        *("augment", "padding", "flip", "scale", "ratio", "transforms"),
        *("sampling", "mixup", "cutmix", "mix_probability"),
    }
    free = list_changeable_keys()
    assert {"runtime.device", "runtime.threads", "data.hw_decoder_load"} <= free
    assert not {"optim.lr", "runtime.seed", "data.augment", "runtime.precision"} & free
