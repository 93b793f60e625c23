"""The gate file: each kind of rule passing, failing and undecided; waivers; and files that say nothing clear."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mptctl.errors import DataError
from mptctl.evaluation.evaluate import ComparisonRequest, compare
from mptctl.evaluation.gate.gate_file import read_gate_file
from mptctl.evaluation.limits import Limits
from mptctl.evaluation.rates import Counts
from mptctl.evaluation.reading.predictions import build_predictions
from mptctl.evaluation.slices.ranking import SliceRequest
from mptctl.evaluation.statistics import exact_interval, relative_nfr_interval
from mptctl.evaluation.verdict import Gate
from tests.evaluation.files import write

# 40 samples of one old class that the old model gets right; the new one gets the last four wrong. The first half is
# German, the second Italian; of gold customers there are two, the first sample and the last.
IDS = [f"test/{i:05d}" for i in range(40)]
COUNTRY = ["de"] * 20 + ["it"] * 20
CUSTOMER = ["gold", *["plain"] * 38, "gold"]
TODAY = date(2026, 6, 15)


@pytest.fixture
def judged(tmp_path: Path) -> Any:
    """Write a gate file and hold it against the forty samples."""
    write(tmp_path / "meta.csv", id=IDS, country=COUNTRY, customer=CUSTOMER)

    def judge(text: str, **flags: Any) -> Gate:
        (tmp_path / "gate.yaml").write_text(text)
        ids, labels = np.array(IDS), np.full(40, "x")
        new = np.array(["x"] * 36 + ["y"] * 4)
        return compare(
            build_predictions("old", ids, labels, labels, classes=("x",)),
            build_predictions("new", ids, labels, new, classes=("x", "y")),
            ComparisonRequest(
                limits=Limits(**flags),
                slicing=SliceRequest(files=[tmp_path / "meta.csv"]),
                gate_file=read_gate_file(tmp_path / "gate.yaml"),
                today=TODAY,
            ),
        ).gate

    return judge


def waiver(what: str, expires: str = "2026-06-15", reason: str = "label disputed") -> str:
    return f"waivers: [{{{what}, reason: {reason}, owner: jo, expires: {expires}}}]\n"


@pytest.mark.parametrize(
    ("rule", "answer"),
    [
        # 4 of 40: 10 %, at 95 % confidence 2.79 to 23.66 %.
        ("limits: {max_nfr: 10}", "pass"),
        ("limits: {max_nfr: 9.9}", "fail"),
        ("confidence: 0.95\nlimits: {max_nfr: 10}", "undecided"),
        ("confidence: 0.95\nlimits: {max_nfr: 2.7}", "fail"),
        ("confidence: 0.95\nlimits: {max_nfr: 23.7}", "pass"),
        ("limits: {max_lost: 9}", "fail"),
        ("limits: {max_er_increase: 10}", "pass"),
        # Italian: 4 of 20, 5.73 to 43.66 %. German: none of 20, 0 to 16.84 %.
        ("slices: [{by: {country: it}, max_nfr: 20}]", "pass"),
        ("slices: [{by: {country: it}, max_nfr: 19}]", "fail"),
        ("confidence: 0.95\nslices: [{by: {country: it}, max_nfr: 20}]", "undecided"),
        ("confidence: 0.95\nslices: [{by: {country: it}, max_nfr: 5.7}]", "fail"),
        ("confidence: 0.95\nslices: [{by: {country: de}, max_nfr: 16.9}]", "pass"),
        ("slices: [{by: {class: x}, max_lost: 9}]", "fail"),
        ("slices: [{by: {customer: gold, country: de}, max_nfr: 0}]", "pass"),
        ("slices: [{by: {customer: gold, country: it}, max_nfr: 99}]", "fail"),
        ("must_keep: {ids: [test/00000, test/00035]}", "pass"),
        ("must_keep: {ids: [test/00036]}", "fail"),
        ("must_keep: {by: {country: de}}", "pass"),
        ("must_keep: {by: {customer: gold}}", "fail"),
        ("confidence: 0.95\nmust_keep: {by: {customer: gold}}", "fail"),
    ],
)
def test_each_rule(judged: Any, rule: str, answer: str) -> None:
    gate = judged(rule)
    assert (gate.answer, gate.passed) == (answer, answer == "pass")
    assert len(gate.limits) == 1
    assert gate.limits[0].answer == answer


def test_limits_are_listed_with_slice_interval_and_waived(judged: Any) -> None:
    gate = judged(
        "confidence: 0.95\nlimits: {max_nfr: 23.7}\nslices: [{by: {country: it}, max_nfr: 50}]\n"
        "must_keep: {ids: [test/00000]}\n" + waiver("id: test/00039")
    )
    rows = {row.name: row for row in gate.limits}
    assert list(rows) == ["max-nfr", "max-nfr of country=it", "must-keep"]
    assert [row.waived for row in rows.values()] == [1, 1, 0]
    assert rows["max-nfr"].value == pytest.approx(3 / 40)
    assert rows["max-nfr"].interval == pytest.approx(exact_interval(4, 40))
    assert rows["max-nfr of country=it"].value == pytest.approx(3 / 20)
    assert rows["must-keep"].value == 0


def test_what_flags_say_otherwise_is_said_with_what_holds(tmp_path: Path) -> None:
    path = tmp_path / "g.yaml"
    path.write_text("confidence: 0.95\nlimits: {max_nfr: 2, max_lost: 5}")
    found = read_gate_file(path)
    flags = Limits(max_nfr=0.01, max_lost=0.07, max_rel_nfr=0.5, confidence=0.9)
    assert found.overruled(flags) == [
        f"--max-nfr 1: {path} says 2; the stricter of the two is used, 1",
        f"--max-lost 7: {path} says 5; the stricter of the two is used, 5",
        f"--confidence 0.9: {path} says 0.95; the stricter of the two is used, 0.95",
    ]
    assert found.overruled(Limits(max_nfr=0.02, confidence=0.95)) == []


class TestWaivers:
    """Four flips, 36 to 39; a limit of 7.5 % allows three of them."""

    LIMIT = "limits: {max_nfr: 7.5}\n"

    @pytest.mark.parametrize("what", ["id: test/00039", "by: {customer: gold}, max_flips: 1"])
    def test_a_waived_flip_does_not_count(self, judged: Any, what: str) -> None:
        assert judged(self.LIMIT).answer == "fail"
        gate = judged(self.LIMIT + waiver(what))
        assert (gate.answer, gate.checks[0].waived) == ("pass", 1)
        assert "NFR 7.50 % (3 flips counted, 1 waived) is within" in gate.checks[0].message
        row = gate.waivers[0]
        assert (row.flips, row.reason, row.owner, row.expired) == (1, "label disputed", "jo", False)

    def test_one_flip_that_two_waivers_are_for_counts_once(self, judged: Any) -> None:
        both = waiver("by: {customer: gold}, max_flips: 1").rstrip("]\n") + (
            ", {id: test/00039, reason: r, owner: o, expires: 2027-01-01}]\n"
        )
        assert judged(self.LIMIT + both).checks[0].waived == 1

    def test_errors_of_waived_samples_are_errors_still(self, judged: Any) -> None:
        gate = judged("limits: {max_er_increase: 9}\n" + waiver("by: {country: it}, max_flips: 4"))
        assert (gate.answer, gate.checks[0].value, gate.checks[0].waived) == ("fail", pytest.approx(0.1), 0)

    def test_what_must_be_kept_may_be_waived(self, judged: Any) -> None:
        text = "must_keep: {by: {customer: gold}}\n"
        assert judged(text).answer == "fail"
        waived = judged(text + waiver("id: test/00039"))
        assert waived.answer == "pass"
        assert "1 of the samples that must be kept flipped, which waivers allow (test/00039)" in (
            waived.checks[0].message
        )

    @pytest.mark.parametrize("limit", ["max_nfr", "max_lost", "max_rel_nfr"])
    def test_no_denominator_shrinks(self, judged: Any, limit: str) -> None:
        """Four flips of 40 are all errors of NEW; with three waived one is left, of 40 right and of 4 wrong answers."""
        gate = judged(
            f"confidence: 0.95\nlimits: {{{limit}: 90}}\n"
            + waiver("by: {country: it, customer: plain}, max_flips: 3")
        )
        check = gate.checks[0]
        assert (check.counted, check.waived) == (1, 3)
        if limit == "max_rel_nfr":
            assert check.value == pytest.approx(1 / 4)
            table = Counts(both_right=36, negative_flips=4, positive_flips=0, both_wrong=0)
            assert check.interval == relative_nfr_interval(table, 0.95, 4)  # waived flips count in intervals
        else:
            assert check.value == pytest.approx(1 / 40)
            assert check.interval == exact_interval(4, 40)

    def test_one_that_is_expired_fails_if_a_flip_still_needs_it(self, judged: Any) -> None:
        gate = judged("limits: {max_nfr: 50}\n" + waiver("id: test/00039", "2026-06-14"))
        assert gate.failed == ["expired-waiver"]
        assert gate.checks[0].waived == 0
        said = gate.checks[-1].message
        assert (
            "the waiver of test/00039 (jo: label disputed) expired on 2026-06-14, and 1 flip still needs it"
            in said
        )
        unneeded = judged("limits: {max_nfr: 50}\n" + waiver("id: test/00001", "2026-06-14"))
        assert unneeded.passed
        replaced = waiver("id: test/00039", "2026-06-14").rstrip("]\n") + (
            ", {id: test/00039, reason: r, owner: o, expires: 2027-01-01}]\n"
        )
        assert judged("limits: {max_nfr: 50}\n" + replaced).passed


class TestWhatCannotFlip:
    """Ten samples: 0 to 7 of old class x, of which OLD gets 0 to 3 right; 8 and 9 of new class y. NEW breaks 3."""

    @pytest.fixture
    def verdict(self, tmp_path: Path) -> Any:
        def judge(text: str) -> Gate:
            (tmp_path / "gate.yaml").write_text(text)
            ids, labels = np.array([str(i) for i in range(10)]), np.array(["x"] * 8 + ["y"] * 2)
            old = np.array(["x"] * 4 + ["z"] * 6)
            new = np.array(["x"] * 3 + ["y"] * 7)
            return compare(
                build_predictions("old", ids, labels, old, classes=("x", "z")),
                build_predictions("new", ids, labels, new, classes=("x", "y", "z")),
                ComparisonRequest(gate_file=read_gate_file(tmp_path / "gate.yaml"), today=TODAY),
            ).gate

        return judge

    @pytest.mark.parametrize(
        ("ids", "answer", "message"),
        [
            ("0, 1", "pass", "every sample that must be kept is kept"),
            ("0, 5", "pass", "that OLD gets right is kept (1 of 2)"),
            ("3, 5", "fail", "1 of the samples that must be kept flipped (3)"),
            ("5, 6, 7", "fail", "OLD is wrong on all 3 samples of must_keep.ids"),
        ],
    )
    def test_samples_that_old_gets_wrong(self, verdict: Any, ids: str, answer: str, message: str) -> None:
        gate = verdict(f"must_keep: {{ids: [{ids}]}}")
        assert gate.answer == answer
        assert message in gate.checks[0].message

    @pytest.mark.parametrize(
        "text", ["must_keep: {ids: [0, 8, 9]}", "limits: {max_nfr: 50}\n" + waiver("id: 9")]
    )
    def test_samples_of_new_classes_are_refused(self, verdict: Any, text: str) -> None:
        with pytest.raises(DataError, match=r"ids are of new classes, which cannot flip \((8, )?9\)"):
            verdict(text)


def test_values_are_taken_as_they_are_written(tmp_path: Path) -> None:
    (tmp_path / "g.yaml").write_text(
        "slices: [{by: {a: no, b: 1.50}, max_nfr: 1}]\nmust_keep: {ids: [00042, 1_0]}\n"
    )
    found = read_gate_file(tmp_path / "g.yaml")
    assert found.slices[0].by == {"a": "no", "b": "1.50"}
    assert found.must_keep.ids == ["00042", "1_0"]


def test_the_example_of_the_docs_can_be_read(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "gate.md").read_text()
    (tmp_path / "gate.yaml").write_text(page.split("```yaml\n")[1].split("```")[0])
    (tmp_path / "must_keep.txt").write_text("test/00043\n")
    found = read_gate_file(tmp_path / "gate.yaml")
    assert found.must_keep.ids == ["test/00042", "test/00043"]
    assert found.waivers[0].expires == date(2027, 1, 31)


def test_listed_flips_say_their_slice_and_whether_they_are_waived(tmp_path: Path) -> None:
    write(tmp_path / "meta.csv", id=IDS, country=COUNTRY, customer=CUSTOMER)
    (tmp_path / "gate.yaml").write_text("limits: {max_nfr: 2}\n" + waiver(f"id: {IDS[37]}"))
    ids, labels = np.array(IDS), np.full(40, "x")
    report = compare(
        build_predictions("old", ids, labels, labels, classes=("x",)),
        build_predictions("new", ids, labels, np.array(["x"] * 36 + ["y"] * 4), classes=("x", "y")),
        ComparisonRequest(
            slicing=SliceRequest(
                by=[("country",), ("country", "customer")], files=[tmp_path / "meta.csv"], min_slice=1
            ),
            gate_file=read_gate_file(tmp_path / "gate.yaml"),
            today=TODAY,
        ),
    )
    assert [(flip.id, flip.waived) for flip in report.worst_flips] == [(i, i == IDS[37]) for i in IDS[36:]]
    for flip in report.worst_flips:
        at = IDS.index(flip.id)
        assert flip.by == {"country": COUNTRY[at], "customer": CUSTOMER[at]}
    for row in report.slices:
        assert row.negative_flips == sum(row.by.items() <= flip.by.items() for flip in report.worst_flips)
