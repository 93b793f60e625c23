"""Comparing updates: by hand, against pandas, and what is refused."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from mptctl.data.split import Split
from mptctl.errors import CheckpointError
from mptctl.evaluation.evaluate import compare as evaluate
from mptctl.inference.named_models import load_predictions
from mptctl.models.checkpoint import load_checkpoint
from mptctl.models.metrics_log import MetricsLine, append_metrics
from mptctl.names import Session
from mptctl.report.documents.comparison_files import render_csv
from mptctl.studies.answers import run_answers
from mptctl.studies.answers_file import PartAnswers, no_answers, write_answers
from mptctl.studies.compare import compare_runs
from mptctl.studies.comparison import BIAS_ROW, Comparison, ComparisonRow
from tests.common import CommandLine, Train, short_recipe
from tests.studies.made_runs import (
    CALIBRATION,
    CLASSES,
    FORWARD,
    NUM_OLD,
    STEP,
    made_part,
    made_run,
    made_seed,
    random_part,
)

EXACT = 1e-12


def row(comparison: Comparison, name: str) -> ComparisonRow:
    return next(each for each in comparison.rows if each.name == name)


def part_of(answers: list[int], label: list[int], gaps: list[float] | None = None) -> PartAnswers:
    """Answers as they are given; a new answer beats the best old class, 0, by 1 or by a gap of its own."""
    logits = np.full((len(answers), CLASSES), -10.0)
    logits[:, 0] = 0.0
    for i, answer in enumerate(answers):
        logits[i, answer] = (gaps[i] if gaps else 1.0) if answer else 0.0
    return made_part(np.array(label), logits)


# Ten samples: six of old classes, four of new ones. The old model gets five of the six right.
LABEL = [0, 0, 0, 1, 1, 2, 3, 3, 4, 5]
OLD = [0, 0, 0, 1, 1, 0, 0, 0, 0, 0]
# Two of the five are lost, one of the six is gained, and of the four new ones one is wrong.
PLAIN = [3, 3, 0, 1, 1, 2, 3, 3, 4, 0]
# One is lost, none is gained, two new ones are wrong.
MPT = [3, 0, 0, 1, 1, 0, 3, 0, 4, 0]


def by_hand(root: Path, seed: int = 1) -> None:
    def part(answers: list[int], gaps: list[float] | None = None) -> PartAnswers:
        return part_of(answers, LABEL, gaps)

    # Taking 0.5 off mends the first sample, 0.6 the second; from 0.8 on new classes are lost.
    gaps = [0.5, 0.6, 1, 1, 1, 1, 0.8, 1, 1, 1]
    old = made_part(np.array(LABEL), np.eye(CLASSES)[OLD][:, :NUM_OLD])
    made_run(root / "old", "no-treatment", seed, old, old, old=None, num_known=NUM_OLD)
    made_run(root / "no-treatment", "no-treatment", seed, part(PLAIN, gaps), part(PLAIN, gaps))
    made_run(root / "mpt-kl", "mpt-kl", seed, part(MPT), part(MPT), refs=1)


def test_by_hand(tmp_path: Path) -> None:
    by_hand(tmp_path)
    comparison = compare_runs([tmp_path])
    assert [each.name for each in comparison.rows] == ["no-treatment", BIAS_ROW, "mpt-kl"]
    plain, mpt = row(comparison, "no-treatment"), row(comparison, "mpt-kl")
    assert plain.flips.values == [(2, 6)]
    assert plain.nfr.values == [2 / 6]
    assert (plain.nfr.mean, plain.nfr.std) == (2 / 6, None)
    assert plain.er_old.mean == pytest.approx(2 / 6, abs=EXACT)
    assert plain.rel_nfr.mean == pytest.approx((2 / 6) / ((5 / 6) * (2 / 6)), abs=EXACT)
    assert plain.errors.values == [(3, 10)]
    assert plain.er_all.mean == pytest.approx(0.3, abs=EXACT)
    assert plain.pfr.mean == pytest.approx(1 / 6, abs=EXACT)
    assert plain.lost.mean == pytest.approx(2 / 5, abs=EXACT)
    assert mpt.flips.values == [(1, 6)]
    assert mpt.errors.values == [(4, 10)]
    assert mpt.er_old.mean == pytest.approx(2 / 6, abs=EXACT)
    assert comparison.old[0].er_old.values == [1 / 6]
    # MPT errs on 4 of 10 validation samples. So does plain once 1.0 is off; at 0.6 both flips are mended.
    rival = row(comparison, BIAS_ROW)
    assert rival.bias is not None
    assert rival.bias.values == [1.0]
    assert rival.flips.values == [(0, 6)]
    assert rival.errors.values == [(4, 10)]
    assert comparison.bias_held_against == {"all": "mpt-kl"}
    assert rival.best == ["nfr", "er_old"]
    assert rival.rel_nfr.model_dump() == {"mean": None, "std": None, "values": [None]}
    assert (mpt.best, plain.best) == (["rel_nfr"], ["er_all"])
    # One forward and backward pass, the forward passes of both teachers (4 and 10), and the reference's training.
    assert plain.cost == rival.cost == 1.0
    assert mpt.cost == pytest.approx(1 + (4 + FORWARD) / STEP + 1, abs=EXACT)
    assert mpt.parameters == 1234
    assert comparison.noise.over == "samples"


def test_old_models_alone_have_their_calibration(tmp_path: Path) -> None:
    by_hand(tmp_path)
    root, label = tmp_path, np.array(LABEL)
    shutil.move(root / "old", root / "old-ce")
    for name in ("no-treatment", "mpt-kl", "ref"):
        shutil.rmtree(root / name, ignore_errors=True)
    # This one is better calibrated.
    other = made_part(label, np.eye(CLASSES)[[1, 1, 0, 0, 0, 2, 0, 0, 0, 0]][:, :NUM_OLD])
    kept = CALIBRATION.model_copy(update={"ece": 0.05})
    made_run(
        root / "old-ls", "no-treatment", 1, other, other, old=None, num_known=NUM_OLD, calibration=kept,
        settings={"criterion.name": "ls"},
    )  # fmt: skip
    for folders in ([root], [root / "old-ce", root / "old-ls"]):
        comparison = compare_runs(folders)
        assert (comparison.rows, comparison.old) == ([], [])
        assert comparison.calibration is not None
        assert [(each.old, each.ece.values, each.temperature.mean) for each in comparison.calibration] == [
            ("old-ce", [0.2], 2.0), ("old-ls", [0.05], 2.0),
        ]  # fmt: skip
        assert render_csv(comparison) == "name,method,part,equal_error,seeds\n"
    made_run(root / "ref", "no-treatment", 1, other, other, old=None)
    with pytest.raises(CheckpointError, match="no update there"):
        compare_runs([root])


def test_a_plain_update_that_begins_with_the_reference_is_no_unit_of_cost(tmp_path: Path) -> None:
    by_hand(tmp_path)
    warm = part_of(PLAIN, LABEL)
    made_run(
        tmp_path / "a-warm", "no-treatment", 1, warm, warm, refs=1, settings={"method.init": "ref"}
    )  # first by its name
    comparison = compare_runs([tmp_path])
    assert [each.name for each in comparison.rows] == ["a-warm", "no-treatment", BIAS_ROW, "mpt-kl"]
    assert row(comparison, "no-treatment").cost == 1.0
    assert row(comparison, BIAS_ROW).bias.values == [1.0]


def test_costs_are_in_units_of_one_plain_row(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for seed in (1, 2, 3):
        runs = made_seed(tmp_path / str(seed), seed, {"no-treatment": 2.0, "mpt-kl": 3.0})
        test, val = (random_part(rng, part.label, 2.0) for part in (runs["old"].test, runs["old"].val))
        longer = made_run(
            tmp_path / str(seed) / "no-treatment-long", "no-treatment", seed, test, val,
            settings={"optim.epochs": 48},
        )  # fmt: skip
        work = longer.head.work.model_copy(update={"pictures": 3 * longer.head.work.pictures})
        write_answers(replace(longer, head=longer.head.model_copy(update={"work": work})))
    whole = compare_runs([tmp_path])
    assert row(whole, "no-treatment-long").cost == 3.0
    shutil.rmtree(tmp_path / "3" / "no-treatment")
    assert row(compare_runs([tmp_path]), "mpt-kl").cost is None


def test_of_several_seeds_means_deviations_and_an_ensemble_are_as_pandas_finds_them(tmp_path: Path) -> None:
    strengths = {"no-treatment": 3.2, "pct-kl": 2.6, "mpt-kl": 2.8, "mpt-lm": 2.8, "elodi": 2.7}
    for seed in (1, 2, 10):
        made_seed(tmp_path / str(seed), seed, strengths)
    comparison = compare_runs([tmp_path])
    frame = pd.concat([_long(tmp_path / str(seed), seed) for seed in (1, 2, 10)])
    assert [each.name for each in comparison.rows] == [
        "no-treatment", BIAS_ROW, "pct-kl", "mpt-kl", "mpt-lm", "elodi",
    ]  # fmt: skip
    assert comparison.noise.over == "seeds and samples"
    for method, samples in frame[frame["run"] != "old"].groupby("run"):
        found = row(comparison, str(method))
        of_old = samples[samples["label"] < NUM_OLD]
        of_old = of_old.assign(flip=of_old["old_right"] & ~of_old["right"])
        per_seed = of_old.groupby("seed").agg(
            nfr=("flip", "mean"), right=("right", "mean"), old=("old_right", "mean")
        )
        per_seed["er_old"] = 1 - per_seed["right"]
        per_seed["er_all"] = 1 - samples.groupby("seed")["right"].mean()
        per_seed["rel_nfr"] = per_seed["nfr"] / (per_seed["old"] * per_seed["er_old"])
        assert found.seeds == [1, 2, 10]
        for column in ("nfr", "rel_nfr", "er_old", "er_all"):
            spread = getattr(found, column)
            np.testing.assert_allclose(spread.values, per_seed[column], rtol=0, atol=EXACT)
            assert spread.mean == pytest.approx(per_seed[column].mean(), abs=EXACT)
            assert spread.std == pytest.approx(per_seed[column].std(ddof=1), abs=EXACT)
    assert row(comparison, "elodi").cost == pytest.approx(1 + (4 + 2 * FORWARD) / STEP + 2, abs=EXACT)


def _long(root: Path, seed: int) -> pd.DataFrame:
    """One line for each run and sample, read from the files by pandas and numpy alone."""
    frames = []
    for folder in sorted(root.iterdir()):
        with np.load(folder / "answers.npz") as arrays:
            answer = np.where(arrays["test_gap"] > 0, arrays["test_new_answer"], arrays["test_old_answer"])
            columns = {"label": arrays["test_label"], "sample": arrays["test_index"].cumsum()}
        frame = pd.DataFrame(columns | {"run": folder.name, "seed": seed})
        frames.append(frame.assign(right=answer == frame["label"]))
    frame = pd.concat(frames)
    old = frame[frame["run"] == "old"].set_index("sample")["right"].rename("old_right")
    return frame.join(old, on="sample")


def test_equal_methods_are_within_noise_and_a_planted_difference_is_not(tmp_path: Path) -> None:
    for seed in (1, 2, 3):
        made_seed(tmp_path / str(seed), seed, {"mpt-kl": 3.0, "mpt-lm": 3.0, "pct-kl": 1.5}, n=1500)
    comparison = compare_runs([tmp_path])
    rows = {name: row(comparison, name) for name in ("mpt-kl", "mpt-lm", "pct-kl")}
    for column in ("nfr", "er_old", "er_all"):
        assert sum(column in rows[name].best for name in ("mpt-kl", "mpt-lm")) == 1
        assert sum(column in rows[name].within_noise_of_best for name in ("mpt-kl", "mpt-lm")) == 1
        assert column not in (*rows["pct-kl"].best, *rows["pct-kl"].within_noise_of_best)


def test_the_bias_is_chosen_on_validation_at_no_more_error_than_the_mpt_row(tmp_path: Path) -> None:
    made_seed(tmp_path / "1", 1, {"no-treatment": 3.0, "mpt-kl": 2.0}, n=2000)
    rival = row(compare_runs([tmp_path]), BIAS_ROW)
    plain, mpt = (run_answers(tmp_path / "1" / name) for name in ("no-treatment", "mpt-kl"))
    assert rival.bias is not None
    (chosen,) = rival.bias.values
    assert chosen > 0
    target = (~mpt.val.right()).mean()
    assert (~plain.val.right(chosen)).mean() <= target
    # Any more brings the error above it.
    beyond = np.unique(plain.val.gap[plain.val.gap > chosen].astype(np.float64))
    assert beyond.size > 50
    assert all((~plain.val.right(bias)).mean() > target for bias in beyond)
    assert rival.errors.values == [(int((~plain.test.right(chosen)).sum()), 2000)]


def test_rows_of_fewer_seeds_are_said_and_are_not_the_best(tmp_path: Path) -> None:
    made_seed(tmp_path / "1", 1, {"no-treatment": 2.0, "mpt-kl": 2.0, "mpt-lm": 6.0})
    made_seed(tmp_path / "2", 2, {"no-treatment": 2.0, "mpt-kl": 2.0})
    comparison = compare_runs([tmp_path])
    assert row(comparison, "mpt-lm").best == []
    assert row(comparison, "mpt-lm").nfr.std is None
    assert any("of 2 seeds some rows have fewer" in note and "mpt-lm 1" in note for note in comparison.notes)


def test_a_run_whose_old_model_was_overwritten_is_left_out_and_named(tmp_path: Path) -> None:
    by_hand(tmp_path / "1")
    whole = compare_runs([tmp_path])
    where = tmp_path / "2"
    part = part_of(MPT, LABEL)
    made_run(where / "mpt-kl", "mpt-kl", 2, part, part, old="old", refs=1)
    left = compare_runs([tmp_path])
    assert left.rows == whole.rows
    note = f"its old model (old-2) is missing in {where} (old is not there); name it with --old RUN"
    assert left.notes == [*whole.notes, f"{where / 'mpt-kl'}: left out: {note}"]
    with pytest.raises(CheckpointError, match=r"2/mpt-kl: its old model \(old-2\) is missing"):
        compare_runs([tmp_path / "2" / "mpt-kl"])


def test_an_old_model_that_is_named_takes_the_place_of_the_recorded_one(tmp_path: Path) -> None:
    by_hand(tmp_path)
    better = made_part(np.array(LABEL), np.eye(CLASSES)[LABEL][:, :NUM_OLD])
    made_run(tmp_path / "old2", "no-treatment", 1, better, better, old=None, num_known=NUM_OLD)
    comparison = compare_runs([tmp_path], old=Path("old2"))
    assert comparison.old[0].er_old.mean == 0
    assert row(comparison, "mpt-kl").flips.values == [(2, 6)]


def test_an_update_without_new_classes_has_no_bias_to_take_off(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    label = rng.integers(NUM_OLD, size=200)
    for name, old in (("old", None), ("no-treatment", "old"), ("mpt-kl", "old")):
        part = made_part(label, rng.normal(size=(200, NUM_OLD)))
        method = "mpt-kl" if name == "mpt-kl" else "no-treatment"
        made_run(tmp_path / name, method, 1, part, part, old=old, num_known=NUM_OLD, classes=NUM_OLD)
    comparison = compare_runs([tmp_path])
    assert [each.name for each in comparison.rows] == ["no-treatment", "mpt-kl"]


def test_without_a_validation_part_there_is_no_bias_and_that_is_said(tmp_path: Path) -> None:
    made = made_seed(tmp_path / "with", 1, {"no-treatment": 2.0, "mpt-kl": 2.0})
    for name, run in made.items():
        known = NUM_OLD if name == "old" else CLASSES
        old = None if name == "old" else "old"
        made_run(
            tmp_path / "without" / name, run.recipe.method.name, 1, run.test, no_answers(), old=old,
            num_known=known,
        )  # fmt: skip
    comparison = compare_runs([tmp_path / "without"])
    assert [each.name for each in comparison.rows] == ["no-treatment", "mpt-kl"]
    assert any("there is no validation part to choose a shift on" in note for note in comparison.notes)


def test_a_run_that_was_begun_and_has_no_checkpoint_yet_is_named(tmp_path: Path) -> None:
    made_seed(tmp_path, 1, {"no-treatment": 2.0, "mpt-kl": 3.0})
    begun = tmp_path / "mpt-lm" / "metrics.jsonl"
    begun.parent.mkdir()
    append_metrics(begun, MetricsLine(event="step", epoch=1, step=3))
    comparison = compare_runs([tmp_path])
    assert f"{begun.parent}: left out: its run is not finished (epoch 1)" in comparison.notes
    # A run that is named itself brings no notes on those beside it.
    assert not any("mpt-lm" in note for note in compare_runs([tmp_path / "mpt-kl"]).notes)


def test_an_imported_old_model_is_asked_on_the_split_of_the_update(
    run: Train, digits: Split, mptctl: CommandLine, tmp_path: Path
) -> None:
    trained = run(short_recipe("optim.max_steps=6"), "trained", only_old_classes=True)[0].run
    torch.save(load_checkpoint(trained.best).model, tmp_path / "weights.pt")
    (tmp_path / "names.txt").write_text("\n".join(digits.classes.old))
    done = mptctl(
        "import", tmp_path / "weights.pt", "--arch", "digits-net", "--class-names", tmp_path / "names.txt",
        "--name", "old", "--run-root", digits.run_root, "--set", "data.image_size=8",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    old = digits.run_root / "old" / "best.pt"
    folder = run(short_recipe("optim.max_steps=6"), "no-treatment", old=old)[0].run.path
    found, direct = (compare_runs([folder], old=named).rows[0] for named in (None, trained.path))
    named = {"old": "old", "new": "no-treatment"}
    models = load_predictions(named, Session(digits.run_root), part="test").models
    report = evaluate(models["old"], models["new"])
    assert (found.nfr.values, found.rel_nfr.values) == ([report.nfr], [report.rel_nfr])
    assert (found.er_old.values, found.er_all.values) == ([report.new.er_old_classes], [report.new.er_all])
    assert direct.flips.values == found.flips.values == [(report.counts.negative_flips, report.n_old)]
