"""`mptctl compare` from training to table."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from mptctl.data.split import make_split
from mptctl.evaluation.evaluate import compare as evaluate
from mptctl.inference.named_models import load_predictions
from mptctl.names import Session
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


def test_end_to_end(study: Path, mptctl: CommandLine) -> None:
    done = mptctl("compare", study, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    rows = {row["name"]: row for row in found["rows"]}
    assert list(rows) == ["no-treatment", "plain, bias taken off", "mpt-kl"]
    for name in ("no-treatment", "mpt-kl"):
        row = rows[name]
        assert row["method"] == name
        assert row["seeds"] == [1, 2]
        for i, seed in enumerate((1, 2)):
            root = study / str(seed)
            models = load_predictions({"old": "old", "new": name}, Session(root), part="test").models
            report = evaluate(models["old"], models["new"])
            assert row["nfr"]["values"][i] == report.nfr
            assert row["rel_nfr"]["values"][i] == report.rel_nfr
            assert row["er_old"]["values"][i] == report.new.er_old_classes
            assert row["er_all"]["values"][i] == report.new.er_all
            assert row["flips"]["values"][i] == [report.counts.negative_flips, report.n_old]
        assert row["nfr"]["mean"] == pytest.approx(np.mean(row["nfr"]["values"]), abs=1e-12)
        assert row["nfr"]["std"] == pytest.approx(np.std(row["nfr"]["values"], ddof=1), abs=1e-12)
    # Two teachers are asked in each step, a third of a step's work each or less, and one was trained for it.
    assert rows["no-treatment"]["cost"] == 1
    assert rows["mpt-kl"]["cost_parts"]["own"] == 1
    assert rows["mpt-kl"]["cost_parts"]["taught"] == 1
    assert 0.6 < rows["mpt-kl"]["cost_parts"]["asked"] < 0.7
    again = mptctl("compare", study, "--json")
    assert again.stdout == done.stdout


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
