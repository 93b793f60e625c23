"""`mptctl evaluate` of run folders: slices by pictures and by columns of a table, and classes of other names."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import pytest
from pyarrow import parquet

from mptctl.data.split import Split, make_split
from mptctl.training.request import RunRequest
from mptctl.training.train import train
from tests.common import CommandLine, Log, short_recipe
from tests.untrained import untrained_run


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Split:
    """Untrained models of the digits in an empty folder: old, and new, which knows all classes."""
    monkeypatch.chdir(tmp_path)
    split = make_split("digits", run_root=Path("runs"))
    untrained_run(Path("runs/old"), split.classes.old, split.classes.num_old, seed=0)
    untrained_run(Path("runs/new"), split.classes.names, split.classes.num_old, seed=2)
    return split


def test_a_class_map_for_run_folders(runs: Split, mptctl: CommandLine) -> None:
    """OLD under other names than the split's is refused (5), and read with a map as it would be under the split's."""
    names = tuple(f"digit {name}" for name in runs.classes.old)
    untrained_run(Path("runs/former"), names, len(names), seed=0)
    words = ("new", "--device", "cpu", "--json")
    refused = mptctl("evaluate", "former", *words)
    assert (refused.returncode, refused.stdout) == (5, "")
    pairs = zip(names, runs.classes.old, strict=True)
    Path("map.yaml").write_text("".join(f"{one}: {other}\n" for one, other in pairs))
    found = json.loads(mptctl("evaluate", "former", *words, "--class-map", "map.yaml").stdout)
    plain = json.loads(mptctl("evaluate", "old", *words).stdout)
    for key in ("counts", "n_old", "per_class"):
        assert found[key] == plain[key]


def table_split(folder: Path, out: Path, columns: list[str], *, overwrite: bool = False) -> Split:
    """Split a table of a folder's pictures whose further columns count the rows."""
    with (out / "pictures.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["path", "label", "split", *columns])
        for number, path in enumerate(sorted(folder.rglob("*.*"))):
            rows.writerow([path, path.parent.name, path.parent.parent.name, *[number % 2 for _ in columns]])
    return make_split(
        "table", run_root=out / "runs", data_root=folder, place=str(out / "pictures.csv"), overwrite=overwrite
    )


def test_runs_without_their_run_root_bring_the_columns_of_the_table(
    folder: Path, tmp_path: Path, mptctl: CommandLine
) -> None:
    split = table_split(folder, tmp_path, ["camera"])
    recipe = short_recipe("optim.epochs=1", "optim.batch_size=8", "data.loader=threaded")
    alone = tmp_path / "alone"
    for name in ("old", "new"):
        run = tmp_path / "runs" / name
        train(RunRequest(recipe, split, run, only_old_classes=name == "old"), Log())
        shutil.copytree(run, alone / name)
    shutil.rmtree(tmp_path / "runs")
    (tmp_path / "gate.yaml").write_text("limits: {max_nfr: 100}\nmust_keep: {by: {camera: 0}}\n")
    words = ("evaluate", "old", "new", "--device", "cpu", "--run-root", alone, "--min-slice", "1", "--json")
    page = json.loads(mptctl(*words, "--by", "camera").stdout)
    assert {row["by"]["camera"] for row in page["slices"]} == {"0", "1"}
    assert "nearest: camera" in mptctl(*words, "--by", "camra").stderr
    page = json.loads(mptctl(*words, "--gate", tmp_path / "gate.yaml").stdout)
    assert "must-keep" in [check["name"] for check in page["gate"]["checks"]]


def test_columns_of_an_earlier_split_go_with_it(folder: Path, tmp_path: Path) -> None:
    split = table_split(folder, tmp_path, ["camera", "id_of_owner"])
    (kept,) = (tmp_path / "runs").glob("columns-*.parquet")
    table = parquet.read_table(kept)
    assert table.column_names == ["id", "camera", "id_of_owner"]
    assert sorted(table["id"].to_pylist()) == sorted(
        split.ids(split.indices("train")).tolist()
        + split.ids(split.indices("val")).tolist()
        + split.ids(split.indices("test")).tolist()
    )
    table_split(folder, tmp_path, [], overwrite=True)
    assert list((tmp_path / "runs").glob("columns-*")) == []
