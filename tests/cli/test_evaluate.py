"""`mptctl evaluate` as a person and a program call it: output, files, and exit codes; of two models and of one."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from mptctl.data.split import make_split
from tests.cli.conftest import IDS, LABELS, Call
from tests.common import CommandLine


def logits(path: str, columns: int, seed: int, labels: np.ndarray = LABELS) -> None:
    rng = np.random.default_rng(seed)
    np.savez(path, id=IDS, label=labels, logits=rng.normal(size=(8, columns)), classes=np.arange(columns))


def test_parts_and_patterns_are_found_below_the_run_root_too_and_never_written_over(call: Call) -> None:
    Path("elsewhere/prod").mkdir(parents=True)
    Path("old.npz").rename("elsewhere/prod/part-0.npz")
    for name in ("prod/part-0.npz", "prod/part-*.npz", "elsewhere/prod"):
        assert call(name, "new.npz", "--run-root", "elsewhere").returncode == 0
    done = call("elsewhere/prod", "new.npz", "--markdown", "elsewhere/prod/part-0.npz")
    assert (done.returncode, done.stdout) == (2, "")
    assert "is read by this call" in done.stderr


def test_files_are_written_and_said_on_standard_error(call: Call) -> None:
    logits("o.npz", 2, 0)
    logits("n.npz", 3, 1)
    done = call(
        *("o.npz", "n.npz", "--json", "--report", "out/page.html"),
        *("--markdown", "comment.md", "--save-predictions", "kept"),
    )
    assert done.returncode == 0
    json.loads(done.stdout)
    assert Path("out/page.html").read_text().startswith("<!doctype html>")
    assert Path("comment.md").read_text().startswith("### ")
    for name in ("out/page.html", "comment.md", "kept/old.npz", "kept/new.npz"):
        assert f"wrote {name}" in done.stderr
    again = json.loads(call("kept/old.npz", "kept/new.npz", "--json").stdout)
    first = json.loads(done.stdout)
    for page in (again, first):
        for model in ("old", "new"):
            page[model].pop("name")
    assert again == first


@pytest.mark.parametrize("first", [1, 2**63])
def test_integer_ids_are_saved_so_that_both_files_match(call: Call, first: int) -> None:
    ids = np.arange(3, dtype=np.uint64) + np.uint64(first)
    np.savez("o.npz", id=ids, label=["a", "b", "a"], pred=["a", "b", "a"])
    Path("n.csv").write_text(
        "id,label,pred\n" + "".join(f"{i},{y},a\n" for i, y in zip(ids, "aba", strict=True))
    )
    assert call("o.npz", "n.csv", "--save-predictions", "kept").returncode == 0
    again = json.loads(call("kept/old.npz", "kept/new.npz", "--json").stdout)
    assert (again["counts"]["negative_flips"], again["worst_flips"][0]["id"]) == (1, str(first + 1))


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A test set, a validation part, and answers without logits, in the working folder."""
    monkeypatch.chdir(tmp_path)
    for name, part, n, seed in (("test", "test", 300, 0), ("val", "val", 200, 1)):
        rng = np.random.default_rng(seed)
        labels = rng.integers(0, 3, n)
        logits = 3 * (rng.normal(size=(n, 3)) + np.eye(3)[labels])
        ids = np.array([f"{part}/{i}" for i in range(n)])
        np.savez(f"{name}.npz", id=ids, label=labels, logits=logits, classes=np.arange(3))
    np.savez("answers.npz", id=ids, label=labels, pred=labels)


@pytest.mark.usefixtures("files")
def test_a_run_is_measured_on_its_test_part_and_fitted_on_its_validation_part(
    mptctl: CommandLine, tmp_path: Path
) -> None:
    split = make_split("digits", run_root=tmp_path / "runs")
    trained = mptctl("train-old", "--set", "optim.epochs=3", "--set", "runtime.threads=1", "--device", "cpu")
    assert trained.returncode == 0, trained.stderr
    done = mptctl("evaluate", "old", "--temperature", "fit", "--json")
    assert done.returncode == 0, done.stderr
    page = json.loads(done.stdout)
    assert page["n_all"] == len(split.indices("test"))
    assert page["n"] == len(split.indices("test", split.classes.num_old)) < page["n_all"]
    assert page["n_validation"] == len(split.indices("val", split.classes.num_old))
    assert page["temperature"] > 0
    assert page["scaled"]["nll"] != page["nll"]
    both = json.loads(mptctl("evaluate", "old", "old", "--json").stdout)
    assert (both["old"]["ece"], both["old"]["aece"]) == pytest.approx((page["ece"], page["aece"]))
    assert both["old"]["er_all"] == pytest.approx(page["er_all"])


@pytest.mark.usefixtures("files")
def test_a_fit_that_fails_is_said_and_exits_0(mptctl: CommandLine) -> None:
    np.savez("one.npz", id=["val/1", "val/2"], label=[0, 0], logits=np.eye(3)[:2], classes=np.arange(3))
    done = mptctl("evaluate", "test.npz", "--temperature", "one.npz")
    assert done.returncode == 0
    assert "no temperature: all validation samples are of one class" in " ".join(done.stdout.split())
    assert "as it is" not in done.stdout
