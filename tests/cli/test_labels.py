"""`mptctl disagree` and `mptctl evaluate --labels`: the loop of drawing, labelling and gating, and refusals."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import beta

import mptctl as program
from mptctl.errors import DataError, UsageError
from tests.common import CommandLine

N = 2000
IDS = np.char.add("x/", np.arange(N).astype(str))
# Every tenth prediction differs; of these, NEW is wrong in 40 of 200, OLD in 120, and both in 40.
LABELS = np.array(["cat", "dog"] * (N // 2))
DIFFER = np.arange(N) % 10 == 0
NEGATIVE, POSITIVE = DIFFER & (np.arange(N) < 400), DIFFER & (np.arange(N) >= 800)
OLD = np.where(DIFFER, "owl", LABELS)
OLD[NEGATIVE] = LABELS[NEGATIVE]
NEW = np.where(DIFFER, "bee", LABELS)
NEW[POSITIVE] = LABELS[POSITIVE]
CLASSES = ["bee", "cat", "dog", "owl"]
EVALUATE = ("evaluate", "old.npz", "new.parquet", "--labels", "labelled.csv")


def write_models(
    old: NDArray[np.str_] = OLD, new: NDArray[np.str_] = NEW, classes: list[str] = CLASSES
) -> None:
    """Predictions without labels, in two forms and orders."""
    import pandas as pd

    np.savez("old.npz", id=IDS, pred=old, classes=CLASSES)
    order = np.random.default_rng(0).permutation(N)
    table = {
        "id": IDS[order],
        "pred": new[order],
        "classes": [classes] * N,
        "country": np.where(order < 1000, "de", "fr"),
    }
    pd.DataFrame(table).to_parquet("new.parquet")


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_models()
    return tmp_path


@pytest.fixture
def drawn(mptctl: CommandLine) -> list[dict[str, str]]:
    """The drawn rows, as the file holds them."""
    done = mptctl("disagree", "old.npz", "new.parquet", "--out", "to_label.csv", "--seed", "3")
    assert (done.returncode, done.stderr) == (0, "wrote to_label.csv\n")
    with open("to_label.csv", newline="") as file:
        return list(csv.DictReader(file))


def save(rows: list[dict[str, str]], name: str = "labelled.csv") -> None:
    with open(name, "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


def label(rows: list[dict[str, str]], first: int = N) -> None:
    """Label the first rows as somebody who knows the truth."""
    truth = dict(zip(IDS.tolist(), LABELS.tolist(), strict=True))
    save([row | {"label": truth[row["id"]] if place < first else ""} for place, row in enumerate(rows)])


def test_what_differs_and_how_many_labels_decide(mptctl: CommandLine) -> None:
    done = mptctl("disagree", "old.npz", "new.parquet", "--limit", "5", "--by", "country", "--json")
    printed = json.loads(done.stdout)
    assert (printed["n"], printed["disagreements"]["count"]) == (N, 200)
    assert {(row["by"]["country"], row["disagreements"]["count"]) for row in printed["slices"]} == {
        ("de", 100),
        ("fr", 100),
    }
    assert sum(row["samples"] for row in printed["pairs"]) == 200
    plan = printed["labels"]
    assert 0 < plan["needed"] < 200 < plan["random_needed"]
    shown = mptctl("disagree", "old.npz", "new.parquet", "--limit", "5").stdout
    assert shown.endswith("200 of 2,000 predictions differ (10.00 %); no other sample can flip.\n")
    assert f"{plan['needed']:,} labels of these" in shown
    assert f"random sample of all traffic: {plan['random_needed']:,}." in shown
    assert "No label is needed" in mptctl("disagree", "old.npz", "new.parquet", "--limit", "20").stdout


def test_the_order_is_of_seed_and_traffic_alone(drawn: list[dict[str, str]], mptctl: CommandLine) -> None:
    assert sorted(row["id"] for row in drawn) == sorted(IDS[DIFFER].tolist())
    assert {(row["label"], row["probability"], row["path"]) for row in drawn} == {("", "1.0", "")}
    by_id = {row["id"]: (row["old"], row["new"]) for row in drawn}
    assert by_id["x/0"] == ("cat", "bee")
    assert (
        mptctl("disagree", "old.npz", "new.parquet", "--out", "to_label.csv").returncode == 2
    )  # is there already
    order = np.random.default_rng(9).permutation(N)
    np.savez("old.npz", id=IDS[order], pred=OLD[order], classes=CLASSES)
    for seed, same in (("3", True), ("4", False)):
        again = f"again{seed}.csv"
        line = (
            "disagree", "old.npz", "new.parquet", "--seed", seed, "--draw", "50", "--out", again,
            "--data-root", "pics",
        )  # fmt: skip
        assert mptctl(*line).returncode == 0
        rows = list(csv.DictReader(Path(again).read_text().splitlines()))
        assert ([row["id"] for row in rows] == [row["id"] for row in drawn[:50]]) == same
        assert (rows[0]["probability"], rows[0]["path"]) == ("0.25", f"pics/{rows[0]['id']}")


def test_all_labels_say_how_many_flip(drawn: list[dict[str, str]], mptctl: CommandLine) -> None:
    label(drawn)
    done = mptctl(*EVALUATE, "--max-flip-rate", "3.5", "--by", "country", "--json")
    printed = json.loads(done.stdout)
    assert done.returncode == 0
    assert [printed[key] for key in ("n", "disagreements", "labelled", "unsure", "other")] == [
        N,
        200,
        200,
        0,
        40,
    ]
    for kind, count in (("flips", 40), ("positive_flips", 120), ("accuracy_change", 80)):
        share = printed[kind]
        assert share["count"] == count
        assert (share["rate"], share["estimate"]) == (pytest.approx(count / N), count)
        assert share["ci95_this_traffic"] == pytest.approx([count / N, count / N])
        assert share["ci95"][0] < count / N < share["ci95"][1]
    # 40 labels are classes that neither predicts there, and both know.
    assert (printed["nfr"], printed["nfr_reason"]) == (printed["flips"], "")
    by = {row["by"]["country"]: row["flips"]["count"] for row in printed["slices"]}
    assert by == {"de": 40, "fr": 0}
    failed = mptctl(*EVALUATE, "--max-flip-rate", "1")
    assert failed.returncode == 3
    assert "FAILED  negative flips per sample 2.00 % > limit 1 %  (200 labels, 95 % interval" in failed.stdout


def test_each_batch_narrows_what_is_known(drawn: list[dict[str, str]], mptctl: CommandLine) -> None:
    widths = []
    for first in (20, 60, 120, 200):
        label(drawn, first)
        done = mptctl(*EVALUATE, "--max-flip-rate", "4", "--looks", "any", "--json")
        printed = json.loads(done.stdout)
        low, high = printed["flips"]["ci95_this_traffic"]
        assert low <= 40 / N <= high
        assert (done.returncode, printed["gate"]["answer"]) in ((0, "pass"), (3, "undecided"))
        assert printed["gate"]["looks"] == printed["looks"] == "any"
        widths.append(high - low)
    assert widths == sorted(widths, reverse=True)
    assert (widths[-1], done.returncode) == (0, 0)
    once = json.loads(mptctl(*EVALUATE, "--json").stdout)
    assert "looks" not in once["gate"]


def test_files_of_a_gate_with_labels(drawn: list[dict[str, str]], mptctl: CommandLine) -> None:
    label(drawn, 30)
    outputs = ("--report", "page.html", "--markdown", "labels.md", "--junit", "gate.xml", "--github")
    done = mptctl(*EVALUATE, "--max-flip-rate", "3", "--confidence", "0.99", "--looks", "any", *outputs)
    assert done.returncode == 3
    suite = ElementTree.parse("gate.xml").getroot()[0]
    assert (suite[0].get("name"), suite[0][0].get("type")) == ("max-flip-rate", "undecided")
    assert "UNDECIDED" in Path("labels.md").read_text()
    assert "95 % interval that 30 labels allow" in Path("page.html").read_text()
    assert "30 labels, 99 % interval" in Path("labels.md").read_text()
    assert "::error title=mptctl gate::negative flips per sample" in done.stderr
    assert "label more of the 170 other rows" in done.stderr
    assert "no longer has its level" not in done.stderr
    once = mptctl(*EVALUATE, "--max-flip-rate", "3", "--confidence", "0.99")
    assert "other rows (a gate that is repeated on more labels no longer has its level)" in once.stderr


def test_where_all_of_a_draw_is_labelled_a_larger_one_is_advised(
    drawn: list[dict[str, str]], mptctl: CommandLine
) -> None:
    mptctl("disagree", "old.npz", "new.parquet", "--out", "fifty.csv", "--draw", "50", "--seed", "3")
    with open("fifty.csv", newline="") as file:
        fifty = list(csv.DictReader(file))
    assert [row["id"] for row in fifty] == [row["id"] for row in drawn[:50]]
    label(fifty)
    done = mptctl(*EVALUATE, "--max-flip-rate", "2", "--confidence", "0.99")
    assert done.returncode == 3
    assert "all 50 rows of the draw are labelled: draw more of the 200 with disagree --draw" in done.stderr


def test_the_history_remembers_the_looks_at_a_draw(drawn: list[dict[str, str]], mptctl: CommandLine) -> None:
    """Two draws in turns, and a release; 40 of 2,000 flip once every row is labelled."""
    mptctl("disagree", "old.npz", "new.parquet", "--out", "other.csv", "--draw", "50")
    other = list(csv.DictReader(Path("other.csv").read_text().splitlines()))
    looking = (*EVALUATE, "--max-flip-rate", "3.5", "--append-history", "history.jsonl")
    np.savez("a.npz", id=[1, 2], label=["x", "y"], pred=["x", "y"])
    np.savez("b.npz", id=[1, 2], label=["x", "y"], pred=["x", "x"])
    mptctl("evaluate", "a.npz", "b.npz", "--append-history", "history.jsonl")
    for rows, first, words, code, said in (
        (drawn, 20, (), 3, "added to"),
        (other, 30, ("--looks", "any"), 3, "added to"),
        (drawn, 200, ("--tag", "all"), 0, "added to"),
        (drawn, 200, ("--tag", "all"), 0, "not added, since it is release 4 already:"),
        (other, 40, ("--looks", "any"), 3, "added to"),
    ):
        label(rows, first)
        done = mptctl(*looking, *words)
        assert (done.returncode, done.stderr.splitlines()[0]) == (code, f"{said} history.jsonl")
    lines = [json.loads(line) for line in Path("history.jsonl").read_text().splitlines()]
    history = json.loads(mptctl("history", "history.jsonl", "--json").stdout)
    # The looks at one draw stand together.
    assert history == {"releases": [lines[0]], "looks": [lines[1], lines[3], lines[2], lines[4]]}
    assert [look["labelled"] for look in history["looks"]] == [20, 200, 30, 40]
    assert [look.get("looks") for look in history["looks"]] == [None, None, "any", "any"]
    assert history["looks"][1]["draw"] == drawn[0]["draw"].rpartition("-")[0]
    whole = history["looks"][1]
    assert (whole["n"], whole["flips"], whole["verdict"], whole["tag"]) == (N, 40 / N, "passed", "all")
    # With every label, 70 % of the error is left to the exact interval of 40 of 2,000.
    tail = 0.7 * 0.025
    assert whole["interval"] == pytest.approx([beta.ppf(tail, 40, N - 39), beta.ppf(1 - tail, 41, N - 40)])
    shown = " ".join(mptctl("history", "history.jsonl").stdout.split())
    assert "NFR from" not in shown  # of one release alone
    traffic = whole["draw"].split("-")[1][:6]
    assert f"Draw {traffic}-3-200 was looked at 2 times, 2 of them with an interval for one look" in shown
    assert shown.count("was looked at") == 1
    Path("looks.jsonl").write_text(json.dumps(whole | {"draw": "draw-1"}) + "\n")
    damaged = mptctl("history", "looks.jsonl")
    assert (damaged.returncode, "looks.jsonl: line 1 is damaged (draw: " in damaged.stderr) == (4, True)


def test_a_gate_file_decides_by_labels(drawn: list[dict[str, str]], mptctl: CommandLine) -> None:
    """All labels: 40 of 2,000 flip, at 95 % 1.4 to 2.8 % of such traffic."""
    label(drawn)
    for content, words, code, said in (
        ("limits: {max_flip_rate: 3}", (), 0, "within limit 3 %  (200 labels, 95 % interval"),
        ("limits: {max_flip_rate: 2}", (), 3, "UNDECIDED"),
        ("looks: any\nconfidence: 0.9", ("--max-flip-rate", "3"), 0, "90 % interval"),
        ("limits: {max_flip_rate: 3}", ("--max-flip-rate", "1"), 3, "limit 1 %"),
        ("limits: {max_flip_rate: 1}", ("--max-flip-rate", "3"), 3, "the stricter of the two is used, 1"),
        ("looks: any", (), 2, "sets no limit; give limits: {max_flip_rate: 2} in it"),
        ("limits: {max_flip_rate: 3, max_lost: 5}", (), 2, "limits: max_lost: labels of rows whose"),
        ("limits: {max_flip_rate: 3}\nallow: [identical]", (), 2, "gate.yaml: allow: labels of rows whose"),
        ("limits: {max_flip_rate: 101}", (), 2, "gate.yaml: limits.max_flip_rate"),
        ("slices: [{by: {country: de}, max_flip_rate: 3}]", (), 2, "max_flip_rate"),
    ):
        Path("gate.yaml").write_text(content)
        done = mptctl(*EVALUATE, "--gate", "gate.yaml", *words)
        text = " ".join((done.stdout + done.stderr).split())
        assert (done.returncode, " ".join(said.split()) in text) == (code, True), text
    Path("gate.yaml").write_text("looks: any\nlimits: {max_flip_rate: 3}")
    gate = json.loads(mptctl(*EVALUATE, "--gate", "gate.yaml", "--json").stdout)["gate"]
    assert (gate["looks"], gate["confidence"]) == ("any", 0.95)
    np.savez("a.npz", id=[1, 2], label=["x", "y"], pred=["x", "y"])
    np.savez("b.npz", id=[1, 2], label=["x", "y"], pred=["x", "x"])
    done = mptctl("evaluate", "a.npz", "b.npz", "--gate", "gate.yaml")
    assert (done.returncode, "max_flip_rate is for traffic with few labels" in done.stderr) == (2, True)


def test_nfr_is_flips_per_sample_where_both_know_the_same(
    drawn: list[dict[str, str]], mptctl: CommandLine
) -> None:
    save([row | {"label": row["old"] if place < 3 else row["new"]} for place, row in enumerate(drawn[:50])])
    done = mptctl(*EVALUATE, "--json")
    printed = json.loads(done.stdout)
    assert (done.returncode, printed["nfr_reason"]) == (0, "")
    assert printed["nfr"]["rate"] == pytest.approx(3 / 50 * 200 / N)
    save([row | {"label": "other" if place < 3 else row["new"]} for place, row in enumerate(drawn[:50])])
    foreign = json.loads(mptctl(*EVALUATE, "--json").stdout)
    assert (foreign["nfr"], foreign["other"]) == (None, 3)
    assert foreign["nfr_reason"].startswith("3 labels are `other`")
    write_models(classes=[*CLASSES, "zebra"])
    drawn_again = mptctl("disagree", "old.npz", "new.parquet", "--out", "again.csv")
    assert drawn_again.returncode == 0
    rows = list(csv.DictReader(Path("again.csv").read_text().splitlines()))
    save([row | {"label": row["new"]} for row in rows])
    other = mptctl(*EVALUATE)
    assert (other.returncode, "know different classes" in other.stdout) == (0, True)


def test_unsure_labels_and_gaps_are_bounded(drawn: list[dict[str, str]], mptctl: CommandLine) -> None:
    rows = [row | {"label": row["new"]} for row in drawn]
    rows[3]["label"], rows[5]["label"] = "unsure", ""
    save(rows)
    printed = json.loads(mptctl(*EVALUATE, "--json").stdout)
    assert (printed["unsure"], printed["flips"]["ci95_this_traffic"]) == (2, [0.0, 2 / N])
    assert "1 rows before the last label have none" in printed["warnings"][0]


def test_names_that_a_spreadsheet_would_compute_come_back(mptctl: CommandLine) -> None:
    ids, names = ["=1+1", "00042", "@x", " y "], ["-x", "'+y", " z", "7"]
    np.savez("old.npz", id=ids, pred=names)
    np.savez("new.npz", id=ids, pred=names[::-1])
    assert mptctl("disagree", "old.npz", "new.npz", "--out", "to_label.csv").returncode == 0
    rows = list(csv.DictReader(Path("to_label.csv").read_text().splitlines()))
    assert not any(row[cell].startswith(("=", "-", "@")) for row in rows for cell in ("id", "old", "new"))
    save([row | {"label": row["old"].removeprefix("'")} for row in rows])
    printed = json.loads(
        mptctl("evaluate", "old.npz", "new.npz", "--labels", "labelled.csv", "--json").stdout
    )
    assert (printed["flips"]["count"], printed["other"]) == (4, 0)


def test_empty_rows_below_the_table_are_no_rows(drawn: list[dict[str, str]], mptctl: CommandLine) -> None:
    label(drawn, 20)
    with open("labelled.csv", "a") as file:
        file.write("," * (len(drawn[0]) - 1) + "\n")
    assert json.loads(mptctl(*EVALUATE, "--json").stdout)["labelled"] == 20


def test_other_predictions_than_those_of_the_draw_are_refused(
    drawn: list[dict[str, str]], mptctl: CommandLine
) -> None:
    label(drawn)
    changed = NEW.copy()
    changed[1] = "owl"
    write_models(new=changed)
    done = mptctl(*EVALUATE)
    assert (done.returncode, "not those that its rows were drawn from" in done.stderr) == (4, True)
    write_models(new=OLD)
    same = mptctl("disagree", "old.npz", "new.parquet")
    assert (same.returncode, "there is nothing to label" in same.stderr) == (4, True)
    write_models(new=np.where(NEW == "cat", "Cat", NEW), classes=["bee", "Cat", "dog", "owl"])
    spelled = mptctl("disagree", "old.npz", "new.parquet")
    assert (spelled.returncode, "two spellings" in spelled.stderr) == (4, True)
    # Each model tells " cat" from "cat"; a label cannot, and would count the flips of one as the other's.
    blank = np.where(NEW == "cat", " cat", NEW)
    write_models(new=blank, classes=[" cat", "bee", "cat", "dog", "owl"])
    blanks = mptctl("disagree", "old.npz", "new.parquet")
    assert (blanks.returncode, "two classes that no label tells apart" in blanks.stderr) == (4, True)


def test_files_say_why_labels_cannot_be_used(drawn: list[dict[str, str]], mptctl: CommandLine) -> None:
    label(drawn, 0)
    done = mptctl(*EVALUATE, "--max-flip-rate", "3", "--markdown", "labels.md", "--junit", "gate.xml")
    assert done.returncode == 4
    assert "no row has a label" in Path("labels.md").read_text()
    error = ElementTree.parse("gate.xml").getroot()[0][0][0]
    assert "no row has a label" in error.get("message", "")


def test_strata_of_confidence(mptctl: CommandLine) -> None:
    """OLD is sure of its first 50 of 200, NEW of its last 30; confidences stand in a column, and in logits."""
    place = np.cumsum(DIFFER) - 1
    with open("old.csv", "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["id", "pred", "confidence"])
        rows.writerows(zip(IDS, OLD, np.where(place < 50, 0.9, 0.5), strict=True))
    chance = np.where(place < 170, 0.5, 0.9)
    logits = np.log((1 - chance) / 3)[:, None].repeat(4, axis=1)
    logits[np.arange(N), np.searchsorted(CLASSES, NEW)] = np.log(chance)
    np.savez("new.npz", id=IDS, logits=logits, classes=CLASSES)
    line = (
        "disagree", "old.csv", "new.npz", "--strata", "confidence", "--draw", "100", "--out", "to_label.csv",
        "--json",
    )  # fmt: skip
    printed = json.loads(mptctl(*line).stdout)
    assert [(row["disagreements"], row["count"]) for row in printed["drawn"]["strata"]] == [
        (30, 15),
        (120, 60),
        (50, 25),
    ]
    rows_drawn = list(csv.DictReader(Path("to_label.csv").read_text().splitlines()))
    surer = {row["id"]: row["stratum"] for row in rows_drawn}
    assert all((surer[name] == "old surer") == (int(name[2:]) < 500) for name in surer)
    label(rows_drawn, 80)
    done = json.loads(mptctl("evaluate", "old.csv", "new.npz", "--labels", "labelled.csv", "--json").stdout)
    low, high = done["flips"]["ci95_this_traffic"]
    assert (done["labelled"], low <= 0.02 <= high) == (80, True)


def write_confidences(role: str, answers: NDArray[np.str_], confidence: Sequence[object]) -> None:
    with open(f"{role}.csv", "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["id", "pred", "confidence"])
        rows.writerows(zip(IDS, answers, confidence, strict=True))


@pytest.mark.parametrize("wrong", ["97", "", "nan", "sure"])
def test_confidences_that_are_no_probabilities_are_refused(wrong: str, mptctl: CommandLine) -> None:
    write_confidences("old", OLD, [wrong if place == 10 else 0.5 for place in range(N)])
    write_confidences("new", NEW, [0.5] * N)
    done = mptctl("disagree", "old.csv", "new.csv", "--strata", "confidence")
    assert (done.returncode, "old.csv: `confidence`" in done.stderr) == (4, True)


def test_confidences_changed_since_the_draw_are_refused(mptctl: CommandLine) -> None:
    """Rows 0 and 10 change their strata; the number of rows in each stays."""
    line = ("evaluate", "old.csv", "new.csv", "--labels", "labelled.csv")
    write_confidences("new", NEW, [0.5] * N)
    write_confidences("old", OLD, [0.9 if place == 0 else 0.5 for place in range(N)])
    drawn = mptctl("disagree", "old.csv", "new.csv", "--strata", "confidence", "--out", "to_label.csv")
    assert drawn.returncode == 0
    rows = list(csv.DictReader(Path("to_label.csv").read_text().splitlines()))
    save([{key: row[key] for key in ("draw", "label")} | {"label": row["new"]} for row in rows])
    assert mptctl(*line).returncode == 0
    write_confidences("old", OLD, [0.9 if place == 10 else 0.5 for place in range(N)])
    changed = mptctl(*line)
    assert (changed.returncode, "not those that its rows were drawn from" in changed.stderr) == (4, True)


@pytest.mark.parametrize(
    ("name", "value"),
    [("limit", 2), ("limit", 0), ("limit", float("nan")), ("draw", 0), ("seed", -1), ("strata", "country")],
)
def test_arguments_out_of_range_are_refused(name: str, value: Any) -> None:
    with pytest.raises(UsageError, match=f"{name} {value}: "):
        program.disagree("old.npz", "new.parquet", **{name: value})


@pytest.mark.parametrize(("name", "value"), [("max_flip_rate", 2), ("looks", "often")])
def test_arguments_of_a_verdict_out_of_range_are_refused(name: str, value: Any) -> None:
    draw = program.disagree("old.npz", "new.parquet")
    with pytest.raises(UsageError, match=f"{name} {value}: "):
        draw.evaluate({draw.rows[0]["id"]: "cat"}, **{name: value})


def test_the_same_from_python(drawn: list[dict[str, str]], mptctl: CommandLine) -> None:
    draw = program.disagree("old.npz", "new.parquet", limit=0.05, seed=3)
    assert [row["id"] for row in draw.rows] == [row["id"] for row in drawn]
    truth = dict(zip(IDS.tolist(), LABELS.tolist(), strict=True))
    found = draw.evaluate(
        {row["id"]: truth[row["id"]] for row in draw.rows[:60]}, max_flip_rate=0.04, looks="any"
    )
    label(drawn, 60)
    printed = json.loads(mptctl(*EVALUATE, "--max-flip-rate", "4", "--looks", "any", "--json").stdout)
    assert json.loads(found.model_dump_json()) == printed
    assert draw.evaluate("labelled.csv", max_flip_rate=0.04, looks="any") == found
    with pytest.raises(DataError, match="was not drawn"):
        draw.evaluate({"x/1": "cat"})


def test_looks_at_a_test_set_that_grows(mptctl: CommandLine) -> None:
    np.savez("old.npz", id=IDS, label=LABELS, pred=OLD, classes=CLASSES)
    np.savez("new.npz", id=IDS, label=LABELS, pred=NEW, classes=CLASSES)
    line = ("evaluate", "old.npz", "new.npz", "--confidence", "0.95")
    once = json.loads(mptctl(*line, "--max-nfr", "3", "--max-lost", "9", "--json").stdout)["gate"]["checks"]
    done = mptctl(*line, "--max-nfr", "3", "--max-lost", "9", "--looks", "any", "--json")
    for one, many in zip(once, json.loads(done.stdout)["gate"]["checks"], strict=True):
        assert many["interval"][0] < one["interval"][0] < one["interval"][1] < many["interval"][1]
    Path("gate.yaml").write_text("confidence: 0.95\nlooks: any\nlimits: {max_nfr: 3, max_lost: 9}\n")
    of_file = json.loads(mptctl("evaluate", "old.npz", "new.npz", "--gate", "gate.yaml", "--json").stdout)[
        "gate"
    ]
    assert of_file["looks"] == "any"
    assert of_file["checks"] == json.loads(done.stdout)["gate"]["checks"]
    undecided = mptctl(*line, "--max-nfr", "2.2", "--looks", "any")
    assert (undecided.returncode, "and ask again: --max-nfr keeps its level" in undecided.stdout) == (3, True)
    gates = (("--max-nfr", "3"), ("--max-nfr", "3", "--looks", "any"))
    for words in gates:
        mptctl(*line, *words, "--append-history", "history.jsonl")
    kept = json.loads(mptctl("history", "history.jsonl", "--json").stdout)["releases"]
    assert [release.get("looks") for release in kept] == [None, "any"]
    assert mptctl("history", "history.jsonl").stdout.count("any looks") == 1
    for words, named in (
        ((*line, "--max-rel-nfr", "50", "--looks", "any"), "--max-rel-nfr has no interval"),
        (("evaluate", "old.npz", "new.npz", "--max-nfr", "2", "--looks", "any"), "give --confidence"),
    ):
        refused = mptctl(*words)
        assert (refused.returncode, named in refused.stderr) == (2, True)
