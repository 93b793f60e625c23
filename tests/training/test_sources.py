"""The same pictures from every source: the same weights; and every command that reads pictures takes them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from mptctl.data.packing.pack import pack_pictures
from mptctl.data.packing.records import PackRequest
from mptctl.data.places import find_place
from mptctl.data.split import Split, make_split
from mptctl.models.checkpoint import load_checkpoint
from mptctl.names import PackForm
from mptctl.training.request import RunRequest
from mptctl.training.train import train
from tests.common import KINDS, CommandLine, Log, short_recipe
from tests.data.test_pack_tables import rows_of, write_arrow, write_parquet


def packed(source: Path, out: Path, to: PackForm) -> Path:
    request = PackRequest(source=str(source), kind="", to=to, short_side=None)
    pack_pictures(request, out)
    return out


def places_of(folder: Path, where: Path) -> dict[str, tuple[Path, Path | None]]:
    """The pictures of a folder as each source, and the folder that a table's paths are below."""
    lines = [f"{each.relative_to(folder)},{each.parent.name},{each.parts[-3]},{each.stem[-1]}\n"
             for each in sorted(folder.glob("*/*/*.jpg"))]  # fmt: skip
    (where / "table.csv").write_text("path,label,split,camera\n" + "".join(lines[::-1]), encoding="utf-8")
    (where / "parquet").mkdir()
    (where / "arrow").mkdir()
    for part, name in (("train", "train"), ("val", "validation")):
        write_parquet(where / "parquet" / f"{name}-00000-of-00001.parquet", rows_of(folder, part))
        write_arrow(where / "arrow" / name, rows_of(folder, part))
    (where / "arrow" / "dataset_dict.json").write_text('{"splits": ["train", "validation"]}')
    return {
        "folder": (folder, None),
        "table": (where / "table.csv", folder),
        "shards": (packed(folder, where / "shards", "shards"), None),
        "parquet": (packed(where / "parquet", where / "of-parquet", "shards"), None),
        "arrow": (packed(where / "arrow", where / "of-arrow", "folder"), None),
    }


def split_of(place: Path, root: Path | None, run_root: Path) -> Split:
    found = find_place(str(place), root)
    return make_split(
        found.source, run_root=run_root, data_root=found.root, place=found.table_or_shards, val_fraction=0.25
    )


@pytest.mark.parametrize("pictures", ["drawn", "real"])
def test_every_source_gives_the_same_weights(
    pictures: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if pictures == "real":
        folder = request.getfixturevalue("real_split").manifest.root
    else:
        folder = request.getfixturevalue("folder")
    places = places_of(folder, tmp_path)
    for loader in KINDS:
        recipe = short_recipe(
            "optim.max_steps=4", "optim.batch_size=8", f"data.loader={loader}", "data.eval_resize=10",
            f"data.augment={'pad-crop' if loader == 'resident' else 'random-resized-crop'}",
        )  # fmt: skip
        first: dict[str, torch.Tensor] = {}
        for name, (place, root) in places.items():
            split = split_of(place, root, tmp_path / loader / name)
            run = split.run_root / "ref"
            train(RunRequest(recipe, split, run), Log())
            weights = load_checkpoint(run / "best.pt").model
            first = first or weights
            assert list(weights) == list(first)
            assert all(torch.equal(weights[key], first[key]) for key in first), (loader, name)


@pytest.mark.parametrize("name", ["table", "shards"])
def test_commands_that_read_pictures_read_them_in_tables_and_shards(
    name: str, folder: Path, tmp_path: Path, mptctl: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    place, root = places_of(folder, tmp_path)[name]
    split = split_of(place, root, tmp_path / "runs")
    for run, old in (("old", True), ("new", False)):
        recipe = short_recipe("optim.max_steps=2", "optim.batch_size=8", "data.loader=threaded")
        train(RunRequest(recipe, split, split.run_root / run, only_old_classes=old), Log())
    done = mptctl.must("evaluate", "old", "new", "--report", "page.html", "--flips", "flips.csv", "--json")
    flips = json.loads(done.stdout)["counts"]["negative_flips"]
    assert (tmp_path / "page.html").read_text(encoding="utf-8").count("data:image/png") == flips > 0
    for words, made in (
        (("figure", "augment", "--pictures", "4", "--out", "sheet.png"), "sheet.png"),
        (("fewshot", "old", "--way", "2", "--query", "1", "--episodes", "3"), None),
        (("split", place, "--val-fraction", "0.25", "--report", "split.html"), "split.html"),
    ):
        done = mptctl(*words, *(("--data-root", root) if root and words[0] == "split" else ()))
        assert done.returncode == 0, (words, done.stderr)
        assert made is None or (tmp_path / made).stat().st_size > 1000
