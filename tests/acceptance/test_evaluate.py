"""`evaluate`, `gate init` and `history`: files and runs, gates that pass and fail, each way to be refused."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import mptctl as package
from tests.acceptance.cases import Case, check, cut, written
from tests.common import CommandLine

FILES = "evaluate old.npz new.npz"


def _spoil(name: str, **changed: object) -> object:
    """Write an npz file again with other arrays; None leaves one out."""

    def spoil(place: Path) -> None:
        with np.load(place / name) as arrays:
            kept = dict(arrays) | changed
        (place / name).unlink()
        np.savez(place / name, **{key: value for key, value in kept.items() if value is not None})

    return spoil


def _nan(place: Path) -> None:
    with np.load(place / "new.npz") as arrays:
        logits = arrays["logits"].copy()
    logits[3, 2] = np.nan
    _spoil("new.npz", logits=logits)(place)  # type: ignore[operator]


def _labelled(change: Callable[[list[dict[str, str]]], object] = len) -> Callable[[Path], object]:
    """Draw the rows whose predictions differ, label all of them, change some, and write labelled.csv."""

    def label(place: Path) -> None:
        rows = package.disagree("old.npz", "new.npz").rows
        with np.load(place / "old.npz") as arrays:
            truth = dict(zip(arrays["id"].tolist(), arrays["label"].tolist(), strict=True))
        rows = [row | {"label": truth[row["id"]]} for row in rows]
        change(rows)
        with (place / "labelled.csv").open("w", newline="") as stream:
            writer = csv.DictWriter(stream, rows[0])
            writer.writeheader()
            writer.writerows(rows)

    return label


def _with(row: int, **cells: str) -> Callable[[Path], object]:
    """Labels of which one row has other cells."""
    return _labelled(lambda rows: rows[row].update(cells))


def _label_twice(rows: list[dict[str, str]]) -> None:
    rows.append(rows[0] | {"label": "bee" if rows[0]["label"] == "ant" else "ant"})


def _label_nothing(rows: list[dict[str, str]]) -> None:
    for row in rows:
        row["label"] = ""


def _another_draw(rows: list[dict[str, str]]) -> None:
    rows[2]["draw"] = rows[2]["draw"].replace("-0-", "-4-", 1)


LABELS = f"{FILES} --labels labelled.csv"
NEITHER = "is neither a model nor predictions; name a run, a model (.pt, .onnx, .safetensors), or"
FEW_LABELS = [
    Case("disagree old.npz new.npz --limit 20 --json"),
    Case("disagree old.npz nolabel.csv", 4, "nolabel.csv"),
    Case("disagree old.npz new.csv --out rows.csv", files=("rows.csv",)),
    Case(
        "disagree old.npz new.npz --strata confidence --draw 40 --seed 2 --out rows.csv", files=("rows.csv",)
    ),
    Case("disagree old.npz new.csv --by country --metadata meta.parquet", named="country=de"),
    Case("disagree old mpt-kl --json"),
    Case("disagree old mpt-kl --pictures photos/val --out rows.csv --json", files=("rows.csv",)),
    Case("disagree old.npz new.npz --draw 601", 2, "--draw"),
    Case("disagree old.npz new.npz --limit 0", 2, "--limit"),
    Case("disagree old.npz new.npz --confidence 0.3", 2, "--confidence"),
    Case("disagree old.npz new.npz --out new.npz", 2, "--out"),
    Case("disagree old.npz new.npz --out few.csv", 2, "few.csv"),
    Case("disagree old.npz new.npz --pictures photos/val", 2, "--pictures"),
    Case("disagree old.npz old.npz", 4, "old.npz"),
    Case(
        "disagree few.csv o.csv --strata confidence",
        2,
        "OLD has neither `logits` nor `confidence`",
        before=written("o.csv", "id,pred\na,bee\nb,bee\n"),
    ),
    *(
        Case(
            "disagree few.csv o.csv",
            4,
            f"a class is called {name}",
            before=written("o.csv", f"id,pred\na,{name}\nb,bee\n"),
        )
        for name in ("other", "Other", "UNSURE")
    ),
    Case("disagree old gone", 5, "gone"),
    Case("disagree old.npz new.npz", 6, "new.npz", before=_nan),
    Case("disagree old.npz new.npz --out file/rows.csv", 7, "file"),
    Case(f"{LABELS} --max-flip-rate 50 --json", before=_labelled()),
    Case(
        f"{LABELS} --looks any --report page.html --markdown labels.md --junit gate.xml",
        files=("page.html", "labels.md", "gate.xml"),
        before=_labelled(),
    ),
    Case(f"{LABELS} --max-flip-rate 1 --json", 3, "--max-flip-rate", before=_labelled()),
    Case(f"{LABELS} --max-nfr 50", 2, "--max-nfr", before=_labelled()),
    Case(f"{LABELS} --max-rel-nfr 5", 2, "--max-rel-nfr", before=_labelled()),
    Case(f"{LABELS} --gate gate.yaml", 2, "--gate", before=_labelled()),
    Case(f"{FILES} --max-flip-rate 1", 2, "--max-flip-rate"),
    Case(f"{FILES} --labels gone.csv", 4, "gone.csv"),
    Case(f"{LABELS} --max-er-increase 1", 2, "--max-er-increase", before=_labelled()),
    Case(f"{LABELS} --old-classes all", 2, "--old-classes", before=_labelled()),
    Case(f"{LABELS} --confidence 0", 2, "--confidence 0: must be at least 0.5", before=_labelled()),
    Case(f"{LABELS} --confidence 0.9", 2, "--confidence 0.9: says how sure", before=_labelled()),
    Case(f"{LABELS} --metadata meta.parquet", 2, "--metadata: is for --by", before=_labelled()),
    Case(
        f"{LABELS} --by country --metadata gone.csv",
        4,
        "gone.csv: no such file; name a file with `id` and the columns",
        before=_labelled(),
    ),
    Case(f"{FILES} --labels 'gone*.csv'", 4, "or give the file that disagree --out wrote"),
    Case(f"{FILES} --labels labelled.xlsx", 2, "labelled.xlsx: not a label file; use one of .csv"),
    Case(f"{FILES} --labels few.csv", 4, "few.csv"),
    Case(LABELS, 4, "row 3: cow is no class of either model", before=_with(2, label="cow")),
    Case(LABELS, 4, "did you mean ant", before=_with(2, label="Ant")),
    Case(LABELS, 4, "row 3 was not drawn: its id is x/9", before=_with(2, id="x/9")),
    Case(LABELS, 4, "row 3: 17 is no fingerprint", before=_with(2, draw="17")),
    Case(LABELS, 4, "labelled.csv: row 3", before=_labelled(_label_twice)),
    Case(LABELS, 4, "no row has a label", before=_labelled(_label_nothing)),
    Case(LABELS, 4, "row 3 is of another draw", before=_labelled(_another_draw)),
    Case(
        LABELS,
        4,
        "no column is called `draw`",
        before=_labelled(lambda rows: [row.pop("draw") for row in rows]),
    ),
    Case("evaluate old.npz new.csv --labels labelled.csv", named="306 labels", before=_labelled()),
    Case("evaluate new.npz old.npz --labels labelled.csv", 4, "labelled.csv", before=_labelled()),
    Case(f"{LABELS} --report file/page.html", 7, "file", before=_labelled()),
    Case(f"{FILES} --max-nfr 50 --confidence 0.95 --looks any --json"),
    Case(f"{FILES} --max-rel-nfr 50 --confidence 0.95 --looks any", 2, "--max-rel-nfr"),
    Case(f"{FILES} --max-nfr 50 --looks any", 2, "--confidence"),
]
SLICED = "evaluate few.csv few.csv --metadata m.csv"


def _metadata(*rows: str, head: str = "id,country") -> Callable[[Path], object]:
    """Write columns for slices."""
    return written("m.csv", "\n".join([head, *rows]) + "\n")


SLICES = [
    Case(f"{SLICED} --by country --min-slice 1 --json", before=_metadata("b,de", "a,it", "more,xx")),
    Case(
        f"{SLICED} --by country",
        4,
        "1 ids stand there more than once (a)",
        before=_metadata("a,de", "a,it", "b,it"),
    ),
    Case(f"{SLICED} --by country", 4, "lacks 1 ids of the test set (b)", before=_metadata("a,de")),
    Case(
        f"{SLICED} --by country",
        4,
        "no column is called `id`",
        before=_metadata("a,de", "b,de", head="name,country"),
    ),
    Case(f"{SLICED} --by class", 4, "rename that", before=_metadata("a,de", "b,de", head="id,class")),
    Case("evaluate few.csv few.csv --by confidence", 4, "few.csv has no logits"),
    # As strict as predictions.
    *(
        Case(f"{SLICED} --by country", 4, "m.csv: ", before=_metadata(row, "b,de"))
        for row in ('a,"de" ', "a,d\0e", "a,de,", 'a,de,""', "a, de, x", 'a,"d"e', 'a, "de"')
    ),
]
COMPARISONS = [
    Case(f"{FILES} --json"),
    Case("evaluate old.npz new.csv --json"),
    Case("evaluate old.npz new.parquet --json"),
    Case(f"{FILES}", named="NFR"),
    Case(f"{FILES} --max-nfr 50 --json"),
    Case(
        f"{FILES} --max-nfr 50 --max-lost 50 --max-rel-nfr 500 --max-er-increase 50 --confidence 0.95 --json"
    ),
    Case(f"{FILES} --gate wide.yaml --json"),
    Case("evaluate old.npz old.npz --max-nfr 5 --allow-identical --json"),
    Case(f"{FILES} --metadata meta.parquet --by country --by country,class --by confidence --json"),
    Case(f"{FILES} --old-classes all --json"),
    Case("evaluate old.npz renamed.npz --class-map hound.yaml --json"),
    Case("evaluate old.npz new.npz new.csv --json"),
    Case("evaluate new.npz --json"),
    Case("evaluate new.npz --temperature validation.npz --json"),
    Case("evaluate new.npz --temperature validation.npz", named="temperature"),
    Case("evaluate new.npz --temperature validation.npz --report page.html", files=("page.html",)),
    Case(f"{FILES} --metadata meta.parquet --by country", named="country=de"),
    Case("evaluate old mpt-kl --json"),
    Case("evaluate runs/old runs/no-treatment runs/mpt-kl --by class --json"),
    Case("evaluate mpt-kl --temperature fit --json"),
    Case("evaluate old mpt-kl --save-predictions saved --json", files=("saved/old.npz", "saved/new.npz")),
    Case(f"{FILES} --report page.html", files=("page.html",)),
    Case(
        f"{FILES} --markdown flips.md --flips flips.csv --junit gate.xml --max-nfr 50",
        files=("flips.md", "flips.csv", "gate.xml"),
    ),
    Case(f"{FILES} --append-history releases.jsonl --tag v2 --json", files=("releases.jsonl",)),
    Case(f"{FILES} --memory-limit 1GB --json"),
    Case(f"{FILES} --full", named="bee"),
    # The gate fails.
    Case(f"{FILES} --max-nfr 5 --json", 3, "--max-nfr"),
    Case(f"{FILES} --max-lost 5 --json", 3, "--max-lost"),
    Case(f"{FILES} --max-rel-nfr 20 --json", 3, "--max-rel-nfr"),
    Case(f"{FILES} --max-er-increase -60 --json", 3, "--max-er-increase"),
    Case(f"{FILES} --max-nfr 5 --max-er-increase -60 --max-rel-nfr 500", 3, "; --max-er-increase"),
    Case(f"{FILES} --max-nfr 12 --confidence 0.95 --json", 3, "undecided"),
    Case(f"{FILES} --gate gate.yaml --metadata meta.parquet --json", 3, "test/"),
    Case("evaluate old.npz old.npz --max-nfr 5 --json", 3, "--allow-identical"),
    Case("evaluate old.npz new.npz new.csv --max-nfr 5 --json", 3, "new.csv"),
    Case(f"{FILES} --max-nfr 5 --junit gate.xml --report page.html", 3, files=("gate.xml", "page.html")),
    Case("evaluate old no-treatment --max-nfr 0", 3, "--max-nfr"),
    # Wrong usage.
    Case("evaluate", 2, "OLD"),
    Case(f"{FILES} --max-nfr much", 2, "--max-nfr"),
    *(Case(f"{FILES} --max-nfr {limit}", 2, "--max-nfr") for limit in ("101", "-1", "nan", "inf")),
    Case(f"{FILES} --max-nfr 5 --confidence 0.3", 2, "--confidence"),
    Case(f"{FILES} --confidence 0.95", 2, "--confidence"),
    Case(f"{FILES} --gate gone.yaml", 2, "gone.yaml"),
    Case(f"{FILES} --gate bad.yaml", 2, "max_nrf"),
    Case(f"{FILES} --by country", 4, "--by country: no such column; old.npz has id, label, "),
    Case(f"{FILES} --max-lost 100.5", 2, "--max-lost"),
    Case(f"{FILES} --max-lost -1", 2, "--max-lost"),
    Case(f"{FILES} --max-rel-nfr inf", 2, "--max-rel-nfr"),
    Case(f"{FILES} --max-rel-nfr nan", 2, "--max-rel-nfr"),
    Case(f"{FILES} --max-er-increase -inf", 2, "--max-er-increase"),
    Case(f"{FILES} --max-nfr 5 --confidence nan", 2, "--confidence"),
    Case(f"{FILES} --max-nfr 5 --confidence 95", 2, "--confidence"),
    Case(f"{FILES} --json --markdown -", 2, "--markdown"),
    Case(f"{FILES} --sort size", 2, "--sort"),
    Case(f"{FILES} --by class,", 2, "--by"),
    Case(f"{FILES} --by class,class", 2, "--by"),
    Case(f"{FILES} --metadata meta.parquet", 2, "--metadata"),
    Case("evaluate old.npz --by class", 2, "--by"),
    Case(f"{FILES} --by country --metadata meta.parquet --markdown meta.parquet", 2, "is read by this call"),
    Case(f"{FILES} --tag x", 2, "--append-history"),
    Case(f"{FILES} --append-history old.npz", 2, "--append-history"),
    Case(f"{FILES} --append-history same.svg --junit same.svg", 2, "--append-history"),
    Case("evaluate old.npz notes.txt", 2, f"notes.txt: {NEITHER}", before=written("notes.txt", "{}")),
    Case("evaluate doc.json new.npz", 2, f"doc.json: {NEITHER}", before=written("doc.json", "{}")),
    Case("evaluate nothing", 2, f"nothing: {NEITHER}", before=written("nothing", "")),
    # A file that begins as weights do is taken for a model, whatever its name.
    Case("evaluate weights.bin new.npz", 5, "weights.bin", before=written("weights.bin", "PK\x03\x04")),
    # Flags for one NEW.
    *(
        Case(f"evaluate old.npz new.npz new.csv {words}", 2, f"{words.split()[0]}: is for one NEW")
        for words in (
            "--report page.html",
            "--markdown -",
            "--junit out.xml",
            "--github",
            "--full",
            "--append-history h.jsonl",
            "--save-predictions out",
        )
    ),
    Case("evaluate old.npz new.npz new.csv --temperature fit", 2, "--temperature: is for one model alone"),
    Case("evaluate old.npz new.npz ./new.npz", 2, "is named twice as NEW"),
    Case(f"{FILES} --report new.npz", 2, "--report"),
    Case(f"{FILES} --flips flips.txt", 2, "flips.txt"),
    Case(f"{FILES} --old-classes gone.txt", 2, "gone.txt"),
    Case(f"{FILES} --reprot page.html", 2, "--report"),
    Case(f"{FILES} --memory-limit much", 2, "--memory-limit"),
    Case("evaluate old.npz new.csv --temperature fit", 2, "--temperature"),
    Case("evaluate old mpt-kl --device cuda", 2, "cuda"),
    # Data that cannot be compared.
    Case("evaluate old.npz gone.npz", 4, "gone.npz"),
    Case("evaluate old.npz few.csv", 4, "few.csv"),
    Case("evaluate twice.csv few.csv", 4, "twice.csv"),
    Case("evaluate few.csv nolabel.csv", 4, "nolabel.csv"),
    Case(FILES, 4, "new.npz", before=cut("new.npz", 5000)),
    Case(FILES, 4, "new.npz", before=_spoil("new.npz", id=None)),
    Case(FILES, 4, "new.npz", before=_spoil("new.npz", logits=np.zeros((3, 6)))),
    Case("evaluate old.npz new.parquet", 4, "new.parquet", before=cut("new.parquet", 900)),
    Case("evaluate old.npz new.csv", 4, "new.csv", before=written("new.csv", "id,label\na\n")),
    Case(f"{FILES} --metadata few.csv --by pred", 4, "few.csv"),
    Case(f"{FILES} --metadata gone.csv --by class", 4, "gone.csv"),
    *(
        Case(f"{FILES} --class-map map.yaml", 2, said, before=written("map.yaml", text))
        for text, said in (
            ("ant: [", "map.yaml"),
            ("", "must be a mapping"),
            ("- a", "must be a mapping"),
            ("a: {b: c}", "must be a name"),
            ("a: []", "names no class"),
            ("a: ''", "holds an empty name"),
            ("a: b\na: c", "line 2: the key of line 1 once more"),
            ('a: b\nc: "\\uD800"', "line 2: half of a surrogate pair is no character"),
            ("a: [x, y]\nb: x", "has other old names too"),
            ("a: [x, y]\nb: a", "is split, and what another class becomes"),
        )
    ),
    Case(f"{FILES} --old-classes strangers.txt", 4, "zebra"),
    # Checkpoints, numbers and storage.
    Case("evaluate old gone", 5, "gone"),
    Case("evaluate old mpt-kl", 5, "runs/mpt-kl/best.pt", before=cut("runs/mpt-kl/best.pt", 900)),
    Case("evaluate old mpt-kl", 5, "runs/old/best.pt", before=written("runs/old/best.pt", "")),
    Case(FILES, 6, "new.npz", before=_nan),
    Case(f"{FILES} --report file/page.html", 7, "file"),
    Case(f"{FILES} --save-predictions file/saved", 7, "file"),
]
OTHERS = [
    Case("gate init old.npz new.npz --out new.yaml", files=("new.yaml",)),
    Case("gate init old.npz old.npz --out new.yaml", 2, "nobody's; name the replacement as NEW"),
    Case(
        "gate init o.csv few.csv --out new.yaml",
        4,
        "o.csv: the old model is wrong on all 2 samples",
        before=written("o.csv", "id,label,pred\na,ant,bee\nb,bee,ant\n"),
    ),
    Case("history releases.jsonl --json", 4, "releases.jsonl", before=written("releases.jsonl", "")),
    Case("history gone.jsonl", 4, "gone.jsonl"),
    Case("history runs", 4, "runs: is neither a file nor a link to one"),
    Case("history releases.jsonl", 4, "releases.jsonl", before=written("releases.jsonl", "{}\n")),
    Case(
        f"{FILES} --append-history h.jsonl",
        4,
        "h.jsonl: line 1 is damaged",
        before=written("h.jsonl", "{}\n"),
    ),
]


@pytest.mark.parametrize("case", [*COMPARISONS, *SLICES, *FEW_LABELS, *OTHERS], ids=str)
def test_command(case: Case, place: Path, mptctl: CommandLine) -> None:
    check(case, place, mptctl)


def test_the_history_of_two_releases(place: Path, mptctl: CommandLine) -> None:
    for new, tag in (("new.csv", "v1"), ("new.npz", "v2")):
        check(Case(f"evaluate old.npz {new} --append-history releases.jsonl --tag {tag}"), place, mptctl)
    check(Case("history releases.jsonl", named="v2"), place, mptctl)


def test_what_runs_predicted_is_compared_as_the_runs_are(place: Path, mptctl: CommandLine) -> None:
    runs = check(Case("evaluate old mpt-kl --save-predictions saved --json"), place, mptctl)
    files = check(Case("evaluate saved/old.npz saved/new.npz --json"), place, mptctl)
    for key in ("n", "n_old", "counts", "nfr", "rel_nfr", "lost", "churn", "nfr_ci95"):
        assert runs[key] == files[key], key
