"""Rates that are not defined, the choice of old classes, and further models beside the two."""

from __future__ import annotations

import numpy as np
import pytest

from mptctl.errors import CheckpointError, DataError
from mptctl.evaluation.evaluate import compare
from mptctl.evaluation.reading.predictions import build_predictions
from tests.evaluation.made_up import answers


class TestUndefined:
    def test_a_new_model_without_errors_has_no_rel_nfr(self) -> None:
        report = compare(answers("old", [0, 1], [0, 0]), answers("new", [0, 1], [0, 1]))
        assert report.nfr == 0
        assert report.rel_nfr is None
        assert report.rates.rel_nfr.ci95 is None
        assert report.nfi is None
        assert '"rel_nfr":null' in report.model_dump_json()

    def test_an_old_model_that_is_never_right_has_no_rel_nfr(self) -> None:
        report = compare(answers("old", [0, 1], [1, 0]), answers("new", [0, 1], [0, 0]))
        assert report.rel_nfr is None
        assert report.nfi == 0
        assert report.lost is None
        assert report.rates.lost.ci95 is None
        assert '"lost":null' in report.model_dump_json()

    def test_without_logits_what_needs_them_is_null(self) -> None:
        report = compare(answers("old", [0, 1], [0, 1]), answers("new", [0, 1], [1, 1]))
        assert report.old.ece is None
        assert report.old.reliability is None
        assert report.worst_flips[0].old_confidence is None
        assert report.old.er_new_classes is None


class TestOldClasses:
    def test_the_old_files_classes_are_the_old_ones(self) -> None:
        old = build_predictions(
            "old", np.arange(3), np.array([0, 1, 2]), np.array([0, 1, 1]), classes=("0", "1")
        )
        report = compare(old, answers("new", [0, 1, 2], [0, 2, 2]))
        assert (report.n_old, report.nfr, report.warnings) == (2, 0.5, [])

    @pytest.mark.parametrize(("origin", "error"), [("file", DataError), ("checkpoint", CheckpointError)])
    def test_old_classes_that_the_new_model_lacks_are_named(
        self, origin: str, error: type[Exception]
    ) -> None:
        ids, labels = np.arange(2), np.array(["cat", "dog"])
        old = build_predictions("old", ids, labels, labels, classes=("cat", "dog"))
        new = build_predictions(
            "new",
            ids,
            labels,
            np.array(["cat", "cat"]),
            classes=("cat", "hound"),
            origin=origin,  # type: ignore[arg-type]
        )
        with pytest.raises(error, match=r"does not know 1 of the 2 old classes \(dog\)"):
            compare(old, new)
