"""The runs of a study, on cases by hand: their order, teachers and seeds, and what of them is there."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from mptctl.data.listing.requests import SplitSettings
from mptctl.data.split import Split, load_split, make_split
from mptctl.errors import CheckpointError, UsageError
from mptctl.names import Session
from mptctl.studies.answers import run_answers
from mptctl.studies.study import shares
from mptctl.studies.study_estimate import refuse_untrainable_runs, sizes_of_split
from mptctl.studies.study_file import Study, StudyFile, with_recipes
from mptctl.studies.study_plan import plan_study
from mptctl.studies.study_split import StudySplit
from mptctl.studies.study_state import existing_split, find_standings, make_splits
from mptctl.training.observer import Observer
from mptctl.training.train import train

TINY = {"optim.max_steps": 2, "runtime.device": "cpu", "runtime.threads": 1}


def study(
    *updates: object, ensemble: int | None = None, old_models: list[object] | None = None, **settings: object
) -> Study:
    content = {
        "description": "by hand",
        "split": {"source": "digits"},
        "recipe": "digits",
        "set": TINY | settings,
    }
    rows = {"updates": list(updates), "ensemble": ensemble, "old_models": old_models}
    file = StudyFile.model_validate(content | rows)
    return with_recipes("hand", file, "study hand")


def of(split: StudySplit) -> Study:
    """A study of a split."""
    any_study = study("pct-kl")
    return replace(any_study, file=any_study.file.model_copy(update={"split": split}))


ELODI = {"method": "elodi", "ref": "ensemble"}


def test_each_run_comes_after_its_teachers() -> None:
    runs = plan_study(study("pct-kl", ELODI, "mpt-kl", "no-treatment", ensemble=2), [1, 5])
    assert [run.key for run in runs[:8]] == [
        "1/old", "1/ref", "1/pct-kl", "1/ensemble/0", "1/ensemble/1", "1/elodi", "1/mpt-kl", "1/no-treatment",
    ]  # fmt: skip
    assert [run.key.replace("5/", "1/") for run in runs[8:]] == [run.key for run in runs[:8]]
    by_name = {run.name: run for run in runs if run.seed == 5}
    assert by_name["old"].teachers == by_name["ref"].teachers == ()
    assert by_name["pct-kl"].teachers == by_name["no-treatment"].teachers == ("5/old",)
    assert by_name["mpt-kl"].teachers == ("5/old", "5/ref")
    assert by_name["elodi"].teachers == ("5/old", "5/ensemble/0", "5/ensemble/1")
    assert [run.name for run in runs if run.only_old_classes] == ["old", "old"]
    seeds = {name: run.recipe.runtime.seed for name, run in by_name.items()}
    assert seeds == {
        "old": 2005, "ref": 1005, "ensemble/0": 3005, "ensemble/1": 3006, "pct-kl": 5, "elodi": 5, "mpt-kl": 5,
        "no-treatment": 5,
    }  # fmt: skip


def test_a_reference_that_nobody_asks_is_not_trained() -> None:
    assert [run.name for run in plan_study(study("pct-kl"), [1])] == ["old", "pct-kl"]
    assert [run.name for run in plan_study(study(ELODI, ensemble=1), [1])] == ["old", "ensemble/0", "elodi"]


def test_an_update_of_some_seeds_has_its_teachers_in_those_alone() -> None:
    costly = study("no-treatment", ELODI | {"seeds": [1]}, {"method": "mpt-kl", "seeds": [1, 2]}, ensemble=1)
    assert [run.key for run in plan_study(costly, [1, 2, 3])] == [
        "1/old", "1/ref", "1/no-treatment", "1/ensemble/0", "1/elodi", "1/mpt-kl",
        "2/old", "2/ref", "2/no-treatment", "2/mpt-kl",
        "3/old", "3/no-treatment",
    ]  # fmt: skip


def test_several_old_models_begin_alike() -> None:
    several = [{"name": "ce"}, {"name": "ls", "set": {"criterion.name": "ls"}}, {"name": "fl", "seeds": [1]}]
    runs = {run.key: run for run in plan_study(study(old_models=several), [1, 2])}
    assert {key: run.teachers for key, run in runs.items()} == {
        "1/old-ce": (), "1/old-ls": (), "1/old-fl": (), "2/old-ce": (), "2/old-ls": (),
    }  # fmt: skip
    assert all(run.only_old_classes for run in runs.values())
    assert {runs[f"1/old-{name}"].recipe.runtime.seed for name in ("ce", "ls", "fl")} == {2001}
    assert runs["1/old-ls"].recipe.criterion.name == "ls"


def test_a_run_that_ends_before_its_method_begins_is_refused(digits: Split) -> None:
    runs = plan_study(study(ELODI, ensemble=1), [1])
    with pytest.raises(UsageError, match=r"1/elodi: optim\.max_steps 2: .*elodi begins to distil"):
        refuse_untrainable_runs(runs, {"1": sizes_of_split(digits)}, torch.device("cpu"))


def test_a_batch_larger_than_the_pictures_of_a_run_is_refused_before_any_is_trained(digits: Split) -> None:
    pictures = len(digits.indices("train", digits.classes.num_old))
    runs = plan_study(study("no-treatment", **{"optim.batch_size": pictures + 1}), [1])
    with pytest.raises(UsageError, match=f"^1/old: optim.batch_size .*; use at most {pictures}$"):
        refuse_untrainable_runs(runs, {"1": sizes_of_split(digits)}, torch.device("cpu"))


def test_the_steps_of_an_old_model_are_counted_where_its_classes_are_rare(tmp_path: Path) -> None:
    # 12 pictures of the old class, 30 of the new one: spread evenly, there would be 21 of each.
    for class_name, count in {"a": 12, "b": 30}.items():
        for part in ("train", "test"):
            (tmp_path / "tree" / part / class_name).mkdir(parents=True)
            for i in range(count):
                picture = np.full((8, 8, 3), i, dtype=np.uint8)
                Image.fromarray(picture).save(tmp_path / "tree" / part / class_name / f"{i}.png")
    split = make_split(
        "imagefolder",
        run_root=tmp_path / "1",
        data_root=tmp_path / "tree",
        val_fraction=0.0,
        old_fraction=0.5,
    )
    runs = plan_study(study("no-treatment", **{"optim.batch_size": 4, "optim.max_steps": None}), [1])
    sizes = sizes_of_split(split)
    assert {run.name: sizes.steps_per_epoch(run) for run in runs} == {"old": 3, "no-treatment": 10}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run root with the split of seed 1, and of its study all but the last update; ``pct-kl`` has no answers."""
    root = tmp_path_factory.mktemp("study")
    split = make_split("digits", run_root=root / "1", seed=1)
    for run in plan_study(study("no-treatment", "pct-kl", "mpt-kl"), [1]):
        if run.name != "mpt-kl":
            train(run.request(split), Observer())
        if run.name not in ("pct-kl", "mpt-kl"):
            run_answers(root / "1" / run.name, Session(device="cpu"), split=split)
    return root


def standing(root: Path, wanted: Study) -> dict[str, str]:
    split = existing_split(wanted.file.split, root / "1", 1, None)
    assert split is not None
    return dict(find_standings(plan_study(wanted, [1, 2]), {"1": split}))


def test_what_is_there_is_told_from_what_is_missing(trained: Path, tmp_path: Path) -> None:
    root = shutil.copytree(trained, tmp_path / "runs")
    metrics = root / "1" / "ref" / "metrics.jsonl"
    lines = metrics.read_text(encoding="utf-8").splitlines(keepends=True)
    metrics.write_text("".join(lines[:-1]), encoding="utf-8")
    found = standing(root, study("no-treatment", "pct-kl", "mpt-kl"))
    assert {key: state for key, state in found.items() if key[0] == "1"} == {
        "1/old": "done", "1/ref": "begun", "1/no-treatment": "done", "1/pct-kl": "unanswered", "1/mpt-kl": "missing",
    }  # fmt: skip
    assert {state for key, state in found.items() if key[0] == "2"} == {"missing"}


def test_where_and_how_fast_a_run_computes_makes_no_other_run_of_it(trained: Path) -> None:
    found = standing(trained, study("no-treatment", **{"data.threads": 2, "runtime.threads": 2}))
    assert found["1/no-treatment"] == "done"


def test_a_run_of_another_recipe_is_refused_by_name(trained: Path) -> None:
    with pytest.raises(CheckpointError, match=r"1/old/best\.pt: .*optim\.lr: 0\.1 -> 0\.2; move 1/old away"):
        standing(trained, study("no-treatment", **{"optim.lr": 0.2}))


def test_a_kept_run_that_a_longer_recipe_would_have_gone_on_with_is_refused_by_name(
    tmp_path: Path,
) -> None:
    # Of 2 steps of a constant schedule, which `--resume` makes longer: a study leaves a finished run as it is.
    short = study("no-treatment", **{"optim.schedule": "constant"})
    split = make_split("digits", run_root=tmp_path / "1", seed=1)
    (old, *_) = plan_study(short, [1])
    train(old.request(split), Observer())
    assert standing(tmp_path, short)["1/old"] == "unanswered"
    longer = study("no-treatment", **{"optim.schedule": "constant", "optim.max_steps": 3})
    with pytest.raises(CheckpointError, match=r"1/old/best\.pt: .*optim\.max_steps: 2 -> 3; move 1/old away"):
        standing(tmp_path, longer)


def test_a_run_of_another_split_is_refused_by_name(trained: Path, tmp_path: Path) -> None:
    root = shutil.copytree(trained, tmp_path / "runs")
    make_split("digits", run_root=root / "1", seed=2, overwrite=True)
    with pytest.raises(CheckpointError, match=r"1/split\.json: is another split .*seed: 2 -> 1"):
        standing(root, study("no-treatment"))
    shutil.rmtree(root / "1")
    shutil.copytree(trained / "1", root / "1")
    for name in ("split.json", *(path.name for path in (trained / "1").glob("split-*.arrow"))):
        (root / "1" / name).unlink()
    make_split("digits", run_root=root / "1", seed=1, val_fraction=0.2)
    with pytest.raises(CheckpointError, match=r"1/old/best\.pt: .*split_fingerprint"):
        standing(root, study("no-treatment"))


def test_a_teacher_that_is_gone_or_another_one_is_named(trained: Path, tmp_path: Path) -> None:
    root = shutil.copytree(trained, tmp_path / "runs")
    shutil.rmtree(root / "1" / "old")
    with pytest.raises(CheckpointError, match="its teacher 1/old is not finished"):
        standing(root, study("no-treatment"))
    shutil.copytree(trained / "1" / "old", root / "1" / "old")
    split = existing_split(StudySplit(source="digits"), root / "1", 1, None)
    assert split is not None
    shutil.rmtree(root / "1" / "old")
    (other,) = (
        r for r in plan_study(study("no-treatment", **{"runtime.threads": 1}), [1]) if r.name == "old"
    )
    train(other.request(split), Observer())
    # The same recipe with the same seed: the same weights, but another start of the run.
    assert standing(root, study("no-treatment"))["1/no-treatment"] == "done"


@pytest.mark.parametrize(
    ("parallel", "gpus", "runs", "cluster", "expected"),
    [
        (None, 0, 20, False, (16, 1, 0.0)),
        # The last run that is left has no more threads than if it had been the first.
        (None, 0, 1, False, (1, 1, 0.0)),
        (1, 0, 20, False, (1, 16, 0.0)),
        (5, 0, 20, False, (5, 3, 0.0)),
        (5, 0, 2, False, (2, 3, 0.0)),
        (30, 0, 40, False, (30, 1, 0.0)),
        (1, 0, 20, True, (1, 1, 0.0)),
        (None, 2, 20, False, (2, 8, 1.0)),
        (8, 2, 20, False, (8, 2, 0.25)),  # four runs share a GPU
        (8, 2, 20, True, (8, 8, 1.0)),  # on a cluster each of the eight has one
        (None, 1, 20, True, (1, 16, 1.0)),
        (30, 4, 20, True, (20, 4, 1.0)),  # no more than there are runs
    ],
)
def test_runs_share_cores_and_on_one_machine_alone_gpus(
    parallel: int | None, gpus: int, runs: int, cluster: bool, expected: tuple[int, int, float]
) -> None:
    assert shares(parallel, 16, gpus, runs, cluster=cluster) == expected


def test_a_study_goes_on_where_its_pictures_have_moved(own_folder: Path, tmp_path: Path) -> None:
    wanted = StudySplit(source="imagefolder", val_fraction=0.2)
    root = tmp_path / "study"
    before = make_splits(of(wanted), root, [1], own_folder)
    moved = Path(shutil.move(own_folder, tmp_path / "elsewhere"))
    after = make_splits(of(wanted), root, [1], moved)
    assert list(after) == list(before)
    (place,) = after
    assert load_split(root / place).file.request.data_root == str(moved)
    assert load_split(root / place).fingerprint == before[place].fingerprint
    min(moved.rglob("*.jpg")).unlink()
    with pytest.raises(CheckpointError, match=r"is another split than the study's \(data_root: "):
        make_splits(of(wanted), root, [1], Path(shutil.move(moved, tmp_path / "third")))


def test_a_study_takes_a_table_with_old_classes_by_file_and_groups(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    lines = ["path,class,patient"]
    for number in range(60):
        picture = Image.fromarray(rng.integers(0, 256, (8, 8, 3), dtype=np.uint8))
        picture.save(tmp_path / f"{number}.png")
        lines.append(f"{number}.png,{'abc'[number % 3]},p{number // 6}")
    (tmp_path / "photos.csv").write_text("\n".join(lines))
    (tmp_path / "old.txt").write_text("c\nb\n")
    wanted = StudySplit(
        source=str(tmp_path / "photos.csv"), column={"label": "class"}, old_classes=str(tmp_path / "old.txt"),
        test_fraction=0.2, val_fraction=0.2, group="patient",
    )  # fmt: skip
    made = make_splits(of(wanted), tmp_path / "runs", [1, 2], None)
    for seed, split in zip((1, 2), made.values(), strict=True):
        assert (split.classes.names, split.classes.num_old) == (("c", "b", "a"), 2)
        parts = [
            {int(split.manifest.relative_path(i)[:-4]) // 6 for i in split.indices(part).tolist()}
            for part in ("train", "val", "test")
        ]
        assert all(parts) and not parts[0] & parts[1] and not (parts[0] | parts[1]) & parts[2]
        assert split.file.request.seed == seed
    assert made["1"].fingerprint != made["2"].fingerprint
    again = make_splits(of(wanted), tmp_path / "runs", [1], None)
    assert again["1"].fingerprint == made["1"].fingerprint
    for change, said in (
        ({"group": None}, "group: patient -> None"),
        ({"column": {"label": "patient"}}, "columns: {'label': 'class'} -> {'label': 'patient'}"),
        ({"old_classes": None}, "other old classes were named"),
    ):
        with pytest.raises(CheckpointError, match=re.escape(said)):
            existing_split(wanted.model_copy(update=change), tmp_path / "runs" / "1", 1, None)


def test_a_study_says_of_its_data_what_split_says_of_them() -> None:
    flags = set(SplitSettings.model_fields)
    # A study decides these itself, or shows nothing of them.
    flags -= {"seed", "class_labels", "download", "report", "run_root", "overwrite", "as_json"}
    assert flags == set(StudySplit.model_fields)
