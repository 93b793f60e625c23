"""The keys of `disagree --json` and `evaluate --labels --json`, by ten samples counted by hand."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import beta, binom

import mptctl as package
from mptctl.errors import MptctlError, UsageError
from tests.common import CommandLine

IDS = [f"s{place}" for place in range(10)]
OLD = ["cat"] * 5 + ["dog"] * 5
# Four differ: OLD is right on s0, NEW on s1 and s5, neither on s6.
NEW = ["dog", "dog", "cat", "cat", "cat", "cat", "emu", "dog", "dog", "dog"]
TRUTH = {"s0": "cat", "s1": "dog", "s5": "cat", "s6": "cow"}
CLASSES = "cat dog emu cow"
MODELS = ("old.npz", "new.npz")
COLUMNS = "id,old,new,old_confidence,new_confidence,stratum,probability,path,draw,label"


def write_model(name: str, answers: list[str], classes: str) -> None:
    """A predictions file with each answer, and the classes that the model knows."""
    np.savez(name, id=IDS, pred=answers, classes=classes.split())


@pytest.fixture(autouse=True)
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_model("old.npz", OLD, CLASSES)
    write_model("new.npz", NEW, CLASSES)


def ends(low: int, high: int) -> Any:
    """The exact interval of a share of ten samples of which between `low` and `high` flip.

    Seven tenths of an error of 2.5 % at each end; the rest is for the choice of the labelled rows.
    """
    tail = 0.7 * 0.025
    return pytest.approx(
        [beta.ppf(tail, low, 11 - low) if low else 0, beta.ppf(1 - tail, high + 1, 10 - high)]
    )


def random_labels(limit: float) -> int:
    """So many labels of samples drawn at random, and any more, show a limit in 80 % of draws if half of it is true."""

    def power(labels: int) -> float:
        most = int(binom.ppf(0.025, labels, limit))
        return float(binom.cdf(most - (binom.cdf(most, labels, limit) > 0.025), labels, limit / 2))

    return 1 + max(labels for labels in range(1, 100) if power(labels) < 0.8)


def test_disagree(mptctl: CommandLine) -> None:
    """At most three flips of ten are within 68 %, and all four labels are needed to show that it is three.

    Of three labels, two flips at most would show it: 3 flips of 4 give that in 75 % of orders, too rarely.
    """
    done = mptctl("disagree", *MODELS, "--limit", "68", "--seed", "7", "--out", "to_label.csv", "--json")
    printed = json.loads(done.stdout)
    assert (printed["n"], printed["flips_at_most"]) == (10, 0.4)
    assert (printed["disagreements"]["count"], printed["disagreements"]["rate"]) == (4, 0.4)
    by_class = [(row["old"], row["n"], row["disagreements"]["count"]) for row in printed["by_class"]]
    assert by_class == [("cat", 5, 2), ("dog", 5, 2)]
    pairs = [(row["old"], row["new"], row["samples"]) for row in printed["pairs"]]
    assert pairs == [("cat", "dog", 2), ("dog", "cat", 1), ("dog", "emu", 1)]
    assert printed["labels"] == {
        "needed": 4,
        "random_needed": random_labels(0.68),
        "for_limit": 0.68,
        "power": 0.8,
        "confidence": 0.95,
    }
    drawn = printed["drawn"]
    assert (drawn["file"], drawn["count"], drawn["seed"]) == ("to_label.csv", 4, 7)
    assert drawn["strata"] == [{"name": "", "disagreements": 4, "count": 4}]
    lines = Path("to_label.csv").read_text().splitlines()
    assert lines[0] == COLUMNS
    rows = list(csv.DictReader(lines))
    assert [row["draw"] for row in rows] == [f"{drawn['fingerprint']}-{place}" for place in range(4)]
    assert {row["probability"] for row in rows} == {"1.0"}
    assert {row["id"]: (row["old"], row["new"]) for row in rows} == {
        sample: (OLD[int(sample[1])], NEW[int(sample[1])]) for sample in TRUTH
    }


def test_disagree_without_a_limit_and_a_file(mptctl: CommandLine) -> None:
    printed = json.loads(mptctl("disagree", *MODELS, "--draw", "1", "--json").stdout)
    assert (printed["labels"], printed["drawn"]["file"], printed["drawn"]["count"]) == (None, None, 1)
    draw = package.disagree(*MODELS, draw=1)
    assert draw.report.model_dump(mode="json") == printed
    assert list(draw.rows[0]) == COLUMNS.split(",")


def save(mptctl: CommandLine, labelled: list[str]) -> None:
    """Draw all rows; label some samples, which stand first in the file that comes back."""
    mptctl("disagree", *MODELS, "--out", "to_label.csv")
    with Path("to_label.csv").open(newline="") as file:
        rows = {row["id"]: row for row in csv.DictReader(file)}
    with Path("labelled.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["draw", "label"])
        writer.writerows([rows[sample]["draw"], TRUTH[sample]] for sample in labelled)


def evaluated(mptctl: CommandLine, *words: str) -> tuple[int, dict[str, Any]]:
    """The exit code and the JSON of `evaluate --labels`."""
    done = mptctl("evaluate", *MODELS, "--labels", "labelled.csv", *words, "--json")
    return done.returncode, json.loads(done.stdout)


def test_all_labels(mptctl: CommandLine) -> None:
    save(mptctl, [*TRUTH])
    code, printed = evaluated(mptctl, "--max-flip-rate", "50")
    assert [printed[key] for key in ("n", "disagreements", "labelled", "looks")] == [10, 4, 4, "once"]
    assert printed["drawn"]["count"] == 4
    flips = {"rate": 0.1, "ci95": ends(1, 1), "estimate": 1, "ci95_this_traffic": [0.1, 0.1], "count": 1}
    assert printed["flips"] == printed["nfr"] == flips
    assert (printed["positive_flips"]["rate"], printed["positive_flips"]["estimate"]) == (0.2, 2)
    assert printed["positive_flips"]["ci95"] == ends(2, 2)
    change = printed["accuracy_change"]
    assert (change["rate"], change["estimate"], change["count"]) == (pytest.approx(0.1), 1, 1)
    assert change["ci95"][0] < 0.1 < change["ci95"][1]
    # The interval of the limit is the one that stands beside the rate.
    gate = printed["gate"]
    assert (code, gate["passed"], gate["answer"], gate["confidence"]) == (0, True, "pass", 0.95)
    (limit,) = gate["limits"]
    assert (limit["name"], limit["limit"], limit["value"]) == ("max-flip-rate", 0.5, 0.1)
    assert limit["interval"] == printed["flips"]["ci95"]


def test_half_of_the_labels() -> None:
    """One negative flip among two labels of four: 1 to 3 of the four, as 3 of them give that in half of orders."""
    rows = package.disagree(*MODELS).rows
    first = [row["id"] for row in rows[:2]]
    truth = {first[0]: rows[0]["old"], first[1]: rows[1]["new"]}
    report = package.disagree(*MODELS).evaluate(truth, max_flip_rate=0.3, looks="once")
    assert (report.disagreements, report.labelled, report.drawn.count) == (4, 2, 4)
    for share in (report.flips, report.positive_flips):
        assert (share.rate, share.estimate, share.count) == (0.2, 2.0, 1)
        assert share.ci95_this_traffic == (0.1, 0.3)
        assert list(share.ci95) == ends(1, 3)
    assert (report.accuracy_change.rate, report.accuracy_change.estimate) == (0, 0)
    assert report.accuracy_change.ci95_this_traffic == pytest.approx((-0.2, 0.2))
    assert (report.gate.answer, report.gate.failed) == ("undecided", ["max-flip-rate"])


def test_ci95_is_of_95_percent_at_every_confidence(mptctl: CommandLine) -> None:
    save(mptctl, [*TRUTH])
    _, printed = evaluated(mptctl, "--max-flip-rate", "90", "--confidence", "0.8")
    (limit,) = printed["gate"]["limits"]
    assert printed["flips"]["ci95"] == ends(1, 1)
    assert (
        printed["flips"]["ci95"][0]
        < limit["interval"][0]
        < limit["interval"][1]
        < printed["flips"]["ci95"][1]
    )


def test_the_nfr_is_null_where_the_models_know_different_classes(mptctl: CommandLine) -> None:
    write_model("new.npz", NEW, f"{CLASSES} fox")
    save(mptctl, [*TRUTH])
    code, printed = evaluated(mptctl)
    assert (code, printed["nfr"], printed["flips"]["rate"]) == (0, None, 0.1)
    assert "know different classes" in printed["nfr_reason"]


def test_arrays_are_as_files_of_the_same() -> None:
    """Predictions in lists, ids by place; logits, also of a fifth class that NEW alone knows."""
    names = CLASSES.split()
    known = {"classes": names, "old_classes": names}
    drawn = package.disagree(OLD, NEW, limit=0.68, seed=7, ids=IDS, **known)
    of_files = package.disagree(*MODELS, limit=0.68, seed=7)
    assert drawn.rows == of_files.rows
    assert drawn.report.labels == of_files.report.labels
    nfr = of_files.evaluate(TRUTH).nfr
    assert nfr is not None
    assert drawn.evaluate(TRUTH).nfr == nfr
    # Without lists of classes, nobody knows a cow.
    places = {int(sample[1]): label.replace("cow", "other") for sample, label in TRUTH.items()}
    assert package.disagree(OLD, NEW).evaluate(places).flips == of_files.evaluate(TRUTH).flips
    scores = [np.array([[float(name == answer) for name in names] for answer in each]) for each in (OLD, NEW)]
    scored = package.disagree(*scores, strata="confidence", ids=IDS, **known)
    assert {row["id"]: (row["old"], row["new"]) for row in scored.rows} == {
        row["id"]: (row["old"], row["new"]) for row in of_files.rows
    }
    wider = np.pad(scores[1], ((0, 0), (0, 1)))
    different = package.disagree(scores[0], wider, ids=IDS, classes=[*names, "fox"], old_classes=names)
    assert different.evaluate(TRUTH).nfr is None


@pytest.mark.parametrize(
    ("new", "given", "said"),
    [
        (NEW[:9], {}, "new: 9 rows for 10 samples"),
        ("new.npz", {}, "old: neither a predictions file nor a frame"),
        (NEW, {"old_classes": ["cat"]}, "old: predictions that are not among its `classes`: dog"),
        (NEW, {"ids": ["s0"] * 10}, "old: 1 ids stand there more than once"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(new: Any, given: dict[str, Any], said: str) -> None:
    with pytest.raises(MptctlError, match=said):
        package.disagree(OLD, new, **given)


def test_files_have_ids_of_their_own() -> None:
    with pytest.raises(UsageError, match="ids: is for arrays"):
        package.disagree(*MODELS, ids=IDS)
