"""What a new user of `mptctl evaluate` does wrong, or takes for something else."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import IDS, LABELS, NEW, OLD, Call
from tests.common import CommandLine, command, environment
from tests.evaluation.files import write


def test_where_both_streams_go_to_one_place_the_verdict_is_said_once_and_last(call: Call) -> None:
    apart = call("old.npz", "new.npz", "--max-nfr", "2")
    assert apart.stderr.startswith("mptctl: gate failed: --max-nfr")
    np.savez("right.npz", id=IDS, label=LABELS, pred=LABELS)
    for words in (("new.npz",), ("new.npz", "right.npz")):
        done = subprocess.run(
            command("evaluate", "old.npz", *words, "--max-nfr", "2"),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment(),
        )  # fmt: skip
        assert done.returncode == 3
        *_, before, last = done.stdout.splitlines()
        assert (before, last[:6]) == ("", "FAILED")
        assert "gate failed" not in done.stdout


def test_models_in_the_wrong_order_are_remarked_where_they_can_be_compared(call: Call) -> None:
    remark = "OLD looks newer than NEW: new.npz predicts 3 classes with 25.00 % errors, old.npz 2 of them"
    swapped = call("new.npz", "old.npz")
    assert (swapped.returncode, swapped.stdout) == (4, "")
    assert "old.npz: does not know 1 of the 3 old classes (2); were OLD and NEW swapped?" in swapped.stderr
    Path("classes.txt").write_text("0\n1\n")
    known = call("new.npz", "old.npz", "--old-classes", "classes.txt")
    assert remark in " ".join(known.stdout.split())
    assert "looks newer" not in call("old.npz", "new.npz").stdout
    # Without class lists a model knows what it predicts.
    np.savez("new.npz", id=IDS, label=LABELS, pred=NEW)
    np.savez("old.npz", id=IDS, label=LABELS, pred=OLD)
    assert remark in " ".join(call("new.npz", "old.npz").stdout.split())
    # A class that is predicted for none of its few samples may still be known.
    rare = np.concatenate([LABELS, np.zeros(40, dtype=int)])
    ids = [f"{i}" for i in range(len(rare))]
    np.savez("rare-old.npz", id=ids, label=rare, pred=rare)
    np.savez("rare-new.npz", id=ids, label=rare, pred=np.where(rare == 2, 1, rare))
    assert "looks newer" not in call("rare-old.npz", "rare-new.npz").stdout


def test_all_flips_are_written_as_a_table_with_what_must_not_flip(
    mptctl: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ids, labels = np.array([f"p{i}" for i in range(50)]), np.array(["=x", "y"] * 25)
    np.savez("old.npz", id=ids, label=labels, pred=labels, classes=["=x", "y"])
    np.savez(
        "new.npz", id=ids, label=labels, pred=np.where(np.arange(50) < 30, "z", labels),
        classes=["=x", "y", "z"],
    )  # fmt: skip
    Path("gate.yaml").write_text("limits: {max_nfr: 70}\nmust_keep: {ids: [p4, p40]}\n")
    for _ in range(2):  # an earlier table is replaced
        done = mptctl("evaluate", "old.npz", "new.npz", "--gate", "gate.yaml", "--flips", "flips.csv")
        assert done.returncode == 3
        assert "wrote flips.csv" in done.stderr
    with open("flips.csv", encoding="utf-8", newline="") as file:
        rows = {row["id"]: row for row in csv.DictReader(file)}
    assert rows.keys() == {f"p{i}" for i in range(30)}
    assert [name for name, row in rows.items() if row["must_keep"] == "true"] == ["p4"]
    assert (rows["p0"]["label"], rows["p0"]["new"]) == ("'=x", "z")  # no formula of a spreadsheet
    # What failed stands before what was kept.
    assert done.stdout.index("must be kept flipped") < done.stdout.index(
        "NFR 60.00 %", done.stdout.index("must be")
    )


def test_a_release_of_a_checkout_has_its_commit_as_tag(
    mptctl: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("old", "new"):
        np.savez(f"{name}.npz", id=np.arange(50), label=["x", "y"] * 25, pred=["x", name] * 25)

    def git(words: str) -> str:
        return subprocess.run(["git", *words.split()], capture_output=True, text=True, check=True).stdout

    for words in ("init -q", "add -A", "-c user.name=a -c user.email=a@b commit -qm one"):
        git(words)
    mptctl("evaluate", "old.npz", "new.npz", "--append-history", "h.jsonl")
    (release,) = json.loads(mptctl("history", "h.jsonl", "--json").stdout)["releases"]
    assert release["tag"].startswith(git("rev-parse --short=12 HEAD").strip())


def test_a_release_is_recorded_from_a_folder_that_is_gone(
    mptctl: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("old", "new"):
        np.savez(tmp_path / f"{name}.npz", id=np.arange(50), label=["x", "y"] * 25, pred=["x", name] * 25)
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    models = (str(tmp_path / f"{name}.npz") for name in ("old", "new"))
    done = mptctl("evaluate", *models, "--append-history", str(tmp_path / "h.jsonl"))
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "h.jsonl").read_text(encoding="utf-8"))["tag"] is None


def test_what_keeps_models_from_being_compared_stands_in_markdown_and_junit(
    mptctl: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    np.savez("old.npz", id=[1, 2], label=["x", "y"], pred=["x", "y"])
    np.savez("new.npz", id=[1, 1], label=["x", "y"], pred=["x", "y"])
    words = ("evaluate", "old.npz", "new.npz", "--max-nfr", "2", "--markdown", "c.md", "--junit", "j.xml")
    for _ in range(2):  # an earlier one is replaced
        done = mptctl(*words)
        assert done.returncode == 4
        message = done.stderr.removeprefix("mptctl: ").strip()
        [error] = ElementTree.parse("j.xml").getroot().iter("error")
        assert error.get("message") == message
        page = Path("c.md").read_text(encoding="utf-8")
        assert "Not compared" in page
        assert "new.npz" in page
    np.savez("new.npz", id=[1, 2], label=["x", "y"], pred=["x", "x"])
    assert mptctl(*words).returncode == 3
    assert not list(ElementTree.parse("j.xml").getroot().iter("error"))


def test_errors_of_old_on_new_classes_are_not_defined_however_its_classes_are_given(
    tmp_path: Path, mptctl: CommandLine
) -> None:
    """OLD knows cat and dog; of its six samples two are of the emu, which it cannot predict."""
    labels = ["cat", "dog", "emu"] * 2
    known = {"id": [f"s{i}" for i in range(6)], "label": labels}
    (tmp_path / "old.txt").write_text("cat\ndog\n")
    new = write(tmp_path / "new.csv", **known, pred=labels)
    said = {}
    for name, columns, flags in (
        ("given", {}, ("--old-classes", tmp_path / "old.txt")),
        ("named", {"classes": ["cat", "dog"]}, ()),
    ):
        old = write(
            tmp_path / f"{name}.csv", **known, pred=["cat", "dog", "dog", "cat", "dog", "cat"], **columns
        )
        said[name] = json.loads(mptctl("evaluate", old, new, *flags, "--json").stdout)["old"] | {
            "name": "",
            "classes": 0,
        }
        table = mptctl("evaluate", old, new, *flags, "--full").stdout
        assert re.search(r"error, new classes +n/a", table), table
    assert said["given"] == said["named"]
    assert said["given"]["knows_new"] is False


def test_merged_logits_say_no_confidence(tmp_path: Path, mptctl: CommandLine) -> None:
    """OLD tells sofa and couch apart, which NEW calls seat: the softmax over merged logits is not OLD's."""
    rng = np.random.default_rng(0)
    truth = np.arange(60) % 3
    logits = 4 * np.eye(3)[truth] + rng.normal(size=(60, 3))
    old = np.array(["sofa", "couch", "bed"])
    new = np.array(["seat", "seat", "bed"])
    ids = np.arange(60)
    np.savez(tmp_path / "old.npz", id=ids, label=old[truth], logits=logits, classes=old)
    answers = np.where(ids < 6, "bed", new[truth])
    np.savez(tmp_path / "new.npz", id=ids, label=new[truth], pred=answers, classes=["seat", "bed"])
    (tmp_path / "map.yaml").write_text("sofa: seat\ncouch: seat\n")
    words = (
        "evaluate", tmp_path / "old.npz", tmp_path / "new.npz", "--class-map", tmp_path / "map.yaml",
        "--json",
    )  # fmt: skip
    report = json.loads(mptctl(*words).stdout)
    assert report["counts"]["negative_flips"] == 4
    assert report["old"]["ece"] is None
    assert [flip["old_confidence"] for flip in report["worst_flips"]] == [None] * 4
    done = mptctl(*words, "--by", "confidence")
    assert done.returncode == 4
    assert "--class-map merged" in done.stderr


def test_tables_of_more_pairs_than_a_report_lists_say_so(call: Call, mptctl: CommandLine) -> None:
    old = np.array([f"c{i:02}" for i in range(40) for j in range(40) if i != j])
    new = np.array([f"c{j:02}" for i in range(40) for j in range(40) if i != j])
    ids = np.arange(len(old))
    np.savez("many-old.npz", id=ids, label=old, pred=old)
    np.savez("many-new.npz", id=ids, label=old, pred=new)
    said = " ".join(call("many-old.npz", "many-new.npz", "--full").stdout.split())
    assert "From class to prediction, the 1,000 most frequent (10 of 1,000)" in said
    said = " ".join(mptctl("disagree", "many-old.npz", "many-new.npz").stdout.split())
    assert "Predictions that differ, the first 1,000 (12 of 1,000)" in said
