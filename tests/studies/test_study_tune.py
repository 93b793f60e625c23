"""Methods of a study that are tuned alike: trials on the validation part, the choice, its record and its cost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mptctl.errors import UsageError
from mptctl.models.metrics_log import MetricsLine, append_metrics
from mptctl.recipe import load_recipe
from mptctl.studies.study_file import load_study
from mptctl.studies.study_plan import plan_study
from mptctl.studies.tuning.trials import choose_tunings, plan_trials, with_tunings
from tests.common import CommandLine

STUDY = """
description: tuned alike
split: {source: digits}
recipe: digits
seeds: [4, 5]
set: {optim.max_steps: 3, runtime.device: cpu}
updates:
  - no-treatment
  - {method: pct-kl, tune: {search: {method.lam: 0.1..10:log}, trials: 3, max_er_increase: 1}}
  - {method: mpt-kl, tune: {search: {method.k: [0, 1, 2, 4]}, trials: 3}}
"""


@pytest.fixture
def study(tmp_path: Path) -> Path:
    file = tmp_path / "tuned.yaml"
    file.write_text(STUDY)
    return file


def test_each_row_has_its_trials_on_the_first_seed_after_a_reference(study: Path) -> None:
    loaded = load_study(str(study))
    trials = plan_trials(loaded, 4)
    assert [trial.row for trial in trials] == ["pct-kl"] * 3 + ["mpt-kl"] * 3
    assert len({trial.run.key for trial in trials}) == 6
    for trial in trials:
        assert trial.run.key.startswith(f"4/trials-{trial.row}/")
        assert trial.run.is_trial
        assert not trial.run.is_update
    lam = trials[0].run.recipe.method.lam
    assert lam == trials[0].settings["method.lam"]
    assert {trial.run.recipe.method.k for trial in trials[3:]} <= {0.0, 1.0, 2.0, 4.0}
    # pct-kl alone would need no reference; its error bounds the choice.
    alone = study.with_name("alone.yaml")
    alone.write_text(STUDY.rpartition("\n  - ")[0])
    assert "ref" in [run.name for run in plan_study(load_study(str(alone)), [4])]


def test_the_fewest_flips_within_the_limit_are_chosen_and_else_the_fewest_errors(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mptctl.studies.tuning.trials._work", lambda folders: 5.0)
    loaded = load_study(str(study))
    trials = plan_trials(loaded, 4)
    log(tmp_path / "4" / "ref", errors=20, flips=0)
    # Of 200: 22 is one point above 20, 23 is more.
    for trial, errors, flips in zip(trials, (22, 23, 21, 40, 39, 41), (7, 1, 9, 1, 2, 3), strict=True):
        log(tmp_path / trial.run.key, errors, flips)
    tunings = choose_tunings(loaded, trials, tmp_path)
    assert tunings["pct-kl"].chosen == trials[0].settings
    assert [trial.within for trial in tunings["pct-kl"].trials] == [True, False, True]
    assert tunings["mpt-kl"].chosen == trials[4].settings
    assert not any(trial.within for trial in tunings["mpt-kl"].trials)
    settled = with_tunings(loaded, tunings)
    assert settled.updates["pct-kl"].method.lam == trials[0].settings["method.lam"]
    assert settled.updates["no-treatment"] == loaded.updates["no-treatment"]


def log(folder: Path, errors: int, flips: int) -> None:
    """The log of a run of one epoch, on 200 validation samples."""
    folder.mkdir(parents=True)
    figures = {"val_error": errors / 200, "val_errors": errors, "val_samples": 200, "val_flips": flips}
    line = {"event": "epoch", "epoch": 1, "step": 3, **figures, "val_errors_old": 0, "val_samples_old": 100}
    append_metrics(folder / "metrics.jsonl", MetricsLine.model_validate(line))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("method.lam:", "method.lamb:", "did you mean method.lam"),
        ("0.1..10:log", "10..1", "LOW below HIGH"),
        ("method.lam:", "method.k:", "method.k: pct-kl does not use it"),
        ("trials: 3, max", "trials: 0, max", "trials"),
        ("{method.lam: 0.1..10:log}", "{}", "search"),
        ("{method: pct-kl,", "{method: pct-kl, name: trials-a,", "nothing that begins with old- or trials-"),
        (
            "{method: pct-kl,",
            "{method: pct-kl, seeds: [5],",
            "leave out 4, the study's first, on which it is",
        ),
    ],
)
def test_a_search_that_makes_no_sense_is_refused(study: Path, old: str, new: str, message: str) -> None:
    study.write_text(STUDY.replace(old, new))
    with pytest.raises(UsageError, match=message):
        plan_trials(load_study(str(study)), 4)


def test_a_dry_run_has_the_trials_of_the_first_seed_for_every_seed_and_wants_a_validation_part(
    study: Path, tmp_path: Path, mptctl: CommandLine
) -> None:
    words = ("study", study, "--run-root", tmp_path / "runs", "--dry-run")
    planned = json.loads(mptctl(*words, "--seeds", "5", "--json").stdout)["runs"]
    runs = [(run["seed"], run["run"].partition("/")[0]) for run in planned]
    assert runs[:2] == [(4, "old"), (4, "ref")]
    assert runs[2:8] == [(4, "trials-pct-kl")] * 3 + [(4, "trials-mpt-kl")] * 3
    assert (4, "pct-kl") not in runs
    assert (5, "pct-kl") in runs
    study.write_text(STUDY.replace("source: digits", "source: digits, val_fraction: 0"))
    refused = mptctl(*words)
    assert refused.returncode == 2
    assert "is chosen on the validation part, and this split has none" in refused.stderr


@pytest.mark.slow
def test_a_study_tunes_trains_and_says_what_was_chosen(
    study: Path, tmp_path: Path, mptctl: CommandLine
) -> None:
    study.write_text(STUDY.replace("seeds: [4, 5]", "seeds: [4]").replace("trials: 3", "trials: 2"))
    root = tmp_path / "runs"
    words = ("study", study, "--run-root", root)
    planned = json.loads(mptctl(*words, "--dry-run", "--json").stdout)
    assert sum(run["run"].startswith("trials-") for run in planned["runs"]) == 4
    done = mptctl(*words, "--parallel", "2", "--json")
    assert done.returncode == 0, done.stderr
    rows = {row["name"]: row for row in json.loads(done.stdout)["comparison"]["rows"]}
    assert rows["no-treatment"]["tuning"] is None
    tuning = rows["pct-kl"]["tuning"]
    assert tuning["trials"] == 2
    assert tuning["cost"] == pytest.approx(2 * (rows["pct-kl"]["cost"]), rel=1e-6)
    recipe = load_recipe(str(root / "4" / "pct-kl" / "recipe.yaml"))
    assert recipe.method.lam == tuning["chosen"]["method.lam"]
    assert not list(root.rglob("trials-*/*/answers.npz"))  # no trial saw the test part
    planned = json.loads(mptctl(*words, "--dry-run", "--json").stdout)
    assert {run["standing"] for run in planned["runs"]} == {"done"}
    compared = mptctl("compare", root)
    assert "tuning" in compared.stdout
    assert "chosen among 2 trials by the validation part of seed 4" in compared.stdout.replace("\n", " ")
    again = mptctl(*words, "--json")  # nothing is trained again
    assert again.returncode == 0, again.stderr
    assert [row["tuning"] for row in json.loads(again.stdout)["comparison"]["rows"]] == [
        row["tuning"] for row in rows.values()
    ]
