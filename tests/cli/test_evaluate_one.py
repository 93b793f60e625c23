"""`mptctl evaluate MODEL`: what it prints and writes, for files and runs, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from mptctl.data.split import make_split
from tests.common import CommandLine


@pytest.fixture(autouse=True)
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


def test_json_is_one_object_of_the_promised_keys(mptctl: CommandLine) -> None:
    done = mptctl("evaluate", "test.npz", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    page = json.loads(done.stdout)
    promised = {"n", "accuracy", "er_all", "ece", "aece", "cwece", "mce", "nll", "brier", "temperature"}
    assert promised <= set(page)
    assert (page["n"], page["temperature"], page["scaled"]) == (300, None, None)
    assert page["accuracy"] == pytest.approx(1 - page["er_all"])
    assert sum(b["n"] for b in page["reliability"]) == 300


def test_the_table_fits_80_columns_and_shows_before_and_after(mptctl: CommandLine) -> None:
    done = mptctl("evaluate", "test.npz", "--temperature", "val.npz")
    assert (done.returncode, done.stderr) == (0, "")
    assert max(len(line) for line in done.stdout.splitlines()) <= 80
    page = json.loads(mptctl("evaluate", "test.npz", "--temperature", "val.npz", "--json").stdout)
    (row,) = [line for line in done.stdout.splitlines() if line.startswith("ECE")]
    assert f"{100 * page['ece']:.2f} %" in row
    assert f"{100 * page['scaled']['ece']:.2f} %" in row
    assert f"temperature {page['temperature']:.4g}" in done.stdout
    assert page["n_validation"] == 200
    plain = mptctl("evaluate", "test.npz").stdout
    assert "temperature" not in plain
    assert f"{100 * page['mce']:.2f} %" in plain


def test_the_page_has_the_diagram_with_its_counts(mptctl: CommandLine) -> None:
    done = mptctl("evaluate", "test.npz", "--temperature", "val.npz", "--report", "page.html")
    assert (done.returncode, done.stderr) == (0, "wrote page.html\n")
    page = Path("page.html").read_text()
    found = json.loads(mptctl("evaluate", "test.npz", "--json").stdout)
    figure = page[page.index('<figure id="reliability"') :]
    counts = [b["n"] for b in found["reliability"] if b["n"]]
    assert all(f">{count}</text>" in figure for count in counts)
    assert "as it is" in figure
    assert "temperature" in figure
    assert "://" not in page.replace("http://www.w3.org", "")


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


def test_a_fit_that_fails_is_said_and_exits_0(mptctl: CommandLine) -> None:
    np.savez("one.npz", id=["val/1", "val/2"], label=[0, 0], logits=np.eye(3)[:2], classes=np.arange(3))
    done = mptctl("evaluate", "test.npz", "--temperature", "one.npz")
    assert done.returncode == 0
    assert "no temperature: all validation samples are of one class" in " ".join(done.stdout.split())
    assert "as it is" not in done.stdout
