"""`mptctl.evaluate`, `load` and `runs`: as the commands do, and the same errors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import mptctl as package
from mptctl.errors import CheckpointError, UsageError
from tests.acceptance.cases import Case, check, put
from tests.common import CommandLine

LABELS = ["ant", "ant", "bee", "bee", "cat"]
OLD = ["ant", "ant", "bee", "ant", "bee"]
NEW = ["ant", "bee", "bee", "bee", "cat"]


def test_evaluate_counts_by_hand() -> None:
    report = package.evaluate(LABELS, old=OLD, new=NEW, old_classes=["ant", "bee"])
    # Of the four samples of ant and bee: one flip, one flip back, two right before and after.
    assert (report.n, report.n_old, report.nfr, report.pfr) == (5, 4, 0.25, 0.25)
    assert report.gate(max_nfr=0.3).passed
    assert not report.gate(max_nfr=0.2).passed
    assert report.model_dump()["counts"] == {
        "both_right": 2,
        "negative_flips": 1,
        "positive_flips": 1,
        "both_wrong": 0,
    }


def test_a_loaded_run_predicts_as_the_command_does(place: Path, mptctl: CommandLine) -> None:
    run = package.load("mpt-kl")
    assert run.class_names == tuple("0123456789")
    check(Case("predict mpt-kl photos --out predicted.npz"), place, mptctl)
    with np.load("predicted.npz") as arrays:
        ids, logits = arrays["id"], arrays["logits"]
    picture = run.transform(place / "photos" / str(ids[0]))
    assert picture.shape == (3, 8, 8)
    with torch.no_grad():
        one = run.model(picture[None])[0].numpy()
    np.testing.assert_allclose(one, logits[0], rtol=1e-4, atol=1e-4)
    assert run.predict([place / "photos" / str(ids[0])]).logits.shape == (1, 10)


def test_runs_lists_what_is_there(place: Path) -> None:
    listed = {entry.run: entry.state for entry in package.runs("runs")}
    assert listed == dict.fromkeys(("old", "ref", "no-treatment", "mpt-kl"), "finished")


def test_load_and_runs_refuse(place: Path) -> None:
    with pytest.raises(CheckpointError, match="gone"):
        package.load("gone")
    put(place / "runs/old/best.pt", b"no weights")
    with pytest.raises(CheckpointError, match=r"best\.pt"):
        package.load("old")
    with pytest.raises(UsageError, match="gone"):
        package.runs("gone")
