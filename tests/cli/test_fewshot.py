"""`fewshot` on trained runs: episodes, classes that are added from a few pictures, and the analysis."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from mptctl.data.derived_splits import find_own_split
from mptctl.data.split import load_split, make_split
from mptctl.inference.named_models import load_predictions
from mptctl.models.checkpoint import load_checkpoint
from mptctl.names import Session
from mptctl.training.request import RunRequest
from mptctl.training.train import train
from tests.common import CommandLine, Log, short_recipe

HEADS = {
    "old": ("model.head=linear",),
    "cosine": ("model.head=cosine", "model.head_margin=-0.1"),
    "product": ("model.head=linear-margin", "model.head_margin=0.1", "optim.lr=0.02"),
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run root with models of the old digits, one with each head; not to be written to."""
    root = tmp_path_factory.mktemp("trained")
    split = make_split("digits", run_root=root, val_fraction=0.3)
    for name, keys in HEADS.items():
        train(
            RunRequest(short_recipe("optim.epochs=6", *keys), split, root / name, only_old_classes=True),
            Log(),
        )
    return root


@pytest.fixture
def root(trained: Path, tmp_path: Path) -> Path:
    return shutil.copytree(trained, tmp_path / "runs")


def write_pictures(root: Path, folder: Path, classes: dict[str, str], count: int = 5) -> Path:
    """A few training pictures of digits, in folders of other names."""
    split = load_split(root)
    train_rows = split.indices("train")
    for digit, name in classes.items():
        rows = train_rows[split.labels[train_rows] == split.classes.names.index(digit)]
        (folder / name).mkdir(parents=True)
        for number, row in enumerate(rows[:count].tolist()):
            Image.fromarray(split.picture(row)).save(folder / name / f"{number}.png")
    return folder


@pytest.mark.parametrize("name", HEADS)
def test_novel_digits_are_told_apart_better_than_by_chance(
    name: str, trained: Path, mptctl: CommandLine
) -> None:
    flags = ("--way", "4", "--shot", "5", "--episodes", "30", "--run-root", trained)
    done = mptctl("fewshot", name, *flags, "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["novel"] == ["5", "6", "7", "8", "9"]
    assert report["head"] == ("cosine" if name == "cosine" else "linear")
    assert (report["episodes"], report["way"], report["query"]) == (30, 4, 16)
    for found in (report, report["centroid"], report["logistic"]):
        assert found["accuracy"] - found["ci95"] > 0.4
        assert 0 < found["ci95"] < 0.1
    again = json.loads(mptctl("fewshot", name, *flags, "--json").stdout)
    assert again["accuracy"] == report["accuracy"]
    other = json.loads(mptctl("fewshot", name, *flags, "--seed", "1", "--json").stdout)
    assert other["accuracy"] != report["accuracy"]


def test_a_person_reads_a_table(trained: Path, mptctl: CommandLine) -> None:
    done = mptctl("fewshot", "old", "--episodes", "3", "--run-root", trained)
    assert done.returncode == 0, done.stderr
    for words in ("3 episodes of 5 out of 5 novel classes", "fitted linear head", "nearest centroid", "±"):
        assert words in done.stdout


def test_classes_can_be_chosen(trained: Path, mptctl: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "novel.txt"
    file.write_text("9\n6\n")
    flags = ("--classes", file, "--episodes", "2", "--run-root", trained)
    done = mptctl("fewshot", "old", "--way", "2", *flags, "--json")
    assert json.loads(done.stdout)["novel"] == ["6", "9"]
    done = mptctl("fewshot", "old", "--way", "3", *flags)
    assert (done.returncode, "leaves 2 novel classes (6, 9)" in done.stderr) == (4, True)
    file.write_text("9\n4\n")
    done = mptctl("fewshot", "old", *flags)
    assert (done.returncode, "--classes: 4: not among the 5" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["--way", "6"], 4, "--way 6"),
        (["--shot", "75", "--query", "16"], 4, "class 7: 90 test pictures"),
        (["--way", "1"], 2, "--way 1: must be at least 2"),
        (["--shot", "0"], 2, "--shot 0"),
        (["--episodes", "0"], 2, "--episodes 0"),
        (["--seed", "-1"], 2, "--seed -1"),
        (["old"], 2, "name one run"),
        (["--analysis", "--classes", "old"], 2, "--classes: is for episodes"),
        (["--add", "pictures", "--name", "new", "--way", "3"], 2, "--add: has no episodes"),
        (["--add", "."], 2, "name it with --name"),
        (["--name", "x"], 2, "give --add DIR"),
        (["--out", "x.png"], 2, "--out"),
        (["--analysis", "--out", "x.pdf"], 2, "x.pdf"),
        (["--analysis", "--add", "."], 2, "give one"),
    ],
)
def test_what_cannot_be_done_is_said(
    words: list[str], code: int, says: str, trained: Path, mptctl: CommandLine
) -> None:
    before = sorted(trained.rglob("*"))
    done = mptctl("fewshot", "old", *words, "--run-root", trained)
    assert done.returncode == code, done.stderr
    assert says in done.stderr
    assert sorted(trained.rglob("*")) == before


def test_a_run_that_knows_everything_leaves_nothing_novel(root: Path, mptctl: CommandLine) -> None:
    train(RunRequest(short_recipe("optim.max_steps=1"), load_split(root), root / "all"), Log())
    done = mptctl("fewshot", "all", "--run-root", root)
    assert (done.returncode, "leaves 0 novel classes" in done.stderr) == (4, True)


@pytest.mark.parametrize("name", HEADS)
def test_classes_of_the_split_are_added_and_few_old_answers_break(
    name: str, root: Path, mptctl: CommandLine, tmp_path: Path
) -> None:
    pictures = write_pictures(root, tmp_path / "few", {"9": "9", "6": "6"})
    done = mptctl("fewshot", name, "--add", pictures, "--name", "more", "--run-root", root, "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["classes"] == {"6": 5, "9": 5}
    assert report["flips"] <= 0.01 * report["right"]
    assert not report["own_split"]
    assert report["new_right"] > 0
    before, after = (load_checkpoint(root / each / "best.pt") for each in (name, "more"))
    assert after.meta.class_names == ("0", "1", "2", "3", "4", "6", "9")
    assert (after.meta.num_old, after.meta.split_fingerprint) == (5, before.meta.split_fingerprint)
    assert after.meta.teachers == {"old": before.digest}
    # Everything is as it was but for the new rows, which are as long as the old ones are on average.
    for key, tensor in before.model.items():
        assert torch.equal(
            after.model[key][:5] if key.startswith("fc.") and tensor.dim() else after.model[key], tensor
        )
    norms = after.model["fc.weight"].norm(dim=1)
    torch.testing.assert_close(norms[5:], norms[:5].mean().expand(2))
    assert after.model["fc.bias"][5:].tolist() == pytest.approx([-report["constant"]] * 2, rel=1e-6)
    # What was counted is what the written models answer on the validation part, and nothing was left unused.
    found = load_predictions({"old": name, "new": "more"}, Session(root), part="val").models
    was, now = (found[role].preds == found[role].labels for role in ("old", "new"))
    assert (int(was.sum()), int((was & ~now).sum())) == (report["right"], report["flips"])
    assert report["flips"] == int(0.01 * report["right"])
    judged = mptctl("evaluate", name, "more", "--run-root", root, "--json")
    assert judged.returncode == 0, judged.stderr
    flips = json.loads(judged.stdout)
    assert flips["unfinished"] == []
    assert flips["counts"]["positive_flips"] == 0
    assert flips["nfr"] < 0.05
    assert not any("another split" in warning for warning in flips["warnings"])


def test_a_class_of_no_split_brings_the_run_a_split_of_its_own(
    root: Path, mptctl: CommandLine, tmp_path: Path
) -> None:
    pictures = write_pictures(root, tmp_path / "few", {"8": "eight", "7": "7"})
    done = mptctl("fewshot", "old", "--add", pictures, "--name", "more", "--run-root", root, "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["own_split"]
    assert "eight: not in the split" in report["warnings"][0]
    own = find_own_split([root / "more" / "best.pt"], root)
    assert own is not None
    assert own.classes.names == ("0", "1", "2", "3", "4", "7", "eight", "5", "6", "8", "9")
    assert own.classes.num_old == 5
    original = load_split(root)
    names = (np.array(each.classes.names)[each.labels] for each in (original, own))
    assert (next(names) == next(names)).all()
    assert load_checkpoint(root / "more" / "best.pt").meta.split_fingerprint == own.fingerprint
    judged = mptctl("evaluate", "old", "more", "--run-root", root, "--json")
    assert judged.returncode == 0, judged.stderr
    flips = json.loads(judged.stdout)
    assert flips["n_old"] == int((original.labels[original.indices("test")] < 5).sum())
    assert not any("another split" in warning for warning in flips["warnings"])
    # The run root's split is not touched, other runs are asked on it, and the run goes away as a whole.
    assert load_split(root).fingerprint == original.fingerprint
    assert find_own_split([root / "old" / "best.pt"], root) is None
    flags = ("--add", pictures, "--name", "more", "--run-root", root)
    assert mptctl("fewshot", "old", *flags).returncode == 2
    shutil.rmtree(pictures / "eight")
    assert mptctl("fewshot", "old", *flags, "--overwrite").returncode == 0
    assert find_own_split([root / "more" / "best.pt"], root) is None


def test_what_cannot_be_added_is_said(root: Path, mptctl: CommandLine, tmp_path: Path) -> None:
    def say(pictures: Path, *more: object) -> tuple[int, str]:
        done = mptctl("fewshot", "old", "--add", pictures, "--name", "more", "--run-root", root, *more)
        assert not (root / "more").exists()
        return done.returncode, done.stderr

    few = tmp_path / "few"
    few.mkdir()
    code, said = say(few)
    assert (code, "holds no folder of a class" in said) == (4, True)
    write_pictures(root, few, {"3": "3"})
    code, said = say(few)
    assert (code, "3: the run knows it already" in said) == (2, True)
    shutil.move(few / "3", few / "9")
    (few / "empty").mkdir()
    code, said = say(few)
    assert (code, "empty: holds no picture" in said) == (4, True)
    (few / "empty").rmdir()
    shutil.copy2(few / "9" / "0.png", few / "loose.png")
    code, said = say(few)
    assert (code, "loose.png: in no folder" in said) == (4, True)
    (few / "loose.png").unlink()
    (few / "9" / "bad.png").write_bytes(b"no picture")
    assert say(few)[0] == 4
    (few / "9" / "bad.png").unlink()
    code, said = say(few, "--name", "old", "--overwrite")
    assert (code, "which this command reads" in said) == (2, True)
    make_split("digits", run_root=root, val_fraction=0.2, overwrite=True)
    code, said = say(few)
    assert (code, "was trained on the split" in said) == (5, True)


def test_the_analysis_draws_the_episodes_of_fewshot_also_where_classes_are_not_in_order(
    mptctl: CommandLine, tmp_path: Path
) -> None:
    split = make_split("digits", run_root=tmp_path, order="random", seed=3)
    assert list(split.classes.names) != sorted(split.classes.names)
    train(RunRequest(short_recipe("optim.epochs=2"), split, tmp_path / "old", only_old_classes=True), Log())
    words = ("fewshot", "old", "--episodes", 20, "--run-root", tmp_path, "--json")
    found = json.loads(mptctl(*words, "--analysis", "--out", tmp_path / "m.png").stdout)["runs"][0]
    assert found["novel_accuracy"]["1"]["accuracy"] == json.loads(mptctl(*words).stdout)["accuracy"]


def test_the_analysis_draws_a_figure_of_several_runs(root: Path, mptctl: CommandLine, tmp_path: Path) -> None:
    figure = tmp_path / "margins.png"
    few = ("--episodes", 20, "--run-root", root, "--json")
    done = mptctl("fewshot", *HEADS, "--analysis", "--out", figure, *few)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [(run["run"], run["head"], run["margin"]) for run in found["runs"]] == [
        ("old", "linear", 0.0), ("cosine", "cosine", -0.1), ("product", "linear-margin", 0.1),
    ]  # fmt: skip
    for run in found["runs"]:
        assert (run["base"]["classes"], run["novel"]["classes"]) == (5, 5)
        assert run["base"]["ratio"] > run["novel"]["ratio"] > 0
        for shot in (1, 5):
            alone = json.loads(mptctl("fewshot", run["run"], "--shot", shot, *few).stdout)
            got = run["novel_accuracy"][str(shot)]
            assert (got["accuracy"], got["ci95"]) == (alone["accuracy"], alone["ci95"])
        by_itself = json.loads(mptctl("evaluate", run["run"], "--run-root", root, "--json").stdout)
        assert run["base_accuracy"] == by_itself["accuracy"]
    assert figure.read_bytes()[:4] == b"\x89PNG"
    done = mptctl("fewshot", "old", "--analysis", "--episodes", 2, "--run-root", root)
    assert max(map(len, done.stdout.splitlines()[:-1])) <= 80
    assert done.stdout.splitlines()[-1] == str(root / "discriminability.png")
