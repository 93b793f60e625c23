"""Rows 1 to 5, 9, 10, 19, 41, 49 and 51: checkpoints and splits that are damaged, hostile, odd or another's."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torchvision

from mptctl.data.split import load_split
from mptctl.models.checkpoint import _compute_digest
from mptctl.models.metrics_log import read_metrics
from mptctl.models.run_folder import RunDir
from tests.common import CommandLine, Done, assert_same_run

FLAGS = ("--set", "optim.epochs=2", "--set", "runtime.device=cpu", "--set", "runtime.threads=1")


def one_line(done: Done, code: int) -> str:
    """What a call said that ended with a code, in one line and without a result."""
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert done.stderr.startswith("mptctl: ")
    assert done.stderr.count("\n") == 1
    assert "weights_only" not in done.stderr
    return done.stderr


def test_row_01_a_checkpoint_of_half_its_length(runs: Path, mptctl: CommandLine) -> None:
    path = runs / "new" / "best.pt"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    (runs / "new" / "previous.pt").unlink()
    said = one_line(mptctl("evaluate", "old", "new", "--run-root", runs), 5)
    assert "best.pt: incomplete" in said
    assert "the newest valid one beside it is last.pt" in said


def bring(mptctl: CommandLine, weights: Path, *more: object, names: str = "0\n1\n") -> Done:
    """Import the weights of a ResNet-18, with a list of classes beside them."""
    listed = weights.parent / "names.txt"
    listed.write_text(names)
    return mptctl("import", weights, "--arch", "resnet18", "--class-names", listed, *more)


def go_on(mptctl: CommandLine, runs: Path, *more: str) -> Done:
    """Resume the reference, whose seed is 1."""
    return mptctl("train-ref", "--run-root", runs, "--resume", *FLAGS, *(more or ("--seed", "1")))


@pytest.mark.parametrize(
    "content", [b"", b"<!DOCTYPE html><html></html>", b"epoch,loss\n1,0.3\n", b"\x89PNG\r\n"]
)
def test_row_02_something_else_as_pt(runs: Path, mptctl: CommandLine, content: bytes) -> None:
    (runs / "new" / "best.pt").write_bytes(content)
    assert "not a checkpoint" in one_line(mptctl("evaluate", "old", "new", "--run-root", runs), 5)


def test_row_03_one_flipped_bit(runs: Path, mptctl: CommandLine) -> None:
    path = runs / "new" / "best.pt"
    weights = next(w for w in torch.load(path, weights_only=True)["model"].values() if w.numel() > 64)
    content = bytearray(path.read_bytes())
    content[bytes(content).index(bytes(weights.untyped_storage())) + 5] ^= 1
    path.write_bytes(content)
    said = one_line(mptctl("evaluate", "old", "new", "--run-root", runs), 5)
    assert "digest expected" in said
    assert "found" in said


class Hostile:
    """A pickle of this makes a folder when it is loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("how", ["archive", "pickle", "beside the weights"])
def test_row_04_a_pickle_that_runs_code(runs: Path, tmp_path: Path, mptctl: CommandLine, how: str) -> None:
    trace, path = tmp_path / "ran", runs / "new" / "best.pt"
    if how == "pickle":
        path.write_bytes(pickle.dumps({"model": Hostile(trace)}))
    elif how == "archive":
        torch.save({"model": Hostile(trace)}, path)
    else:
        content = torch.load(path, weights_only=True)
        torch.save(content | {"more": Hostile(trace)}, path)
    dones = [mptctl(*words, "--run-root", runs) for words in (("runs",), ("evaluate", "old", "new"))]
    dones.append(bring(mptctl, path, "--run-root", runs, "--name", "x"))
    assert [done.returncode for done in dones] == [0, 5, 5]
    for done in dones:
        said = (done.stdout + done.stderr).replace("\n", "")
        assert "mkdir" in said or "not a checkpoint" in said
    assert not trace.exists()


@pytest.mark.parametrize("thing", [types.SimpleNamespace(lr=0.1), Path("x"), np.float64(0.3)])
def test_row_05_a_checkpoint_of_another_program(
    runs: Path, tmp_path: Path, mptctl: CommandLine, thing: object
) -> None:
    torch.save({"state_dict": {"w": torch.ones(2)}, "args": thing}, tmp_path / "x.pt")
    said = one_line(bring(mptctl, tmp_path / "x.pt", "--run-root", runs, "--name", "x"), 5)
    assert any(name in said for name in ("types.SimpleNamespace", "pathlib", "numpy"))
    assert "one of ours" not in one_line(mptctl("evaluate", tmp_path / "x.pt", "new", "--run-root", runs), 5)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--seed", "7"), "runtime.seed: 1 -> 7"),
        (("--seed", "1", "--set", "optim.lr=0.2"), "optim.lr: 0.1 -> 0.2"),
        (("--seed", "1", "--set", "optim.lr=0.2", "--set", "data.padding=2"), "data.padding: 1 -> 2"),
        (("--seed", "1", "--set", "optim.max_steps=7"), "optim.max_steps: None -> 7"),
    ],
)
def test_row_09_resuming_as_another_run(
    runs: Path, mptctl: CommandLine, words: tuple[str, ...], said: str
) -> None:
    assert said in one_line(go_on(mptctl, runs, *words), 5)
    assert go_on(mptctl, runs).returncode == 0


def test_row_09_resuming_on_another_split(runs: Path, mptctl: CommandLine) -> None:
    mptctl.must("split", "digits", "--run-root", runs, "--seed", "5", "--overwrite")
    assert "split_fingerprint" in one_line(go_on(mptctl, runs), 5)


@pytest.mark.parametrize("left", [1000, None])
def test_row_10_the_newest_checkpoint_is_damaged_or_gone(
    runs: Path, mptctl: CommandLine, left: int | None
) -> None:
    whole = shutil.copytree(runs / "ref", runs / "whole")
    last = runs / "ref" / "last.pt"
    content = last.read_bytes()
    last.unlink() if left is None else last.write_bytes(content[:left])
    done = go_on(mptctl, runs)
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stderr.split())
    assert ("last.pt is not there" if left is None else "last.pt: incomplete") in said
    assert "goes on from previous.pt, step 12" in said
    assert "12 logged steps after the checkpoint are computed again" in said
    assert_same_run(RunDir(runs / "ref"), RunDir(whole))
    for name in ("last.pt", "previous.pt"):
        (runs / "ref" / name).write_bytes(b"")
    one_line(go_on(mptctl, runs), 5)


@pytest.mark.parametrize("names", ["0\n1\n2\n3\ncow\n", "4\n3\n2\n1\n0\n"])
def test_row_19_classes_in_another_order_or_unknown(
    runs: Path, tmp_path: Path, mptctl: CommandLine, names: str
) -> None:
    torch.save(torchvision.models.resnet18(num_classes=5).state_dict(), tmp_path / "w.pt")
    flags = ("--run-root", runs, "--name", "x", "--set", "data.image_size=32")
    done = bring(mptctl, tmp_path / "w.pt", *flags, names=names)
    if "cow" in names:
        assert "--class-names: cow" in one_line(done, 5)
        assert not (runs / "x").exists()  # nothing is written of a model that cannot be used
        return
    assert done.returncode == 0, done.stderr
    report = json.loads(mptctl("evaluate", "x", "new", "--run-root", runs, "--json").stdout)
    assert report["n_old"] == (load_split(runs).labels[load_split(runs).indices("test")] < 5).sum()


def test_row_41_a_split_or_table_that_was_edited(runs: Path, mptctl: CommandLine) -> None:
    """One edit of each; tests/data/test_split_file.py has every key, and every damage of the table."""
    path, (table,) = runs / "split.json", runs.glob("split-*.arrow")
    whole, rows = path.read_text(), bytearray(table.read_bytes())
    path.write_text(json.dumps(json.loads(whole) | {"num_old": 4}))
    one_line(mptctl("evaluate", "old", "new", "--run-root", runs), 4)
    path.write_text(whole)
    rows[len(rows) // 2] ^= 1
    table.write_bytes(rows)
    one_line(mptctl("evaluate", "old", "new", "--run-root", runs), 4)
    one_line(mptctl("train-ref", "--run-root", runs, "--name", "x", *FLAGS), 4)


def test_row_51_a_run_that_was_killed_early(runs: Path, tmp_path: Path, mptctl: CommandLine) -> None:
    metrics = runs / "new" / "metrics.jsonl"
    lines = [line for line in metrics.read_text().splitlines() if json.loads(line)["event"] != "done"]
    metrics.write_text("\n".join(lines) + "\n")
    assert read_metrics(metrics)[-1].event == "checkpoint"
    outputs = [tmp_path / name for name in ("page.html", "page.md")]
    flags = [w for pair in zip(("--report", "--markdown"), outputs, strict=True) for w in pair]
    done = mptctl("evaluate", "old", "new", "--run-root", runs, "--max-nfr", "100", *flags)
    assert done.returncode == 3, done.stderr
    assert "--resume" in done.stderr
    for text in (done.stdout, *(path.read_text(encoding="utf-8") for path in outputs)):
        assert "not finished" in " ".join(text.split())
    words = ("--run-root", runs, "--max-nfr", "100")
    mptctl.must("evaluate", "old", "new", *words, "--allow-unfinished")
    shutil.move(metrics, runs / "old" / "metrics.jsonl")
    done = mptctl("evaluate", "old", "ref", *words, "--json")
    assert (done.returncode, bool(json.loads(done.stdout)["unfinished"])) == (3, True)
    # As a teacher.
    done = mptctl("train-mpt", "--run-root", runs, "--set", "optim.max_steps=1", "--device", "cpu")
    assert "not finished" in " ".join(done.stderr.split())


def rewrite(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change a checkpoint, with a digest that fits: somebody meant it."""
    content = torch.load(path, weights_only=True)
    change(content)
    try:
        content["digest"] = _compute_digest(content["meta"], content["model"], content["training"])
    except Exception:  # what has no digest keeps the old one
        content["digest"] = "0" * 64
    torch.save(content, path)


def _sparse(content: dict[str, Any]) -> None:
    content["model"]["fc.weight"] = content["model"]["fc.weight"].to_sparse()


def _set(key: str, value: Any) -> Callable[[dict[str, Any]], object]:
    return lambda content: content.update({key: value})


def _weight(change: Callable[[torch.Tensor], Any]) -> Callable[[dict[str, Any]], object]:
    return lambda content: content["model"].update({"fc.weight": change(content["model"]["fc.weight"])})


def _recipe(group: str, **keys: object) -> Callable[[dict[str, Any]], object]:
    def change(content: dict[str, Any]) -> None:
        meta = json.loads(content["meta"])
        meta["recipe"][group] |= keys
        content["meta"] = json.dumps(meta)

    return change


ODD: dict[str, Callable[[dict[str, Any]], object]] = {
    "sparse": _sparse, "meta": _weight(lambda w: w.to("meta")), "complex": _weight(lambda w: w.to(torch.complex64)),
    "0-d": _weight(lambda w: w.sum()), "another shape": _weight(lambda w: w[:, :-1].clone()),
    "a list for a weight": _weight(lambda w: w.tolist()), "text for a weight": _weight(lambda w: "weights"),
    "a list as model": _set("model", [torch.ones(2)]), "nothing as model": _set("model", None),
    "an empty model": _set("model", {}), "a number as meta": _set("meta", 3), "no JSON as meta": _set("meta", "{"),
    "a list as meta": _set("meta", "[]"), "deep meta": _set("meta", "[" * 100_000),
    "a list as training": _set("training", [1]),
    "a width of 1e12": _recipe("model", embedding_dim=10**12), "a size of 1e9": _recipe("data", image_size=10**9),
    "another network": _recipe("model", arch="resnet50"), "no network": _recipe("model", arch="nothing"),
}  # fmt: skip


@pytest.mark.parametrize("kind", ODD)
def test_row_49_odd_checkpoints(runs: Path, mptctl: CommandLine, kind: str) -> None:
    rewrite(runs / "new" / "best.pt", ODD[kind])
    one_line(mptctl("evaluate", "old", "new", "--run-root", runs), 5)
    mptctl.must("runs", "--run-root", runs, "--json")


@pytest.mark.parametrize("training", [{}, {"optimizer": {}}, None])
def test_row_49_nothing_to_go_on_with(runs: Path, mptctl: CommandLine, training: object) -> None:
    rewrite(runs / "ref" / "last.pt", _set("training", training))
    (runs / "ref" / "previous.pt").unlink()
    one_line(go_on(mptctl, runs), 5)


@pytest.mark.parametrize("state", [
    [], {}, None, 3, {"w": "text"}, {"state_dict": []}, {1: 2}, {"fc.weight": torch.ones(2, dtype=torch.complex64)},
    {"fc.weight": torch.tensor(1.0)}, {"fc.weight": torch.eye(3).to_sparse()},
    {"fc.weight": torch.empty(2, device="meta")},
], ids=str)  # fmt: skip
def test_row_49_odd_state_dicts(tmp_path: Path, mptctl: CommandLine, state: object) -> None:
    torch.save(state, tmp_path / "w.pt")
    one_line(bring(mptctl, tmp_path / "w.pt", "--recipe", "digits", "--run-root", tmp_path / "runs"), 5)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("where", ["nowhere.pt", "loop.pt"])
def test_row_49_links_to_nothing_and_in_a_circle(runs: Path, mptctl: CommandLine, where: str) -> None:
    path = runs / "new" / "best.pt"
    path.write_bytes(path.read_bytes()[:1000])
    (runs / "new" / "loop.pt").symlink_to(runs / "new" / where)
    assert "last.pt" in one_line(mptctl("evaluate", "old", "new", "--run-root", runs), 5)
    path.unlink()
    path.symlink_to(runs / "new" / "loop.pt")
    one_line(mptctl("evaluate", "old", "new", "--run-root", runs), 5)
