"""The comparison: a table counted by hand, the published numbers, and what must hold for any table."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mptctl.errors import CheckpointError, DataError, UsageError
from mptctl.evaluation.evaluate import compare
from mptctl.evaluation.gate import Limits
from mptctl.evaluation.predictions import Predictions, build_predictions
from mptctl.report.wording import rate_lines, verdict

GOLDEN = Path(__file__).parent.parent / "golden"


def wilson_by_formula(k: int, n: int) -> tuple[float, float]:
    z = 1.959963984540054
    centre = (k + z * z / 2) / (n + z * z)
    half = z / (n + z * z) * math.sqrt(k * (n - k) / n + z * z / 4)
    return centre - half, centre + half


class TestTwentySamples:
    """Every number of the hand-counted table in conftest.py."""

    def test_counts_and_rates(self, twenty: tuple[Predictions, Predictions]) -> None:
        report = compare(*twenty)
        assert (report.n, report.n_old) == (20, 14)
        assert report.counts.model_dump() == {
            "both_right": 7,
            "negative_flips": 3,  # s04, s05, s09
            "positive_flips": 2,  # s06, s12
            "both_wrong": 2,  # s07, s13
        }
        assert report.nfr == pytest.approx(3 / 14)
        assert report.pfr == pytest.approx(2 / 14)
        assert report.rel_nfr == pytest.approx((3 / 14) / ((10 / 14) * (5 / 14)))
        assert report.rel_nfr == pytest.approx(0.84)
        assert report.nfi == pytest.approx(3 / 5)
        assert report.lost == pytest.approx(3 / 10)
        assert report.churn == pytest.approx(
            6 / 14
        )  # the five flips, and s13 from one wrong answer to another
        assert report.mcnemar_p == pytest.approx(1.0)  # 3 against 2: 2 * P(X <= 2), 5 fair coins, at most 1
        assert report.nfr_ci95 == pytest.approx(wilson_by_formula(3, 14))

    def test_every_rate_stands_beside_its_count_and_denominator(
        self, twenty: tuple[Predictions, Predictions]
    ) -> None:
        report = compare(*twenty)
        rates = report.rates
        assert [(r.count, r.of) for r in (rates.nfr, rates.pfr, rates.nfi, rates.churn)] == [
            (3, 14),
            (2, 14),
            (3, 5),
            (6, 14),
        ]
        assert rates.rel_nfr.count == 3
        assert rates.rel_nfr.of == pytest.approx(50 / 14)
        assert rates.pfr.ci95 == pytest.approx(wilson_by_formula(2, 14))
        assert rates.nfi.ci95 == pytest.approx(wilson_by_formula(3, 5))
        assert (rates.lost.count, rates.lost.of) == (3, 10)
        assert rates.lost.ci95 == pytest.approx(wilson_by_formula(3, 10))
        assert rates.churn.ci95 == pytest.approx(wilson_by_formula(6, 14))

    def test_errors_of_both_models(self, twenty: tuple[Predictions, Predictions]) -> None:
        report = compare(*twenty)
        assert report.old.er_old_classes == pytest.approx(4 / 14)
        assert report.old.er_new_classes == 1
        assert report.old.er_all == pytest.approx(10 / 20)
        assert report.new.er_old_classes == pytest.approx(5 / 14)
        assert report.new.er_new_classes == pytest.approx(2 / 6)
        assert report.new.er_all == pytest.approx(7 / 20)
        assert report.new.errors.new_classes.ci95 == pytest.approx(wilson_by_formula(2, 6))
        assert report.er_difference.value == pytest.approx(1 / 14)
        assert (report.old.classes, report.new.classes) == (2, 4)

    def test_calibration_on_the_classes_that_each_model_knows(
        self, twenty: tuple[Predictions, Predictions]
    ) -> None:
        report = compare(*twenty)
        # old, 14 samples: .62 right 2 of 4, .82 right 3 of 5, .95 right 5 of 5
        assert report.old.ece == pytest.approx((4 * 0.12 + 5 * 0.22 + 5 * 0.05) / 14)
        # new, 20 samples: .43 right 3 of 4, .70 right 10 of 16
        assert report.new.ece == pytest.approx((4 * 0.32 + 16 * 0.075) / 20)
        # Each adaptive bin holds one confidence here, so that both errors agree.
        assert report.old.aece == pytest.approx(report.old.ece)
        assert report.old.reliability is not None
        assert [(b.n, b.accuracy) for b in report.old.reliability if b.n] == [(4, 0.5), (5, 0.6), (5, 1.0)]

    def test_where_flips_came_from_and_went(self, twenty: tuple[Predictions, Predictions]) -> None:
        report = compare(*twenty)
        assert report.by_confidence is not None
        assert [(row.low, row.high, row.flips.count, row.flips.of) for row in report.by_confidence] == [
            (0.0, 0.5, 0, 0),
            (0.5, 0.7, 1, 2),
            (0.7, 0.9, 1, 3),
            (0.9, 0.99, 1, 5),
            (0.99, 1.0, 0, 0),
        ]
        assert (report.destinations.to_old_class.count, report.destinations.to_old_class.of) == (1, 3)
        assert (report.destinations.to_new_class.count, report.destinations.to_new_class.of) == (2, 3)
        a, b = report.per_class
        assert (a.label, a.n, a.negative_flips, a.positive_flips, a.taken_by) == ("a", 7, 2, 1, "b")
        assert (a.er_old, a.er_new, a.nfr.value) == pytest.approx((2 / 7, 3 / 7, 2 / 7))
        assert (b.label, b.n, b.negative_flips, b.positive_flips, b.taken_by) == ("b", 7, 1, 1, "c")
        assert (b.er_old, b.er_new, b.nfr.value) == pytest.approx((2 / 7, 2 / 7, 1 / 7))
        assert [(p.label, p.answer, p.new_class, p.flips) for p in report.pairs] == [
            ("a", "b", False, 1),
            ("a", "c", True, 1),
            ("b", "c", True, 1),
        ]
        assert [(t.answer, t.new_class, t.flips) for t in report.takers] == [("c", True, 2), ("b", False, 1)]
        assert [(f.id, f.label, f.answer, f.new_class) for f in report.worst_flips] == [
            ("s09", "b", "c", True),
            ("s04", "a", "b", False),
            ("s05", "a", "c", True),
        ]
        assert report.worst_flips[0].old_confidence == pytest.approx(0.95)
        assert report.worst_flips[0].new_confidence == pytest.approx(0.70)

    def test_margins(self, twenty: tuple[Predictions, Predictions]) -> None:
        report = compare(*twenty)
        assert report.margins is not None
        old, new, new_on_new = report.margins.groups
        sure, sure_new, unsure = math.log(0.70 / 0.10), math.log(0.95 / 0.05), math.log(0.43 / 0.19)
        assert (old.n, old.negative.count) == (14, 4)
        assert (new.n, new.negative.count) == (14, 5)
        assert (new_on_new.n, new_on_new.negative.count) == (6, 2)
        assert old.mean == pytest.approx(
            (5 * sure_new + 1 * math.log(0.82 / 0.18)) / 14
        )  # 3 - 2 at .82, 2 - 2 at .62
        assert new.mean == pytest.approx((7 * sure + 2 * unsure - 5 * sure) / 14)
        assert new_on_new.mean == pytest.approx((3 * sure + unsure - unsure - sure) / 6)
        assert sum(old.histogram) == 14

    def test_free_bias_starts_at_the_model_itself(self, twenty: tuple[Predictions, Predictions]) -> None:
        report = compare(*twenty)
        (curve,) = report.bias_sweep
        start = curve.points[0]
        assert (
            start.bias,
            start.nfr,
            start.er_old_classes,
            start.er_new_classes,
            start.er_all,
        ) == pytest.approx((0, 3 / 14, 5 / 14, 2 / 6, 7 / 20))
        # Above ln(.43 / .19) sample s19 falls to an old class; up to ln 7 nothing else changes.
        assert curve.points[-2].er_all == pytest.approx(8 / 20)
        assert curve.nfr_at_new_error == pytest.approx(3 / 14)

    def test_the_json_holds_the_promised_keys(self, twenty: tuple[Predictions, Predictions]) -> None:
        page = json.loads(compare(*twenty).model_dump_json())
        for key in ("n", "n_old", "counts", "nfr", "pfr", "rel_nfr", "nfi", "churn", "old", "new"):
            assert key in page
        assert {"er_old_classes", "ece", "aece"} <= page["old"].keys()
        assert {"er_old_classes", "er_all", "ece", "aece"} <= page["new"].keys()
        assert len(page["nfr_ci95"]) == 2
        assert 0 <= page["mcnemar_p"] <= 1
        assert page["gate"]["max_nfr"] is None
        assert page["gate"]["passed"] is True


@pytest.mark.parametrize("name", ["c100_k4", "c1000_k1p5"])
def test_nfr_and_rel_nfr_equal_the_published_code(name: str) -> None:
    golden = np.load(GOLDEN / f"{name}.npz")
    num_old = int(golden["num_old"])
    target = golden["target"]
    ids = np.arange(len(target))
    old = build_predictions("old", ids, target, logits=golden["old_logits"])
    new = build_predictions("new", ids, target, logits=golden["ref_logits"])
    report = compare(old, new)
    assert report.n_old == int((target < num_old).sum())
    assert report.nfr == pytest.approx(float(golden["nfr"]), rel=1e-12)
    assert report.rel_nfr == pytest.approx(float(golden["rel_nfr"]), rel=1e-12)


def answers(
    name: str,
    labels: list[int],
    preds: list[int],
    order: list[int] | None = None,
    classes: tuple[str, ...] | None = None,
) -> Predictions:
    rows = np.array(order if order is not None else range(len(labels)))
    return build_predictions(name, rows, np.array(labels)[rows], np.array(preds)[rows], classes=classes)


LABELS = st.integers(0, 4)
FIVE = tuple("01234")
TRIPLES = st.lists(st.tuples(LABELS, LABELS, LABELS), min_size=1, max_size=60)


@given(TRIPLES)
def test_swapping_the_models_swaps_negative_and_positive_flips(rows: list[tuple[int, int, int]]) -> None:
    labels, one, two = (list(column) for column in zip(*rows, strict=True))
    first, second = answers("one", labels, one, classes=FIVE), answers("two", labels, two, classes=FIVE)
    there, back = compare(first, second), compare(second, first)
    assert (there.nfr, there.pfr) == (back.pfr, back.nfr)
    assert there.churn == back.churn
    assert there.mcnemar_p == pytest.approx(back.mcnemar_p)
    assert there.old.er_old_classes == back.new.er_old_classes
    assert there.er_difference.value == pytest.approx(-back.er_difference.value)


@given(TRIPLES)
def test_counts_add_up(rows: list[tuple[int, int, int]]) -> None:
    labels, one, two = (list(column) for column in zip(*rows, strict=True))
    old_classes = sorted({str(label) for label in labels})[:2]
    first, second = answers("one", labels, one, classes=FIVE), answers("two", labels, two, classes=FIVE)
    report = compare(first, second, old_classes=old_classes)
    counts = report.counts
    assert counts.total == report.n_old == sum(str(label) in old_classes for label in labels)
    assert report.old.er_old_classes == pytest.approx(
        (counts.positive_flips + counts.both_wrong) / report.n_old, abs=1e-12
    )
    assert report.er_difference.value == pytest.approx(
        report.new.er_old_classes - report.old.er_old_classes, abs=1e-12
    )
    flips = counts.negative_flips
    assert sum(row.negative_flips for row in report.per_class) == flips
    assert sum(row.n for row in report.per_class) == report.n_old
    assert sum(row.flips for row in report.pairs) == flips
    assert sum(row.flips for row in report.takers) == flips
    assert report.destinations.to_old_class.count + report.destinations.to_new_class.count == flips
    assert report.churn >= report.nfr + report.pfr - 1e-12


@given(TRIPLES, st.randoms(use_true_random=False))
def test_the_order_of_ids_does_not_matter(rows: list[tuple[int, int, int]], random: object) -> None:
    labels, one, two = (list(column) for column in zip(*rows, strict=True))
    order = list(range(len(labels)))
    random.shuffle(order)  # type: ignore[attr-defined]
    straight = compare(answers("one", labels, one, None, FIVE), answers("two", labels, two, None, FIVE))
    shuffled = compare(
        answers("one", labels, one, order, FIVE), answers("two", labels, two, order[::-1], FIVE)
    )
    assert straight == shuffled


def test_order_of_ids_does_not_matter_with_logits(twenty: tuple[Predictions, Predictions]) -> None:
    old, new = twenty
    back = slice(None, None, -1)
    assert new.logits is not None
    turned = build_predictions(
        "new", new.ids[back], new.labels[back], logits=new.logits[back], classes=new.classes
    )
    assert compare(old, new) == compare(old, turned)


def test_order_of_logit_columns_does_not_matter(twenty: tuple[Predictions, Predictions]) -> None:
    old, new = twenty
    assert new.logits is not None
    mixed = build_predictions(
        "new", new.ids, new.labels, logits=new.logits[:, [2, 0, 3, 1]], classes=("c", "a", "d", "b")
    )
    one, two = compare(old, new), compare(old, mixed)
    assert (one.counts, one.pairs, one.margins, one.new.errors) == (
        two.counts,
        two.pairs,
        two.margins,
        two.new.errors,
    )
    # At a tie the first column wins, which moves a crossing by the last bit of its bias.
    steps = [
        {
            round(point.bias, 9): point.model_copy(update={"bias": 0.0})
            for point in report.bias_sweep[0].points
        }
        for report in (one, two)
    ]
    assert len(steps[0]) == 3
    assert steps[0] == steps[1]


class TestUndefined:
    def test_no_sample_of_an_old_class_is_a_data_error(self) -> None:
        old = build_predictions("old", np.arange(2), np.array([3, 3]), np.array([0, 1]), classes=("0", "1"))
        with pytest.raises(DataError, match="none of its 2 samples is of an old class"):
            compare(old, answers("new", [3, 3], [3, 3]))

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
        report = compare(answers("old", [0, 1], [0, 0]), answers("new", [0, 1], [1, 1]))
        assert report.old.ece is None
        assert report.old.reliability is None
        assert report.by_confidence is None
        assert report.margins is None
        assert report.bias_sweep == []
        assert report.worst_flips[0].old_confidence is None
        assert report.old.er_new_classes is None


class TestOldClasses:
    def test_without_classes_all_labels_are_old_and_it_says_so(self) -> None:
        report = compare(answers("old", [0, 1, 2], [0, 1, 1]), answers("new", [0, 1, 2], [0, 1, 2]))
        assert report.n_old == 3
        assert "all 3 labels count as old" in report.warnings[0]

    def test_the_old_files_classes_are_the_old_ones(self) -> None:
        old = build_predictions(
            "old", np.arange(3), np.array([0, 1, 2]), np.array([0, 1, 1]), classes=("0", "1")
        )
        report = compare(old, answers("new", [0, 1, 2], [0, 2, 2]))
        assert (report.n_old, report.nfr, report.warnings) == (2, 0.5, [])

    def test_the_option_wins(self) -> None:
        old = build_predictions(
            "old", np.arange(3), np.array([0, 1, 2]), np.array([0, 1, 1]), classes=("0", "1")
        )
        assert compare(old, answers("new", [0, 1, 2], [0, 2, 2]), old_classes=["0"]).n_old == 1

    def test_an_unknown_class_in_the_option_is_named(self) -> None:
        with pytest.raises(DataError, match="zebra"):
            compare(answers("old", [0], [0]), answers("new", [0], [0]), old_classes=["0", "zebra"])

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


class TestOtherModels:
    def test_noise_floor_is_the_flips_of_another_training(
        self, twenty: tuple[Predictions, Predictions]
    ) -> None:
        old, new = twenty
        preds = old.preds.copy()
        preds[[0, 5]] = ["b", "a"]  # one flip each way among the old classes
        other = build_predictions("seed-1", old.ids, old.labels, preds, classes=old.classes)
        floor = compare(old, new, noise_floor=other).noise_floor
        assert floor is not None
        assert (floor.name, floor.nfr.count, floor.nfr.of) == ("seed-1", 1, 14)
        assert floor.same_classes
        assert floor.er_old_classes == pytest.approx(4 / 14)

    @pytest.mark.parametrize(
        ("classes", "message"),
        [
            ("abcd", "--noise-floor ref: also knows c, d, against the classes of old; name another training"),
            ("ac", "ref: also knows c and does not know b, against the classes of old"),
        ],
    )
    def test_a_noise_floor_of_other_classes_is_refused(
        self, twenty: tuple[Predictions, Predictions], classes: str, message: str
    ) -> None:
        old, new = twenty
        preds = np.full(len(old.ids), "a")
        third = build_predictions("ref", old.ids, old.labels, preds, classes=tuple(classes))
        with pytest.raises(UsageError, match=message) as caught:
            compare(old, new, noise_floor=third)
        assert caught.value.exit_code == 2

    def test_a_noise_floor_of_the_same_classes_in_another_order_is_taken(
        self, twenty: tuple[Predictions, Predictions]
    ) -> None:
        old, new = twenty
        assert old.classes is not None
        third = build_predictions("again", old.ids, old.labels, old.preds, classes=old.classes[::-1])
        report = compare(old, new, noise_floor=third)
        assert "Training the old model again (again) flips 0.00 % by itself." in verdict(report).sentences

    def test_a_noise_floor_whose_classes_are_not_known_is_called_the_third_model(
        self, twenty: tuple[Predictions, Predictions]
    ) -> None:
        old, new = twenty
        third = build_predictions("some.csv", old.ids, old.labels, new.preds)
        report = compare(old, new, noise_floor=third)
        assert report.noise_floor is not None
        assert not report.noise_floor.same_classes
        said = " ".join(verdict(report).sentences)
        assert (
            "The third model (some.csv) flips 21.43 %; whether it has the old model's classes is not known."
            in said
        )
        assert "Training the old model again" not in said
        assert [line.meaning for line in rate_lines(report)][-1] == "NFR of the third model"

    def test_a_baseline_brings_its_own_curve(self, twenty: tuple[Predictions, Predictions]) -> None:
        old, new = twenty
        report = compare(old, new, baseline=new)
        assert [curve.role for curve in report.bias_sweep] == ["new", "baseline"]
        assert report.bias_sweep[0].points == report.bias_sweep[1].points


def test_margin_of_equivalence(twenty: tuple[Predictions, Predictions]) -> None:
    # NFR is 3 of 14: its 95 % interval is 7.6 % to 47.6 %.
    verdicts = {m: compare(*twenty, nfr_margin=m).equivalence for m in (0.05, 0.2, 0.5)}
    assert {m: e and e.below for m, e in verdicts.items()} == {0.05: "no", 0.2: "undecided", 0.5: "yes"}
    with pytest.raises(UsageError, match="--nfr-margin"):
        compare(*twenty, nfr_margin=2.0)


def turned(model: Predictions, **changes: object) -> Predictions:
    """The same content as another file has it: samples and columns in another order."""
    assert model.logits is not None
    assert model.classes is not None
    parts = {
        "ids": model.ids[::-1],
        "labels": model.labels[::-1],
        "logits": model.logits[::-1, ::-1],
        "classes": model.classes[::-1],
    }
    return build_predictions("turned", **(parts | changes))  # type: ignore[arg-type]


class TestIdentical:
    def test_one_model_is_recognised_in_any_order(self, twenty: tuple[Predictions, Predictions]) -> None:
        for model in twenty:
            for other in (model, turned(model)):
                report = compare(model, other, limits=Limits(max_nfr=0.5))
                assert report.identical
                assert report.gate.failed == ["identical"]
        assert not compare(*twenty).identical

    def test_equal_answers_without_logits_are_one_model(self) -> None:
        labels, preds = [0, 1, 2, 0], [0, 1, 0, 0]
        assert compare(answers("old", labels, preds), answers("new", labels, preds, [3, 1, 0, 2])).identical

    def test_equal_answers_from_other_logits_are_a_remark(
        self, twenty: tuple[Predictions, Predictions]
    ) -> None:
        old = twenty[0]
        assert old.logits is not None
        for logits in (old.logits + 1e-6, old.logits.astype(np.float16)):
            exported = build_predictions("exported", old.ids, old.labels, logits=logits, classes=old.classes)
            report = compare(old, exported, limits=Limits(max_nfr=0))
            assert (report.identical, report.gate.passed) == (False, True)
            assert any("old and new answer all 20 samples alike" in warning for warning in report.warnings)

    def test_one_answer_apart_is_another_model_without_a_remark(self) -> None:
        report = compare(answers("old", [0, 1, 2], [0, 1, 2]), answers("new", [0, 1, 2], [0, 1, 1]))
        assert not report.identical
        assert not any("alike" in warning for warning in report.warnings)

    def test_a_model_that_knows_more_classes_is_another_one(self) -> None:
        ids, labels = np.arange(4), np.array([0, 1, 0, 1])
        old = build_predictions("old", ids, labels, labels, classes=("0", "1"))
        new = build_predictions("new", ids, labels, labels, classes=("0", "1", "2"))
        assert not compare(old, new).identical

    def test_what_is_known_from_the_files_counts(self, twenty: tuple[Predictions, Predictions]) -> None:
        assert compare(*twenty, identical=True, limits=Limits(max_nfr=1)).gate.failed == ["identical"]


def table(classes: int, both_right: int, negative: int, positive: int, both_wrong: int) -> list[Predictions]:
    """Old and new answers with these counts; old knows `classes` classes, and new knows them too."""
    n = both_right + negative + positive + both_wrong
    labels = np.arange(n) % classes
    wrong = (labels + 1) % classes
    places = np.arange(n)
    old = np.where(places < both_right + negative, labels, wrong)
    new = np.where((places < both_right) | (places >= n - positive), labels, wrong)
    names = tuple(str(i) for i in range(classes))
    return [
        build_predictions(name, places, labels, preds, classes=names)
        for name, preds in (("old", old), ("new", new))
    ]


class TestDoubts:
    """Warnings where the numbers say that something is wrong with a model rather than with an update."""

    @pytest.mark.parametrize(("right", "warned"), [(100, True), (180, True), (300, False), (900, False)])
    def test_an_old_model_at_chance_level(self, right: int, warned: bool) -> None:
        warnings = compare(*table(10, right, 0, 1000 - right, 0)).warnings
        assert any("hardly ever right" in warning for warning in warnings) is warned
        if warned:
            assert f"{right / 10:.2f} %" in warnings[0]
            assert "guessing among 10 gives 10.00 %" in warnings[0]
            assert "preprocessing" in warnings[0]
            assert "order of the class names" in warnings[0]

    @pytest.mark.parametrize(("lost", "warned"), [(720, True), (800, True), (700, False), (10, False)])
    def test_right_answers_that_are_nearly_all_lost(self, lost: int, warned: bool) -> None:
        report = compare(*table(10, 800 - lost, lost, 100, 100))
        assert report.lost == pytest.approx(lost / 800)
        found = [
            warning for warning in report.warnings if "right answers of the old model are lost" in warning
        ]
        assert len(found) == warned
        if warned:
            assert f"{lost} of the 800" in found[0]
            assert "preprocessing" in found[0]

    def test_an_old_model_that_is_never_right(self) -> None:
        report = compare(*table(10, 0, 0, 60, 40), limits=Limits(max_nfr=1, max_er_increase=1))
        assert report.lost is None
        assert report.gate.failed == ["old-never-right"]
        assert "wrong on all 100 samples" in report.warnings[0]
        assert "preprocessing" in report.warnings[0]


def test_wrong_data_comes_before_a_gate_that_would_fail() -> None:
    ids, labels = np.arange(2), np.array([3, 3])
    old = build_predictions("old", ids, labels, np.array([0, 1]), classes=("0", "1"))
    with pytest.raises(DataError, match="none of its 2 samples"):
        compare(old, old, identical=True, unfinished=["old"], limits=Limits(max_nfr=0))
