"""The gate file: each kind of rule passing, failing and undecided; waivers; and files that say nothing clear."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mptctl.errors import DataError
from mptctl.evaluation.evaluate import ComparisonRequest, compare
from mptctl.evaluation.flip_report import FlipReport
from mptctl.evaluation.gate.gate_file import read_gate_file
from mptctl.evaluation.reading.predictions import build_predictions
from mptctl.evaluation.slices.ranking import SliceRequest
from mptctl.evaluation.statistics import exact_interval, relative_nfr_interval
from mptctl.evaluation.verdict import Gate
from tests.evaluation.files import write
from tests.evaluation.made_up import answers, flip_table

# 40 samples of one old class that the old model gets right; the new one gets the last four wrong. The first half is
# German, the second Italian; of gold customers there are two, the first sample and the last.
IDS = [f"test/{i:05d}" for i in range(40)]
COUNTRY = ["de"] * 20 + ["it"] * 20
CUSTOMER = ["gold", *["plain"] * 38, "gold"]
TODAY = date(2026, 6, 15)


@pytest.fixture
def compared(tmp_path: Path) -> Any:
    """Write a gate file and compare the forty samples under it."""
    write(tmp_path / "meta.csv", id=IDS, country=COUNTRY, customer=CUSTOMER)

    def compare_under(text: str, by: Sequence[tuple[str, ...]] = ()) -> FlipReport:
        (tmp_path / "gate.yaml").write_text(text)
        ids, labels = np.array(IDS), np.full(40, "x")
        new = np.array(["x"] * 36 + ["y"] * 4)
        return compare(
            build_predictions("old", ids, labels, labels, classes=("x",)),
            build_predictions("new", ids, labels, new, classes=("x", "y")),
            ComparisonRequest(
                slicing=SliceRequest(by=list(by), files=[tmp_path / "meta.csv"], min_slice=1),
                gate_file=read_gate_file(tmp_path / "gate.yaml"),
                today=TODAY,
            ),
        )

    return compare_under


def waiver(what: str, expires: str = "2026-06-15") -> str:
    """A list of one waiver, in a gate file."""
    return f"waivers: [{{{what}, reason: label disputed, owner: jo, expires: {expires}}}]\n"


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
def test_each_rule(compared: Any, rule: str, answer: str) -> None:
    gate = compared(rule).gate
    assert (gate.answer, gate.passed) == (answer, answer == "pass")
    assert [row.answer for row in gate.limits] == [answer]


def test_limits_are_listed_with_slice_interval_and_waived(compared: Any) -> None:
    gate = compared(
        "confidence: 0.95\nlimits: {max_nfr: 23.7}\nslices: [{by: {country: it}, max_nfr: 50}]\n"
        "must_keep: {ids: [test/00000]}\n" + waiver("id: test/00039")
    ).gate
    assert [(row.name, row.waived, row.value) for row in gate.limits] == [
        ("max-nfr", 1, pytest.approx(3 / 40)), ("max-nfr of country=it", 1, pytest.approx(3 / 20)),
        ("must-keep", 0, 0),
    ]  # fmt: skip
    assert gate.limits[0].interval == pytest.approx(exact_interval(4, 40))


def together(*waivers: str) -> str:
    """Several waivers as one list."""
    return "waivers: [" + ", ".join(each.strip()[len("waivers: [") : -1] for each in waivers) + "]\n"


# Four flips, 36 to 39; a limit of 7.5 % allows three of them.
LIMIT, KEEP = "limits: {max_nfr: 7.5}\n", "must_keep: {by: {customer: gold}}\n"
ONE, GOLD = waiver("id: test/00039"), waiver("by: {customer: gold}, max_flips: 1")
EXPIRED = waiver("id: test/00039", "2026-06-14")


@pytest.mark.parametrize(
    ("rules", "waivers", "failed", "waived", "message"),
    [
        (LIMIT, "", ["max-nfr"], 0, ""),
        (LIMIT, ONE, [], 1, "NFR 7.50 % (3 flips counted, 1 waived) is within"),
        (LIMIT, GOLD, [], 1, "NFR 7.50 % (3 flips counted, 1 waived) is within"),
        (LIMIT, together(GOLD, ONE), [], 1, ""),  # one flip that two waivers are for
        # Errors of waived samples are errors still.
        ("limits: {max_er_increase: 9}\n", waiver("by: {country: it}, max_flips: 4"), ["max-er-increase"], 0, ""),
        (KEEP, "", ["must-keep"], 0, ""),
        (KEEP, ONE, [], 1, "1 of the samples that must be kept flipped, which waivers allow (test/00039)"),
        # An expired waiver fails the gate if a flip still needs it.
        ("limits: {max_nfr: 50}\n", EXPIRED, ["expired-waiver"], 0,
         "the waiver of test/00039 (jo: label disputed) expired on 2026-06-14, and 1 flip still needs it"),
        ("limits: {max_nfr: 50}\n", waiver("id: test/00001", "2026-06-14"), [], 0, ""),
        ("limits: {max_nfr: 50}\n", together(EXPIRED, waiver("id: test/00039", "2027-01-01")), [], 1, ""),
    ],
)  # fmt: skip
def test_a_waived_flip_does_not_count(
    compared: Any, rules: str, waivers: str, failed: list[str], waived: int, message: str
) -> None:
    gate = compared(rules + waivers).gate
    assert (gate.failed, gate.checks[0].waived) == (failed, waived)
    assert any(message in check.message for check in gate.checks)
    for row in gate.waivers:
        assert (row.reason, row.owner, row.expired) == ("label disputed", "jo", row.expires < TODAY)


@pytest.mark.parametrize("limit", ["max_nfr", "max_lost", "max_rel_nfr"])
def test_no_denominator_shrinks_by_a_waiver(compared: Any, limit: str) -> None:
    """Four flips of 40 are all errors of NEW; with three waived one is left, of 40 right and of 4 wrong answers."""
    check = compared(
        f"confidence: 0.95\nlimits: {{{limit}: 90}}\n"
        + waiver("by: {country: it, customer: plain}, max_flips: 3")
    ).gate.checks[0]
    assert (check.counted, check.waived) == (1, 3)
    # Waived flips count in intervals.
    is_ratio, table = limit == "max_rel_nfr", flip_table(36, 4, 0, 0)
    assert check.value == pytest.approx(1 / 4 if is_ratio else 1 / 40)
    assert check.interval == (relative_nfr_interval(table, 0.95, 4) if is_ratio else exact_interval(4, 40))


@pytest.fixture
def verdict(tmp_path: Path) -> Any:
    """Ten samples: 0 to 7 of old class x, of which OLD gets 0 to 3 right; 8 and 9 of new class y. NEW breaks 3."""

    def judge(text: str) -> Gate:
        (tmp_path / "gate.yaml").write_text(text)
        labels, old, new = [0] * 8 + [1] * 2, [0] * 4 + [2] * 6, [0] * 3 + [1] * 7
        return compare(
            answers("old", labels, old, classes=("0", "2")),
            answers("new", labels, new, classes=("0", "1", "2")),
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
def test_samples_that_old_gets_wrong(verdict: Any, ids: str, answer: str, message: str) -> None:
    gate = verdict(f"must_keep: {{ids: [{ids}]}}")
    assert gate.answer == answer
    assert message in gate.checks[0].message


@pytest.mark.parametrize("text", ["must_keep: {ids: [0, 8, 9]}", "limits: {max_nfr: 50}\n" + waiver("id: 9")])
def test_samples_of_new_classes_are_refused(verdict: Any, text: str) -> None:
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


def test_listed_flips_say_their_slice_and_whether_they_are_waived(compared: Any) -> None:
    report = compared(
        "limits: {max_nfr: 2}\n" + waiver(f"id: {IDS[37]}"), [("country",), ("country", "customer")]
    )
    assert [(flip.id, flip.waived) for flip in report.worst_flips] == [(i, i == IDS[37]) for i in IDS[36:]]
    for flip in report.worst_flips:
        at = IDS.index(flip.id)
        assert flip.by == {"country": COUNTRY[at], "customer": CUSTOMER[at]}
    for row in report.slices:
        assert row.negative_flips == sum(row.by.items() <= flip.by.items() for flip in report.worst_flips)
