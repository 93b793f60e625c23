"""Validation: counts, the rates that follow from them, and what earlier versions wrote in their place."""

from __future__ import annotations

from mptctl.data.split import Split
from mptctl.models.checkpoint import load_checkpoint
from mptctl.models.metrics_log import MetricsLine, read_metrics
from mptctl.models.records import NOT_VALIDATED, Validation
from tests.common import Train, short_recipe


def test_rates_follow_from_counts_and_figures_come_back_as_they_were() -> None:
    found = Validation(errors=3, samples=8, errors_old=1, samples_old=4, flips=1)
    no_old = found.model_copy(update={"flips": None})
    assert (found.error, found.error_old, found.nfr, no_old.nfr) == (3 / 8, 1 / 4, 1 / 4, None)
    assert (NOT_VALIDATED.error, NOT_VALIDATED.error_old, NOT_VALIDATED.nfr) == (None, None, None)
    assert set(NOT_VALIDATED.figures().values()) == {None}
    for one in (found, no_old, NOT_VALIDATED):
        assert Validation.from_figures(one.figures()) == one
        line = MetricsLine.model_validate({"event": "epoch", "epoch": 1, "step": 1, **one.figures()})
        assert Validation.from_figures(line.model_dump()) == one


def test_a_run_writes_counts_beside_its_rates(run: Train, digits: Split) -> None:
    old, _ = run(short_recipe("optim.max_steps=6"), "old", only_old_classes=True)
    result, _ = run(short_recipe("optim.max_steps=6", **{"runtime.seed": 5}), "new", old=old.run.best)
    rows = digits.indices("val")
    is_old = digits.labels[rows] < digits.classes.num_old
    lines = read_metrics(result.run.metrics)
    validated = next(line for line in lines if line.event == "epoch")
    assert (validated.val_samples, validated.val_samples_old) == (len(rows), int(is_old.sum()))
    assert validated.val_errors is not None
    assert validated.val_flips is not None
    assert validated.val_error == validated.val_errors / len(rows)
    assert validated.val_nfr == validated.val_flips / int(is_old.sum())
    best = load_checkpoint(result.run.best).meta.metrics
    assert Validation.from_figures(best) == result.validation
