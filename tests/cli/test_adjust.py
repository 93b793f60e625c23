"""`adjust` on trained runs: what it writes, what `evaluate` makes of it, and what it refuses."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import pytest
import torch

from mptctl.data.split import make_split
from mptctl.inference.named_models import load_predictions
from mptctl.models.checkpoint import load_checkpoint, save_checkpoint
from mptctl.models.metrics_log import MetricsLine, append_metrics, read_metrics
from mptctl.models.run_folder import RunDir
from mptctl.names import Session
from mptctl.release.adjust import count_candidates
from mptctl.training.request import RunRequest
from mptctl.training.train import train
from tests.common import CommandLine, Log, short_recipe


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run root with an old model and a plain update; not to be written to."""
    root = tmp_path_factory.mktemp("trained")
    split = make_split("digits", run_root=root, val_fraction=0.3)
    for name, seed in (("old", 5), ("new", 0)):
        recipe = short_recipe("optim.epochs=6", f"runtime.seed={seed}")
        old = None if name == "old" else root / "old" / "best.pt"
        train(RunRequest(recipe, split, root / name, old=old, only_old_classes=name == "old"), Log())
    return root


@pytest.fixture
def root(trained: Path, tmp_path: Path) -> Path:
    return shutil.copytree(trained, tmp_path / "runs")


def test_the_run_keeps_the_budget_and_says_what_it_is(root: Path, mptctl: CommandLine) -> None:
    done = mptctl("adjust", "new", "--old", "old", "--max-nfr", "12", "--run-root", root, "--json")
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout)
    assert printed["run"] == str(root / "new-adjusted")
    assert printed["epochs"] == 6
    validation = printed["validation"]
    assert validation["nfr"] <= validation["bound"] <= 0.12
    assert printed["before"]["nfr"] > validation["nfr"]

    run = RunDir(root / "new-adjusted")
    source, adjusted = load_checkpoint(root / "new" / "best.pt"), load_checkpoint(run.best)
    assert adjusted.meta.recipe == source.meta.recipe
    assert adjusted.meta.split_fingerprint == source.meta.split_fingerprint
    kept = adjusted.meta.adjustment
    assert kept is not None
    assert (kept.adjusted, kept.digest, kept.max_nfr) == ("new", source.digest, 0.12)
    assert kept.biases == printed["chosen"]["biases"]
    for file in (run.recipe, run.split):
        assert file.read_text() == (root / "new" / file.name).read_text()
    assert [line.event for line in read_metrics(run.metrics)] == ["adjust", "done"]
    assert read_metrics(run.metrics)[0].adjustment == kept
    assert {path.name for path in run.path.iterdir()} == {
        "best.pt", "recipe.yaml", "split.json", "environment.json", "metrics.jsonl",
        *(path.name for path in root.glob("split-*.arrow")),
    }  # fmt: skip
    # Only the classifier's bias is another one, on new classes alone, and the logits are shifted by it.
    changed = [key for key in source.model if not torch.equal(source.model[key], adjusted.model[key])]
    assert changed == ["fc.bias"]
    models = {"old": "old", "new": "new", "adjusted": "new-adjusted"}
    found = load_predictions(models, Session(root), part="val").models
    before, after = (torch.from_numpy(found[name].logits) for name in ("new", "adjusted"))
    taken = torch.tensor([printed["chosen"]["biases"].get(c, 0.0) for c in source.meta.class_names])
    assert taken[: source.meta.num_old].tolist() == [0.0] * source.meta.num_old
    assert (taken[source.meta.num_old :] > 0).all()
    assert torch.allclose(before - taken, after, atol=1e-6, rtol=1e-6)
    # The rates that were printed are those of the written model's own answers.
    wrong = found["adjusted"].preds != found["adjusted"].labels
    assert adjusted.meta.metrics["val_errors"] == int(wrong.sum())
    assert (found["adjusted"].ids == found["old"].ids).all()
    flips = int((wrong & (found["old"].preds == found["old"].labels)).sum())
    assert adjusted.meta.metrics["val_flips"] == flips
    if printed["chosen"]["kind"] == "bias":
        assert (validation["flips"], validation["errors"]) == (flips, int(wrong.sum()))


def test_what_no_epoch_was_chosen_for_has_the_whole_level(
    root: Path, mptctl: CommandLine, tmp_path: Path
) -> None:
    """The last epoch was not chosen; a checkpoint without its log is of any epoch that the recipe has."""
    lone = tmp_path / "lone" / "best.pt"
    lone.parent.mkdir()
    shutil.copy(root / "new" / "best.pt", lone)
    for model, epochs in ((root / "new" / "last.pt", 1), (lone, 6)):
        words = ("--max-nfr", "15", "--run-root", root, "--name", model.stem, "--json", "--overwrite")
        done = mptctl("adjust", model, "--old", "old", *words)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["epochs"] == epochs


NFR_BUDGET = {"name": "mpt-kl", "max_nfr": 20.0}
LATE_ELODI = {"name": "elodi", "elodi_start_epoch": 2}


@pytest.mark.parametrize(
    ("steps", "planned", "method", "candidates"),
    [
        ((6, 12, 18), 18, {}, 3),
        ((6, 12, 14), 14, {}, 3),  # optim.max_steps ends the run in its third epoch
        ((6, 12, 14, 18), 18, {}, 4),  # and was then raised
        ((4, 6, 12), 12, {}, 3),  # so in the first epoch
        ((6, 12, 14), 14, LATE_ELODI, 1),
        ((6, 12, 18, 24, 27), 27, NFR_BUDGET, 2),  # the last quarter of five epochs: the fourth and the fifth
        ((6, 12, 18), 57, {}, 10),  # optim.patience ended it after 3 of 10 epochs
        ((6, 12, 18), 57, LATE_ELODI, 8),
    ],
)
def test_each_validation_that_could_have_been_the_best_is_a_candidate(
    steps: tuple[int, ...],
    planned: int,
    method: dict[str, object],
    candidates: int,
    trained: Path,
    tmp_path: Path,
) -> None:
    source = load_checkpoint(trained / "new" / "best.pt")
    recipe = source.meta.recipe
    recipe = recipe.model_copy(update={"method": recipe.method.model_copy(update=method)})
    path = tmp_path / "best.pt"
    save_checkpoint(path, source.meta.model_copy(update={"recipe": recipe}), source.model)
    for step in steps:
        for event, total in (("step", planned), ("epoch", None)):
            line = MetricsLine(event=event, epoch=math.ceil(step / 6), step=step, total_steps=total)
            append_metrics(tmp_path / "metrics.jsonl", line)
    assert count_candidates(load_checkpoint(path)) == candidates


def test_a_model_that_unknown_pictures_trained_is_adjusted_with_a_warning(
    root: Path, mptctl: CommandLine, tmp_path: Path
) -> None:
    """The promise rests on validation pictures that trained neither model."""
    known = load_checkpoint(root / "new" / "best.pt")
    meta = known.meta.model_copy(update={"origin": "imported", "split_fingerprint": None})
    save_checkpoint(tmp_path / "theirs.pt", meta, known.model)
    words = ("--old", "old", "--max-nfr", "15", "--run-root", root, "--json", "--name")
    for new, warned in ((root / "new" / "best.pt", False), (tmp_path / "theirs.pt", True)):
        done = mptctl("adjust", new, *words, f"of-{new.stem}")
        assert done.returncode == 0, done.stderr
        said = any("nothing says which pictures trained it" in w for w in json.loads(done.stdout)["warnings"])
        assert said == warned


def test_a_run_of_another_root_is_adjusted_on_its_own_split_and_stays_there(
    root: Path, mptctl: CommandLine, tmp_path: Path
) -> None:
    words = ("--old", root / "old", "--max-nfr", "12", "--run-root", tmp_path / "elsewhere")
    done = mptctl("adjust", root / "new", *words)
    assert done.returncode == 0, done.stderr
    assert (root / "new-adjusted" / "best.pt").exists()
    assert not (tmp_path / "elsewhere").exists()


def test_a_temperature_changes_calibration_alone_and_needs_no_old_model(
    root: Path, mptctl: CommandLine
) -> None:
    done = mptctl("adjust", "new", "--temperature", "--run-root", root, "--json", "--name", "cool")
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout)
    assert printed["chosen"]["kind"] == "none"
    assert printed["chosen"]["temperature"] != 1
    assert printed["validation"]["nll"] < printed["before"]["nll"]
    assert printed["validation"]["nfr"] is None
    found = load_predictions({"new": "new", "cool": "cool"}, Session(root), part="test").models
    assert (found["new"].preds == found["cool"].preds).all()


def test_where_no_temperature_fits_best_nothing_is_written(root: Path, mptctl: CommandLine) -> None:
    """Every answer is wrong where the classes have each other's names: hotter is always better."""
    source = load_checkpoint(root / "new" / "best.pt")
    names = source.meta.class_names
    meta = source.meta.model_copy(update={"class_names": (*names[1:], names[0])})
    save_checkpoint(root / "new" / "best.pt", meta, source.model)
    done = mptctl("adjust", "new", "--temperature", "--run-root", root)
    assert done.returncode == 4
    assert "--temperature: there is none: the fit diverges" in done.stderr
    assert not (root / "new-adjusted").exists()


def test_no_validation_part_and_another_split_are_refused(root: Path, mptctl: CommandLine) -> None:
    budget = ("--old", "old", "--max-nfr", "12", "--run-root", root)
    make_split("digits", run_root=root, val_fraction=0.2, overwrite=True)
    done = mptctl("adjust", "new", *budget)
    assert done.returncode == 5
    assert "was trained on the split" in done.stderr
    make_split("digits", run_root=root, val_fraction=0.0, overwrite=True)
    recipe = short_recipe("optim.max_steps=1")
    train(RunRequest(recipe, make_split("digits", run_root=root, val_fraction=0.0), root / "own"), Log())
    done = mptctl("adjust", "own", *budget)
    assert done.returncode == 2
    assert "no validation part" in done.stderr


def test_what_was_adjusted_or_is_not_finished_is_refused(root: Path, mptctl: CommandLine) -> None:
    budget = ("--old", "old", "--max-nfr", "12", "--run-root", root)
    assert mptctl("adjust", "new", *budget).returncode == 0
    for new, code, said in (
        ("new", 2, "already holds a run; write anew with --overwrite"),
        ("new --overwrite", 0, ""),
        ("new-adjusted", 2, "was adjusted before"),
        ("new-adjusted --temperature", 0, ""),
    ):
        flags = ("--run-root", root) if "--temperature" in new else budget
        done = mptctl("adjust", *new.split(), *flags)
        assert (done.returncode, said in done.stderr, "--resume" in done.stderr) == (code, True, False)
    for name in ("old", "new"):
        metrics = root / name / "metrics.jsonl"
        whole = metrics.read_text()
        metrics.write_text("".join(line for line in whole.splitlines(True) if '"done"' not in line))
        done = mptctl("adjust", "new", *budget, "--overwrite")
        assert (done.returncode, "not finished" in done.stderr) == (2, True)
        assert f"{name}/best.pt" in done.stderr
        metrics.write_text(whole)


def test_the_test_part_is_not_read(root: Path, mptctl: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    from mptctl.data.split import Split

    seen = []
    indices = Split.indices

    def watched(self: Split, part: str, *more: int) -> object:
        seen.append(part)
        return indices(self, part, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(Split, "indices", watched)
    assert mptctl("adjust", "new", "--old", "old", "--max-nfr", "12", "--run-root", root).returncode == 0
    assert "val" in seen
    assert "test" not in seen
