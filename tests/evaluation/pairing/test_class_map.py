"""A class map: renamed, merged and split classes counted by hand, and what is no map."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mptctl.errors import DataError, MptctlError
from mptctl.evaluation.evaluate import ComparisonRequest, compare
from mptctl.evaluation.flip_report import FlipReport
from mptctl.evaluation.pairing.class_map import ClassMap, read_class_map
from mptctl.evaluation.reading.predictions import read_predictions
from tests.common import CommandLine
from tests.evaluation.files import WRITERS, write

IDS = [f"s{i}" for i in range(8)]
# OLD calls them cat, sofa, couch, bird; NEW calls them feline, sofa, owl, duck, and knows van, which is new.
OLD_LABELS = ["cat", "cat", "sofa", "couch", "couch", "bird", "bird", "bird"]
NEW_LABELS = ["feline", "feline", "sofa", "sofa", "sofa", "owl", "owl", "duck"]
OLD = ["cat", "cat", "couch", "couch", "bird", "bird", "bird", "cat"]
NEW = ["feline", "van", "sofa", "van", "sofa", "duck", "van", "duck"]
#  by hand: kept, flip, kept (couch for a sofa is right), flip, gained, kept (duck is a bird too), flip, gained
MAP = "cat: feline\nsofa: sofa\ncouch: sofa\nbird: [owl, duck]\n"
OLD_CLASSES, NEW_CLASSES = ["cat", "sofa", "couch", "bird"], ["feline", "sofa", "owl", "duck", "van"]


def mapped(tmp_path: Path, text: str = MAP) -> ClassMap:
    (tmp_path / "map.yaml").write_text(text)
    return read_class_map(tmp_path / "map.yaml")


def files(tmp_path: Path, suffix: str, **more: Any) -> tuple[Path, Path]:
    old, new = tmp_path / f"old{suffix}", tmp_path / f"new{suffix}"
    write(old, id=IDS, label=OLD_LABELS, pred=OLD, classes=OLD_CLASSES)
    write(new, id=IDS, label=more.get("label", NEW_LABELS), pred=more.get("pred", NEW), classes=NEW_CLASSES)
    return old, new


def compared(tmp_path: Path, **more: Any) -> FlipReport:
    old, new = files(tmp_path, ".npz", **more)
    return compare(
        read_predictions(old), read_predictions(new), ComparisonRequest(class_map=mapped(tmp_path))
    )


def test_by_hand(tmp_path: Path) -> None:
    report = compared(tmp_path)
    assert list(report.counts.model_dump().values()) == [3, 3, 2, 0]
    assert {row.label: (row.n, row.negative_flips, row.taken_by) for row in report.per_class} == {
        "feline": (2, 1, "van"),
        "sofa": (3, 1, "van"),
        "bird": (3, 1, "van"),
    }
    assert report.destinations.to_new_class.count == 3
    assert [(row.name, row.old, row.new) for row in report.class_map or []] == [
        ("feline", ["cat"], ["feline"]),
        ("sofa", ["sofa", "couch"], ["sofa"]),
        ("bird", ["bird"], ["owl", "duck"]),
    ]


def test_without_a_map_it_is_refused_and_labels_may_be_in_either_names(tmp_path: Path) -> None:
    old, new = files(tmp_path, ".npz")
    with pytest.raises(DataError, match="--class-map"):
        compare(read_predictions(old), read_predictions(new))
    assert compared(tmp_path, label=OLD_LABELS).counts.negative_flips == 3


def test_names_that_are_exchanged(tmp_path: Path) -> None:
    """OLD's a is b now, and the other way round: names alone would count four flips."""
    names = {"id": ["1", "2", "3", "4"], "classes": ["a", "b"]}
    write(tmp_path / "old.npz", label=list("aabb"), pred=list("aabb"), **names)
    write(tmp_path / "new.npz", label=list("bbaa"), pred=list("bbab"), **names)
    pair = (read_predictions(tmp_path / "old.npz"), read_predictions(tmp_path / "new.npz"))
    report = compare(*pair, ComparisonRequest(class_map=mapped(tmp_path, "a: b\nb: a\n")))
    assert (report.counts.both_right, report.counts.negative_flips) == (3, 1)
    assert [flip.id for flip in report.worst_flips] == ["4"]


def test_merged_classes_have_no_logits_and_answers_stay(tmp_path: Path) -> None:
    """Column by column the answers are cat, sofa, couch, bird; sofa and couch are one class then."""
    logits = np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32)
    write(tmp_path / "old.npz", id=IDS, label=OLD_LABELS, logits=logits, classes=OLD_CLASSES)
    write(tmp_path / "new.npz", id=IDS, label=NEW_LABELS, pred=NEW, classes=NEW_CLASSES)
    models = {role: read_predictions(tmp_path / f"{role}.npz") for role in ("old", "new")}
    old = mapped(tmp_path).apply(models)["old"]
    assert (old.classes, old.logits) == (("feline", "sofa", "bird"), None)
    names = np.array(["feline", "sofa", "sofa", "bird"])
    assert old.preds.tolist() == names[logits.argmax(axis=1)].tolist()


@pytest.mark.parametrize(
    ("text", "old_classes", "new_classes", "message"),
    [
        ("cat: feline\n", ["cat", "dog"], ["feline", "dog", "cat"], "new.npz knows cat, which in the map is the other"),
        ("bird: [owl, duck]\n", ["bird", "owl"], ["owl", "duck"], "old.npz knows owl, which in the map is the other"),
        (MAP.replace("cat:", "cats:"), OLD_CLASSES, NEW_CLASSES,
         "knows none of 1 old names (cats); nearest to the first: cat"),
        (MAP.replace("owl", "owls"), OLD_CLASSES, NEW_CLASSES,
         "knows none of 1 new names (owls); nearest to the first: owl"),
        (MAP.replace("sofa: sofa\n", ""), OLD_CLASSES, NEW_CLASSES,
         "also knows sofa, which the map gives to another class"),
    ],
)  # fmt: skip
def test_names_that_no_model_knows_or_that_would_fall_together(
    tmp_path: Path, text: str, old_classes: list[str], new_classes: list[str], message: str
) -> None:
    for role, classes in (("old", old_classes), ("new", new_classes)):
        write(tmp_path / f"{role}.npz", id=["a", "b"], label=classes[:2], pred=classes[:2], classes=classes)
    old, new = (read_predictions(tmp_path / f"{role}.npz") for role in ("old", "new"))
    with pytest.raises(MptctlError) as caught:
        compare(old, new, ComparisonRequest(class_map=mapped(tmp_path, text)))
    assert (caught.value.exit_code, message in str(caught.value)) == (4, True), str(caught.value)


def test_old_classes_and_every_form_on_the_command_line(
    tmp_path: Path, mptctl: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("map.yaml").write_text(MAP)
    Path("old.txt").write_text("cat\ncouch\n")
    for suffix in WRITERS:
        files(tmp_path, suffix)
    for one, other in zip(WRITERS, reversed(WRITERS), strict=True):
        done = mptctl("evaluate", f"old{one}", f"new{other}", "--class-map", "map.yaml", "--json")
        assert (done.returncode, json.loads(done.stdout)["counts"]["negative_flips"]) == (0, 3)
    words = ("evaluate", "old.npz", "new.npz", "--class-map", "map.yaml")
    assert json.loads(mptctl(*words, "--old-classes", "old.txt", "--json").stdout)["n_old"] == 5
    said = " ".join(mptctl(*words).stdout.split())
    assert "sofa stands for sofa, couch of OLD and sofa of NEW" in said
    assert mptctl("gate", "init", *words[1:], "--by", "class").returncode == 0
    assert mptctl(*words, "--gate", "gate.yaml").returncode == 0
