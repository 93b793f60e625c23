"""A study within a training cost: which rows are lengthened, by how much, and which are left out."""

from __future__ import annotations

from pathlib import Path

import pytest

from mptctl.errors import UsageError
from mptctl.studies.cost_of_run import count_network
from mptctl.studies.study_cost import within_cost
from mptctl.studies.study_file import Study, load_study
from mptctl.studies.study_plan import plan_study

ROWS = """
description: x
split: {source: digits}
recipe: digits
set: {optim.epochs: 30, optim.schedule: step, optim.step_epochs: 10}
cost: 2.7
updates:
  - {name: plain-old, method: no-treatment, init: old}
  - {name: plain-longer, method: no-treatment, init: old, longer: true}
  - {name: noref, method: mpt-kl-noref, init: old, longer: true}
  - mpt-kl
"""


def study(folder: Path, text: str = ROWS) -> Study:
    path = folder / "own.yaml"
    path.write_text(text, encoding="utf-8")
    return load_study(str(path))


def test_rows_by_hand(tmp_path: Path) -> None:
    own = study(tmp_path)
    network = count_network(own.new.model, own.new.data.image_size, 100)
    # A forward pass is a third of a step, and a little more, since the first layer has no gradient of its pictures.
    share = network.forward / network.training_step
    assert 1 / 3 < share < 0.35
    found, said = within_cost(own, 2.7)
    epochs = {name: recipe.optim.epochs for name, recipe in found.updates.items()}
    # 2.7 * 30 = 81; the old model is asked, so (2.7 / 1.34) * 30 = 60; and mpt-kl costs 1 + 2 / 3 + 1 as it is.
    assert epochs == {"plain-old": 30, "plain-longer": 81, "noref": 60, "mpt-kl": 30}
    assert said == (
        "training cost of each row, in plain trainings: plain-old 1.00 (30 epochs), plain-longer 2.70 (81 epochs), "
        f"noref {2 * (1 + share):.2f} (60 epochs), mpt-kl {2 + 2 * share:.2f} (30 epochs)"
    )
    # The schedule is stretched with the epochs; the recipes of other rows, of old model and reference stay.
    assert found.updates["plain-longer"].optim.step_epochs == 27
    assert found.updates["plain-old"] == own.updates["plain-old"]
    assert (found.old, found.new) == (own.old, own.new)
    assert [run.name for run in plan_study(found, [1])] == ["old", "ref", *epochs]


def test_rows_that_cost_more_are_left_out_and_said(tmp_path: Path) -> None:
    found, said = within_cost(study(tmp_path), 1.5)
    assert {name: recipe.optim.epochs for name, recipe in found.updates.items()} == {
        "plain-old": 30, "plain-longer": 45, "noref": 33,
    }  # fmt: skip
    assert said.endswith("; left out: mpt-kl")
    # Without mpt-kl no reference is trained.
    assert [run.name for run in plan_study(found, [1])] == ["old", "plain-old", "plain-longer", "noref"]
    with pytest.raises(
        UsageError,
        match=r"^--cost 1: leaves 1 of 4 rows of the study own.*: plain-longer, noref, mpt-kl; allow more$",
    ):
        within_cost(study(tmp_path), 1)


def test_steps_and_milestones_are_stretched_too_and_an_ensemble_is_counted(tmp_path: Path) -> None:
    text = ROWS.replace("optim.step_epochs: 10", "optim.milestones: [10, 20], optim.max_steps: 100")
    text = text.replace(
        "  - mpt-kl\n",
        "  - {method: elodi, ref: ensemble, set: {method.elodi_start_epoch: 6}}\nensemble: 4\n",
    )
    own = study(tmp_path, text)
    longer = within_cost(own, 2.7)[0].updates["plain-longer"].optim
    assert (longer.epochs, longer.milestones, longer.max_steps) == (81, (27, 54), 270)
    network = count_network(own.new.model, own.new.data.image_size, 100)
    # Four members are trained; these and the old model are asked in four fifths of the epochs.
    elodi = 4 + 1 + 0.8 * 5 * network.forward / network.training_step
    assert f"elodi {elodi:.2f} (30 epochs)" in within_cost(own, 7)[1]


def test_longer_needs_a_cost(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"updates: plain-longer: longer: as long as which cost allows\?"):
        study(tmp_path, ROWS.replace("cost: 2.7\n", ""))
    with pytest.raises(UsageError, match=r"cost"):
        study(tmp_path, ROWS.replace("cost: 2.7", "cost: 0"))


def test_the_study_that_comes_with_the_program(tmp_path: Path) -> None:
    which = load_study("which")
    found, said = within_cost(which, which.file.cost or 0)
    assert list(found.updates) == ["plain-old", "plain-longer-old", "mpt-kl-noref-old", "mpt-kl", "mpt-lm"]
    assert "left out" not in said
    assert found.updates["plain-longer-old"].optim.step_epochs == 81
