"""Row 49: checkpoints and state dicts that are sound files and hold something odd."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from mptctl.models.checkpoint import _compute_digest
from tests.common import CommandLine
from tests.faults.test_checkpoints import FLAGS, one_line


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
    done = mptctl("runs", "--run-root", runs, "--json")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("training", [{}, {"optimizer": {}}, None])
def test_row_49_nothing_to_go_on_with(runs: Path, mptctl: CommandLine, training: object) -> None:
    rewrite(runs / "ref" / "last.pt", _set("training", training))
    (runs / "ref" / "previous.pt").unlink()
    one_line(mptctl("train-ref", "--run-root", runs, "--resume", *FLAGS, "--seed", "1"), 5)


@pytest.mark.parametrize("state", [
    [], {}, None, 3, {"w": "text"}, {"state_dict": []}, {1: 2}, {"fc.weight": torch.ones(2, dtype=torch.complex64)},
    {"fc.weight": torch.tensor(1.0)}, {"fc.weight": torch.eye(3).to_sparse()},
    {"fc.weight": torch.empty(2, device="meta")},
], ids=str)  # fmt: skip
def test_row_49_odd_state_dicts(tmp_path: Path, mptctl: CommandLine, state: object) -> None:
    torch.save(state, tmp_path / "w.pt")
    (tmp_path / "names.txt").write_text("0\n1\n")
    words = ("import", tmp_path / "w.pt", "--arch", "resnet18", "--class-names", tmp_path / "names.txt")
    one_line(mptctl(*words, "--recipe", "digits", "--run-root", tmp_path / "runs"), 5)
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
