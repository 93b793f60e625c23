"""Searches with Ray: what they write, and what a kill of the search or of a trial leaves."""

from __future__ import annotations

import signal
import subprocess
import tempfile
from pathlib import Path

import pytest

from mptctl.machine.cluster import INNER
from mptctl.models.checkpoint import load_checkpoint
from mptctl.recipe import load_recipe
from mptctl.tune.tune_report import TuneReport
from tests.forked import Forked, mptctl_process
from tests.tune.conftest import finished, rays_of, search, validations, wait_for

EPOCHS = 6
pytestmark = pytest.mark.slow
# The report of a search that was killed and resumed, its validations when it was killed, and its process.
Swept = tuple[TuneReport, dict[str, list[str]], Forked]


@pytest.fixture(scope="module")
def swept(runs: Path) -> Swept:
    """A search that was killed in its second trial and resumed; its validations when it was killed."""
    flags = [
        "--k", "0,2", "--max-concurrent", "1", "--set", f"optim.epochs={EPOCHS}", "--max-er-increase", "90",
    ]  # fmt: skip
    first = search(runs, *flags)
    trials = runs / "tune" / "trials"
    wait_for(
        lambda: len(validations(trials / "mpt-kl-k2")) >= 1 and (trials / "mpt-kl-k2" / "last.pt").exists(),
        first,
    )
    first.send_signal(signal.SIGKILL)
    first.communicate()
    before = {name: validations(trials / name) for name in ("mpt-kl-k0", "mpt-kl-k2")}
    again = search(runs, *flags, "--resume")
    report, said = finished(again)
    assert "mpt-kl-k0: running" not in said
    assert "mpt-kl-k2: running" in said
    return report, before, again


def searched_again(runs: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The search of `swept` with other flags, none of whose trials has to be trained again."""
    flags = ("--run-root", runs, "--set", "runtime.device=cpu", "--set", f"optim.epochs={EPOCHS}", "--resume")
    return mptctl_process("tune", *flags, "--k", "0,2", *words)


def test_a_killed_search_goes_on_and_repeats_nothing(runs: Path, swept: Swept) -> None:
    report, before, _ = swept
    trials = runs / "tune" / "trials"
    found = [(t.name, t.status, t.epoch) for t in report.trials]
    assert found == [("mpt-kl-k0", "done", EPOCHS), ("mpt-kl-k2", "done", EPOCHS)]
    assert len(before["mpt-kl-k0"]) == EPOCHS
    assert validations(trials / "mpt-kl-k0") == before["mpt-kl-k0"]
    assert 0 < len(before["mpt-kl-k2"]) < EPOCHS
    after = validations(trials / "mpt-kl-k2")
    assert len(after) == EPOCHS
    # An epoch that was validated, but whose checkpoint was not written yet, is done once more.
    assert after[: len(before["mpt-kl-k2"]) - 1] == before["mpt-kl-k2"][:-1]


def test_the_resumed_trial_is_the_one_that_was_never_killed(runs: Path, swept: Swept) -> None:
    trial = load_checkpoint(runs / "tune" / "trials" / "mpt-kl-k2" / "best.pt")
    done = mptctl_process(
        "train-mpt", "--run-root", runs, "--k", "2", "--name", "alone", "--cache-teachers", "--device", "cpu",
        "--set", f"optim.epochs={EPOCHS}", "--set", "runtime.threads=1",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    alone = load_checkpoint(runs / "alone" / "best.pt")
    assert all((weights == trial.model[name]).all() for name, weights in alone.model.items())


def test_the_choice_is_written_as_a_recipe_that_trains(runs: Path, swept: Swept) -> None:
    report, _, _ = swept
    chosen = report.trial(report.choice or "")
    assert chosen.val_nfr is not None
    assert all(chosen.val_nfr.count <= t.val_nfr.count for t in report.trials if t.val_nfr)
    best = runs / "tune" / "best.yaml"
    recipe = load_recipe(str(best))
    assert recipe == report.recipe.model_copy(
        update={"method": report.recipe.method.model_copy(update={"k": chosen.settings["method.k"]})}
    )
    shown = mptctl_process("train-mpt", "--run-root", runs, "--recipe", best, "--print-recipe")
    assert shown.stdout == recipe.to_yaml()
    planned = mptctl_process("train-mpt", "--run-root", runs, "--recipe", best, "--dry-run")
    assert planned.returncode == 0, planned.stderr


def test_figures_of_a_trial_are_those_of_its_best_checkpoint(runs: Path, swept: Swept) -> None:
    report, _, _ = swept
    for trial in report.trials:
        best = load_checkpoint(Path(trial.run) / "best.pt").meta.metrics
        assert trial.val_error is not None
        assert trial.val_nfr is not None
        assert trial.val_error.value == pytest.approx(best["val_error"])
        assert trial.val_nfr.value == pytest.approx(best["val_nfr"])
        assert (trial.val_error.of, trial.val_nfr.of) == (report.samples, report.samples_old)


def test_what_was_written_says_what_was_printed(runs: Path, swept: Swept) -> None:
    report, _, process = swept
    folder = runs / "tune"
    assert TuneReport.model_validate_json((folder / "trials.json").read_bytes()) == report
    files = {"best.yaml", "trials.json", "trials", "tune.html", "tune.png"}
    assert {path.name for path in folder.iterdir()} == files
    assert (folder / "tune.png").read_bytes().startswith(b"\x89PNG")
    assert (report.choice or "?") in (folder / "tune.html").read_text(encoding="utf-8")
    assert rays_of(process) == []
    leftovers = list(Path(tempfile.gettempdir()).glob(f"mptctl-*/{INNER}/session_*_{process.pid}"))
    assert leftovers == []


def test_a_tighter_bound_chooses_anew_without_training(runs: Path, swept: Swept) -> None:
    report, _, _ = swept
    done = searched_again(runs, "--max-er-increase", "-100")
    assert done.returncode == 3
    assert "no trial has a validation error of at most" in done.stderr
    assert "No choice" in done.stdout
    assert max(len(line) for line in done.stdout.splitlines()) <= 80
    assert not (runs / "tune" / "best.yaml").exists()
    other = searched_again(runs, "--seed", "5")
    assert other.returncode == 2
    assert "another search: runtime.seed: 0 -> 5" in other.stderr
    back = searched_again(runs, "--max-er-increase", "90")
    assert back.returncode == 0, back.stderr
    assert f"Choice: {report.choice}" in back.stdout
    assert (runs / "tune" / "best.yaml").exists()


def test_a_budget_chooses_anew_without_training_and_one_that_no_trial_keeps_ends_with_3(
    runs: Path, swept: Swept
) -> None:
    report, _, _ = swept
    kept = searched_again(runs, "--max-nfr", "90", "--json")
    assert kept.returncode == 0, kept.stderr
    found = TuneReport.model_validate_json(kept.stdout)
    assert (found.max_er_increase, found.max_nfr, found.confidence) == (None, 0.9, 0.95)
    # The lowest error; of trials that err as much, the one that flips less.
    counts = {
        t.name: (t.val_error.count, t.val_nfr.count) for t in report.trials if t.val_error and t.val_nfr
    }
    assert found.choice == min(counts, key=lambda name: counts[name])
    assert all(
        t.nfr_at_most is not None and t.val_nfr and t.nfr_at_most > (t.val_nfr.value or 0)
        for t in found.trials
    )
    assert "(at most " in (runs / "tune" / "best.yaml").read_text().splitlines()[0]
    # A budget that not even a trial without a flip could show to be kept is refused before anything else.
    none = searched_again(runs, "--max-nfr", "0.001")
    assert none.returncode == 2
    assert "cannot show it: without a single flip the bound is" in none.stderr.splitlines()[-1]
    assert (runs / "tune" / "best.yaml").exists()


def test_a_search_that_is_asked_to_stop_says_how_to_go_on(runs: Path) -> None:
    process = search(runs, "--name", "asked", "--k", "1", "--set", "optim.epochs=500")
    trial = runs / "asked" / "trials" / "mpt-kl-k1"
    wait_for(lambda: (trial / "last.pt").exists(), process)
    process.send_signal(signal.SIGTERM)
    out, said = process.communicate(timeout=120)
    assert process.returncode == 143
    assert out == ""
    assert said.splitlines()[-1].endswith("--resume")
    assert "stopped; what is done is kept" in said
    assert "Traceback" not in said
    assert rays_of(process) == []
    assert not (runs / "asked" / "ray").exists()


OPTUNA = (
    "--name", "optuna", "--sampler", "optuna", "--k", "0..8", "--asha", "--max-er-increase", "100",
    "--set", "optim.epochs=2", "--set", "optim.max_steps=20",
)  # fmt: skip


@pytest.fixture(scope="module")
def searched_by_optuna(runs: Path) -> TuneReport:
    """A search of one trial."""
    return finished(search(runs, *OPTUNA, "--trials", "1"))[0]


@pytest.mark.nightly
def test_optuna_with_early_stops(searched_by_optuna: TuneReport) -> None:
    (trial,) = searched_by_optuna.trials
    assert trial.status in {"done", "stopped"}
    assert 0 <= float(trial.settings["method.k"]) <= 8


@pytest.mark.nightly
def test_optuna_keeps_what_is_known(runs: Path, searched_by_optuna: TuneReport) -> None:
    more, _ = finished(search(runs, *OPTUNA, "--trials", "2", "--resume"))
    assert more.trials[:1] == searched_by_optuna.trials
    assert len(more.trials) == 2
    assert all(0 <= float(trial.settings["method.k"]) <= 8 for trial in more.trials)
