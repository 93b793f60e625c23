"""Keys of a recipe's `data` group: the former name of one, and what the rarely used ones do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mptctl.data.plan import EpochPlan
from mptctl.data.split import Split
from mptctl.errors import UsageError
from mptctl.models.checkpoint import CheckpointMeta, load_checkpoint, save_checkpoint
from mptctl.models.run_folder import RunDir
from mptctl.recipe import DataRecipe, Recipe, load_recipe
from tests.common import Train, short_recipe


def test_recipes_from_before_threads_was_so_called_are_still_read(tmp_path: Path) -> None:
    file = tmp_path / "recipe.yaml"
    file.write_text("data:\n  workers: 3\n")
    assert load_recipe(str(file)).data.threads == 3
    assert load_recipe("digits", ["data.workers=2"]).data.threads == 2
    assert Recipe.model_validate({"data": {"workers": 5}}).data.threads == 5


def test_threads_is_written_under_its_present_name_alone(tmp_path: Path) -> None:
    recipe = load_recipe("digits", ["data.workers=2"])
    assert "threads: 2" in recipe.to_yaml()
    assert "workers" not in recipe.to_yaml()
    (tmp_path / "recipe.yaml").write_text(recipe.to_yaml())
    assert load_recipe(str(tmp_path / "recipe.yaml")) == recipe


@pytest.mark.parametrize("in_file", ["workers", "threads"])
@pytest.mark.parametrize("on_command_line", ["workers", "threads"])
def test_an_override_wins_whichever_name_the_file_has(
    tmp_path: Path, in_file: str, on_command_line: str
) -> None:
    file = tmp_path / "recipe.yaml"
    file.write_text(f"data:\n  {in_file}: 3\n")
    assert load_recipe(str(file), [f"data.{on_command_line}=7"]).data.threads == 7


def test_a_wrong_number_of_threads_is_refused_by_the_present_name(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"data\.threads: .*got 'many'"):
        load_recipe("digits", ["data.workers=many"])
    (tmp_path / "recipe.yaml").write_text("data:\n  workers: 3\n  threads: 4\n")
    with pytest.raises(UsageError, match=r"data\.workers.*data\.threads"):
        load_recipe(str(tmp_path / "recipe.yaml"))


class FormerMeta(CheckpointMeta):
    """A checkpoint's meta data as they were written when the key had its former name."""

    def model_dump_json(self, **settings: Any) -> str:
        text = super().model_dump_json(**settings)
        assert text.count('"threads":0,"prefetch"') == 1
        return text.replace('"threads":0,"prefetch"', '"workers":0,"prefetch"')


def test_a_run_from_before_threads_was_so_called_is_resumed(run: Train, digits: Split) -> None:
    run(short_recipe("optim.epochs=1", "optim.max_steps=2"), "run")
    folder = RunDir(digits.run_root / "run")
    for path in (folder.last, folder.best):
        now = load_checkpoint(path)
        save_checkpoint(path, FormerMeta.model_construct(**dict(now.meta)), now.model, now.training)
    text = folder.recipe.read_text()
    assert text.count("  threads: 0\n  prefetch") == 1
    folder.recipe.write_text(text.replace("  threads: 0\n  prefetch", "  workers: 0\n  prefetch"))
    recipe = load_recipe(str(folder.recipe), ["data.threads=2"])
    result, _ = run(recipe, "run", resume=True)
    assert result.steps == 2


def test_ratio_limits_the_aspect_of_resized_crops() -> None:
    rows = np.arange(500, dtype=np.int64)
    side = np.full(500, 1000, dtype=np.int32)
    for ratio in ((1.0, 1.0), (2.0, 3.0)):
        data = DataRecipe(augment="random-resized-crop", scale=(0.1, 0.2), ratio=ratio)
        views = EpochPlan(0, data).views(0, rows, side, side)
        aspects = views.width / views.height
        # Sides are whole numbers, which moves an aspect by less than a hundredth here.
        assert ratio[0] - 0.01 <= aspects.min()
        assert aspects.max() <= ratio[1] + 0.01
    assert aspects.max() - aspects.min() > 0.9  # the whole range is drawn


@pytest.mark.parametrize("value", [-0.1, 1.1])
def test_the_hardware_decoders_part_lies_between_none_and_all(value: float) -> None:
    with pytest.raises(UsageError, match=r"data\.hw_decoder_load"):
        load_recipe("digits", [f"data.hw_decoder_load={value}"])
