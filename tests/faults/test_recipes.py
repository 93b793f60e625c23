"""Rows 18 and 50: recipes that are wrong, hostile or odd, in a file and by --set."""

from __future__ import annotations

from pathlib import Path

import pytest

from mptctl.studies.study_file import load_study
from tests.common import CommandLine

WRONG = {
    "optim: {lrr: 0.1}": "did you mean optim.lr",
    "optimm: {lr: 0.1}": "optim",
    "optim: {lr: fast}": "optim.lr",
    "optim: {lr: true}": "optim.lr",
    "optim: {epochs: 1.5}": "optim.epochs",
    "optim: [1, 2]": "optim",
    "optim: !!python/object/apply:os.mkdir [ran]": "a tag, such as !!int, is not allowed",
    "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]": "aliases are not allowed",
    "[1, 2]": "must be a mapping",
    "optim: {lr: .nan}": "optim.lr",
    "optim: {lr: " + "9" * 5_000 + "}": "optim.lr",
    "optim: {lr: !!timestamp x}": "a tag, such as !!int, is not allowed; write a plain value",
    "optim: {lr: 2020-13-45}": "",
    "optim: {lr: 2020-01-01}": "optim.lr",
    "optim: {name: [sgd]}": "optim.name",
    "data: {image_size: 0x" + "f" * 5_000 + "}": "data.image_size",
    "[" * 500: "",
    "optim: {lr: 0.1": "",
    "optim: {? {a: b} : 1}": "",
    "model: {arch: \"\\0\"}": "model.arch",
    "model: {arch: \"resnet18\\e[2J\"}": "model.arch",
}  # fmt: skip
SETS = {
    "optim.lr=" + "9" * 5_000: "optim.lr",
    "optim.lr=!!timestamp x": "a tag, such as !!int, is not allowed; write a plain value",
    "optim.lr=2020-13-45": "optim.lr",
    "optim.epochs=" + "9" * 5_000: "optim.epochs",
    "optim=[1]": "optim",
    "optim=": "optim",
    "optim.lr=[[[[": "optim.lr",
    "optim.lr=" + "[" * 500: "recursion",
    "optim.lr=[&a [1], *a]": "aliases are not allowed",
    "optim.lr=" + "1" * 300_000: "larger than 256 kB",
    "optim.lr={x: 1}": "number, got {'x': '1'}",
    "optim.lr.x=1": "optim.lr",
    "optim.lr": "not of the form",
    "=1": "not of the form",
    "data.mean=[1]": "data.mean",
    "optim.lr=!!python/object/apply:os.mkdir [ran]": "optim.lr",
    "optim.lr=\udcff": "optim.lr",
    "data.image_size=1000000000000": "data.image_size",
    "model.arch=\x1b[2J": "model.arch",
}  # fmt: skip


def refused(mptctl: CommandLine, *words: object) -> str:
    """A recipe that ends the command with 2, one short line, and no trace."""
    done = mptctl("train-ref", "--run-root", "runs", "--dry-run", *words)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr[:1000]
    assert done.stderr.startswith("mptctl: ")
    assert done.stderr.count("\n") == 1
    assert len(done.stderr) < 600
    assert done.stderr.strip().isprintable()
    return done.stderr


@pytest.fixture(autouse=True)
def here(digits_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a run root of a split."""
    (tmp_path / "runs").symlink_to(digits_root)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("text", "message"), WRONG.items(), ids=lambda text: text[:30])
def test_row_18_wrong_and_hostile_recipes(here: Path, mptctl: CommandLine, text: str, message: str) -> None:
    (here / "recipe.yaml").write_text(text)
    assert message in refused(mptctl, "--recipe", "recipe.yaml")
    assert not (here / "ran").exists()


def test_row_18_1e_3_is_a_number(here: Path, mptctl: CommandLine) -> None:
    (here / "recipe.yaml").write_text("optim: {lr: 1e-3}")
    done = mptctl("train-ref", "--run-root", "runs", "--recipe", "recipe.yaml", "--print-recipe")
    assert done.returncode == 0
    assert "lr: 0.001" in done.stdout


@pytest.mark.parametrize("content", [b"\xff\xfeo\0p\0", b"optim: \xff", b"\0\0\0", b"a" * 300_000])
def test_row_50_recipes_that_are_no_text(here: Path, mptctl: CommandLine, content: bytes) -> None:
    (here / "recipe.yaml").write_bytes(content)
    refused(mptctl, "--recipe", "recipe.yaml")


@pytest.mark.parametrize(("change", "message"), SETS.items(), ids=lambda text: ascii(text)[:30])
def test_row_50_odd_values_by_set(here: Path, mptctl: CommandLine, change: str, message: str) -> None:
    assert message in refused(mptctl, "--set", change)
    assert not (here / "ran").exists()


@pytest.mark.parametrize(
    ("words", "resize"),
    [
        (("--recipe", "imagenet", "--set", "data.image_size=64"), "73"),
        (("--recipe", "imagenet", "--set", "data.image_size=299"), "342"),
        (("--recipe", "imagenet", "--set", "data={image_size: 64}"), "73"),
        (("--recipe", "imagenet", "--set", "data.eval_resize=70", "--set", "data.image_size=64"), "70"),
        (("--recipe", "imagenet", "--set", "data.image_size=64", "--set", "data.eval_resize=null"), "null"),
        (("--recipe", "imagenet", "--set", "data.eval_resize=224"), "224"),
        (("--recipe", "digits", "--set", "data.image_size=16"), "null"),
    ],
)
def test_row_74_what_is_resized_follows_the_picture_size(
    mptctl: CommandLine, words: tuple[str, ...], resize: str
) -> None:
    done = mptctl("train-ref", "--run-root", "runs", *words, "--print-recipe")
    assert done.returncode == 0, done.stderr
    assert f"  eval_resize: {resize}\n" in done.stdout


def test_row_74_a_crop_of_a_small_part_is_refused(here: Path, mptctl: CommandLine) -> None:
    (here / "recipe.yaml").write_text("data: {image_size: 64, eval_resize: 256}")
    wanted = "data.eval_resize 256: more than 1.5 times data.image_size 64, so that the model sees little of"
    assert wanted in refused(mptctl, "--recipe", "recipe.yaml")
    both = ("--set", "data.image_size=64", "--set", "data.eval_resize=256")
    assert wanted in refused(mptctl, "--recipe", "imagenet", *both)


def test_row_74_the_whole_of_what_a_picture_goes_through_is_said(mptctl: CommandLine) -> None:
    words = ("--recipe", "digits", "--set", "data.image_size=14", "--set", "data.eval_resize=16")
    done = mptctl("train-ref", "--run-root", "runs", *words, "--name", "new", "--dry-run")
    assert done.returncode == 0, done.stderr
    said = dict(line.split(maxsplit=2)[::2] for line in done.stdout.splitlines() if " on  " in line)
    assert said["judged"].startswith("shorter side to 16 pixels (bilinear), centre crop of 14 x 14, mean 0.")
    assert said["trained"].startswith("shorter side to 14 pixels (bilinear), centre crop of 14 x 14")


NUMBERS = ("2_0", "1:30", "yes", "010", "'010'", "true", "1e", "0b1", "0x10", "0o20")


@pytest.mark.parametrize("text", NUMBERS)
def test_row_70_what_is_no_number_in_yaml_1_2_is_none(here: Path, mptctl: CommandLine, text: str) -> None:
    (here / "recipe.yaml").write_text(f"runtime: {{seed: {text}}}")
    assert "runtime.seed: must be a valid number, got" in refused(mptctl, "--recipe", "recipe.yaml")
    assert "runtime.seed: must be a valid number, got" in refused(mptctl, "--set", f"runtime.seed={text}")
    (here / "study.yaml").write_text(
        f"description: x\nsplit: {{source: digits}}\nrecipe: digits\nupdates: [mpt-kl]\nseeds: [{text}]\n"
    )
    done = mptctl("study", "study.yaml", "--dry-run")
    assert (done.returncode, done.stdout) == (2, "")
    assert "seeds: must be a valid number, got" in done.stderr


def test_row_70_a_truth_value_is_true_or_false(mptctl: CommandLine) -> None:
    assert "data.flip: must be true or false, got 'yes'" in refused(mptctl, "--set", "data.flip=yes")


def test_row_70_text_stays_as_it_is_written(here: Path, mptctl: CommandLine) -> None:
    for text in ("010", "no", "1.50", "2_0"):
        (here / "study.yaml").write_text(
            f"description: {text}\nsplit: {{source: digits}}\nrecipe: digits\n"
            f"updates: [{{method: mpt-kl, name: {text}}}]\n"
        )
        file = load_study("study.yaml").file
        assert (file.description, file.updates[0].name) == (text, text)


def test_row_70_a_key_that_stands_twice_is_an_error(here: Path, mptctl: CommandLine) -> None:
    (here / "recipe.yaml").write_text("optim: {lr: 0.1}\noptim: {lr: 0.2}\n")
    assert "line 2: the key of line 1 once more; keep one" in refused(mptctl, "--recipe", "recipe.yaml")
    (here / "study.yaml").write_text("seeds: [1]\nseeds: [2]\n")
    done = mptctl("study", "study.yaml", "--dry-run")
    assert done.returncode == 2
    assert "line 2: the key of line 1 once more; keep one" in done.stderr
