"""`mptctl study` on a chain from training to table, and `mptctl chain` on what it left."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mptctl.inference.named_models import load_predictions
from mptctl.names import Session
from tests.common import CommandLine
from tests.forked import mptctl_process
from tests.studies.test_chain import made_chain

STUDY = """
description: a chain that is trained in seconds
split: {source: digits}
generations: [0.5, 0.75, 1.0]
recipe: digits
set: {optim.max_steps: 12, runtime.device: cpu, runtime.threads: 1}
updates: [pct-kl]
seeds: [3]
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The folder of a chain, and what its study printed; not to be changed."""
    folder = tmp_path_factory.mktemp("chain")
    (folder / "small.yaml").write_text(STUDY, encoding="utf-8")
    words = ("study", folder / "small.yaml", "--run-root", folder / "runs", "--results", folder / "kept")
    done = mptctl_process(*words, "--parallel", "1", "--json")
    assert done.returncode == 0, done.stderr
    return {"folder": folder, "report": json.loads(done.stdout), "said": done.stderr, "words": words}


def right_of(run: Path) -> dict[str, tuple[str, bool]]:
    """True class, and whether the model is right, by the id of each test sample of its split."""
    found = load_predictions({"run": run.name}, Session(run.parent), part="test").models["run"]
    return {
        sample: (str(label), bool(label == answer))
        for sample, label, answer in zip(
            found.ids.tolist(), found.labels.tolist(), found.preds.tolist(), strict=True
        )
    }


@pytest.mark.slow
def test_a_chain_is_trained_and_its_flips_are_those_of_the_predictions(trained: dict[str, Any]) -> None:
    report, root = trained["report"], trained["folder"] / "runs" / "3"
    assert [(row["run"], row["status"]) for row in report["runs"]] == [
        ("1/old", "done"), ("1/pct-kl", "done"), ("2/pct-kl", "done"),
    ]  # fmt: skip
    assert report["comparison"] is None
    models = [right_of(root / name) for name in ("1/old", "1/pct-kl", "2/pct-kl")]
    splits = [json.loads((root / stage / "split.json").read_text()) for stage in ("1", "2")]
    known = [set(split["class_names"][: split["num_old"]]) for split in splits]
    assert [len(names) for names in known] == [5, 7]

    def right(model: int, classes: set[str]) -> NDArray[np.bool_]:
        samples = sorted(name for name, (label, _) in models[2].items() if label in classes)
        return np.array([models[model][name][1] for name in samples])

    first, second, third = (right(model, known[0]) for model in range(3))
    earlier, later = report["chain"]["rows"]
    assert (earlier["flips_first"]["count"], earlier["flips_first"]["of"]) == (
        int((first & ~second).sum()), len(first),
    )  # fmt: skip
    assert later["flips_before"]["count"] == int((right(1, known[1]) & ~right(2, known[1])).sum())
    assert later["flips_before"]["of"] == len(right(1, known[1]))
    counts = {
        "flips_first": first & ~third,
        "new": first & second & ~third,
        "lasting": first & ~second & ~third,
        "healed": first & ~second & third,
    }
    assert {name: later[name]["count"] for name in counts} == {
        name: int(mask.sum()) for name, mask in counts.items()
    }
    assert sum(int(mask.sum()) for mask in counts.values()) > 0
    assert later["er_all"]["count"] == sum(not hit for _, hit in models[2].values())


@pytest.mark.slow
def test_the_table_is_made_again_from_what_is_kept_and_nothing_is_trained_twice(
    trained: dict[str, Any], mptctl: CommandLine, tmp_path: Path
) -> None:
    files = ("--markdown", tmp_path / "t.md", "--figure", tmp_path / "t.png")
    done = mptctl("chain", trained["folder"] / "kept" / "small", "--json", *files)
    assert done.returncode == 0, done.stderr
    again, before = json.loads(done.stdout), trained["report"]["chain"]
    for found in (again, before):
        for each in (*found["rows"], *found["first"]):
            del each["run"]
    assert again == before
    assert all(path.stat().st_size for path in (tmp_path / "t.md", tmp_path / "t.png"))
    plan = mptctl(*trained["words"][:4], "--dry-run", "--json")
    assert plan.returncode == 0, plan.stderr
    assert {row["standing"] for row in json.loads(plan.stdout)["runs"]} == {"done"}


def test_a_plan_of_a_chain_counts_the_classes_of_each_generation(mptctl: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(STUDY.replace("optim.max_steps: 12, ", "optim.epochs: 1, "))
    done = mptctl("study", tmp_path / "small.yaml", "--run-root", tmp_path / "runs", "--dry-run", "--json")
    assert done.returncode == 0, done.stderr
    rows = {row["run"]: row for row in json.loads(done.stdout)["runs"]}
    assert {name: row["teachers"] for name, row in rows.items()} == {
        "1/old": [], "1/pct-kl": ["3/1/old"], "2/pct-kl": ["3/1/pct-kl"],
    }  # fmt: skip
    steps = [row["steps"] for row in rows.values()]
    assert steps == sorted(steps)
    assert steps[0] < steps[1] < steps[2]
    assert not (tmp_path / "runs").exists()


def test_generations_that_do_not_grow_are_refused(mptctl: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "shrinks.yaml"
    path.write_text(STUDY.replace("0.75, 1.0", "0.75, 0.6"), encoding="utf-8")
    done = mptctl("study", path, "--run-root", tmp_path / "runs")
    assert done.returncode == 2
    (said,) = done.stderr.splitlines()
    assert "generations: 0.6 comes after 0.75; each generation has to know more" in said
    assert not (tmp_path / "runs").exists()


def test_what_chain_cannot_show_is_named(mptctl: CommandLine, tmp_path: Path) -> None:
    root = made_chain(tmp_path / "study")
    for words, code, message in (
        ((tmp_path / "nowhere",), 5, "nowhere: no such folder; name the folder of a study"),
        ((tmp_path,), 5, "holds no run"),
        ((root / "1" / "2",), 5, "is not among these runs"),
        ((root, "--figure", tmp_path / "c.gif"), 2, "name a file that ends in .png or .svg"),
        ((root, "--markdown", root / "1" / "1" / "old" / "recipe.yaml"), 2, "--markdown"),
    ):
        done = mptctl("chain", *words)
        assert (done.returncode, done.stdout) == (code, ""), done.stderr
        assert message in done.stderr
    done = mptctl("compare", root)
    assert done.returncode == 5
    assert "its runs lie in generations; show them with mptctl chain" in done.stderr
    done = mptctl("chain", root)
    assert done.returncode == 0, done.stderr
    assert "generation 2" in done.stdout
