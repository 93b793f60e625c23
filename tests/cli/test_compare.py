"""`mptctl compare` from training to table."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from mptctl.data.split import make_split
from mptctl.training.request import RunRequest
from mptctl.training.train import train
from tests.common import CommandLine, Log, short_recipe


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two seeds of a plain update and of MPT on the digits; not to be changed."""
    root = tmp_path_factory.mktemp("study") / "digits-study"
    for seed in (1, 2):
        split = make_split("digits", run_root=root / str(seed), seed=seed)
        best = {name: root / str(seed) / name / "best.pt" for name in ("old", "ref")}
        runs = {
            "old": ("no-treatment", seed + 2000, None, ()),
            "ref": ("no-treatment", seed + 1000, None, ()),
            "no-treatment": ("no-treatment", seed, best["old"], ()),
            "mpt-kl": ("mpt-kl", seed, best["old"], (best["ref"],)),
        }
        for name, (method, run_seed, old, refs) in runs.items():
            recipe = short_recipe("optim.epochs=3", method=method, **{"runtime.seed": run_seed})
            folder = root / str(seed) / name
            request = RunRequest(
                recipe=recipe, split=split, folder=folder, old=old, refs=refs, only_old_classes=name == "old"
            )
            train(request, Log())
    return root


def test_the_same_table_from_names_from_run_folders_and_from_answers_alone(
    study: Path, mptctl: CommandLine, tmp_path: Path
) -> None:
    whole = mptctl("compare", study)
    assert whole.returncode == 0, whole.stderr
    assert max(map(len, whole.stdout.splitlines())) <= 80
    by_name = mptctl("compare", study.name, "--run-root", study.parent)
    assert by_name.stdout == whole.stdout
    runs = [study / str(seed) / name for name in ("mpt-kl", "no-treatment") for seed in (2, 1)]
    assert mptctl("compare", *runs).stdout == whole.stdout
    for run in study.glob("*/*/answers.npz"):
        kept = tmp_path / run.parent.relative_to(study)
        kept.mkdir(parents=True)
        for name in ("answers.npz", "recipe.yaml", "metrics.jsonl"):
            (kept / name).write_bytes((run.parent / name).read_bytes())
    assert mptctl("compare", tmp_path).stdout == whole.stdout
    two = {row["name"]: row for row in json.loads(mptctl("compare", study, "--json").stdout)["rows"]}
    assert [row["seeds"] for row in two.values()] == [[1, 2]] * 3
    # Two teachers are asked in each step, a third of a step's work each or less, and one was trained for it.
    asked = two["mpt-kl"]["cost_parts"].pop("asked")
    assert (two["no-treatment"]["cost"], two["mpt-kl"]["cost_parts"]) == (1, {"own": 1, "taught": 1})
    assert 0.6 < asked < 0.7
    one = json.loads(mptctl("compare", study / "1", "--json").stdout)
    assert {len(row["seeds"]) for row in one["rows"]} == {1}
    assert one["noise"]["over"] == "samples"
    assert one["rows"][0]["nfr"]["std"] is None


def test_an_unfinished_run_is_left_out_and_said(study: Path, mptctl: CommandLine, tmp_path: Path) -> None:
    root = shutil.copytree(study / "1", tmp_path / "runs")
    metrics = root / "mpt-kl" / "metrics.jsonl"
    metrics.write_text("".join(line + "\n" for line in metrics.read_text().splitlines()[:-1]))
    done = mptctl("compare", root)
    assert done.returncode == 0
    # On 80 columns a long path is broken anywhere.
    assert "mpt-kl:leftout:itsrunisnotfinished(epoch3)" in "".join(done.stdout.split())
    assert mptctl("compare", root / "mpt-kl").returncode == 5
