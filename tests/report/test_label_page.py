"""The page on which drawn rows are labelled: by keys in a browser, blind to the models, as evaluate reads them."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mptctl.report.documents.labels import PAGE_ROWS
from tests.common import CommandLine, smooth_picture
from tests.report.browser import SCHEMES, WIDTHS, axe, browser, opened
from tests.report.examples import HOSTILE

# A class that a spreadsheet takes for a formula, and one that no text of a page or a table may break out of.
CLASSES = ["cat", "dog", "=owl", HOSTILE]
N = 40
IDS = np.array([f"week/{HOSTILE if row == 3 else row}.png" for row in range(N)])
TRUTH = np.array(CLASSES * (N // 4))
# NEW flips samples 0 to 3, and mends 4 to 11; both err on sample 12.
OLD, NEW = TRUTH.copy(), TRUTH.copy()
NEW[:4] = np.roll(TRUTH, 1)[:4]
OLD[4:13] = np.roll(TRUTH, 1)[4:13]
NEW[12] = np.roll(TRUTH, 2)[12]
DISAGREE = ("disagree", "old.npz", "new.npz", "--data-root", "pictures", "--page", "label.html")


@pytest.fixture(autouse=True)
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Predictions without labels, and a picture of sample 5."""
    monkeypatch.chdir(tmp_path)
    for name, answers in (("old", OLD), ("new", NEW)):
        np.savez(f"{name}.npz", id=IDS, pred=answers, classes=CLASSES)
    Path("pictures/week").mkdir(parents=True)
    smooth_picture(40, 60, 0).save("pictures/week/5.png")


@pytest.fixture(scope="module")
def chrome() -> Iterator[Any]:
    with browser() as started:
        yield started


def test_nothing_on_the_page_says_which_model_predicts_which_class(mptctl: CommandLine) -> None:
    pages = []
    for old, new in (("old.npz", "new.npz"), ("new.npz", "old.npz")):
        done = mptctl("disagree", old, new, "--data-root", "pictures", "--page", "label.html")
        assert (done.returncode, done.stderr) == (0, "wrote label.html\n")
        pages.append(Path("label.html").read_text())
    named, swapped = (re.sub(r"draw-[0-9a-f]{16}|sha256-[^']*", "", page) for page in pages)
    assert named == swapped
    assert pages[0] != pages[1]  # the name of the draw is of both models in their roles


def test_more_rows_than_a_page_holds_are_refused(mptctl: CommandLine) -> None:
    ids = np.arange(PAGE_ROWS + 1)
    for name in ("old", "new"):
        np.savez(f"{name}.npz", id=ids, pred=np.full(len(ids), name))
    done = mptctl(*DISAGREE, "--out", "to_label.csv")
    assert (done.returncode, "1,001 are drawn; add --draw 1000" in done.stderr) == (2, True)
    assert not Path("label.html").exists()
    assert not Path("to_label.csv").exists()
    assert mptctl(*DISAGREE, "--draw", "1000").returncode == 0


@pytest.mark.slow
def test_labels_by_keys_are_what_evaluate_reads(chrome: Any, mptctl: CommandLine) -> None:
    assert mptctl(*DISAGREE, "--out", "to_label.csv").returncode == 0
    rows = list(csv.DictReader(Path("to_label.csv").read_text().splitlines()))
    truth = dict(zip(IDS.tolist(), TRUTH.tolist(), strict=True))
    with opened(chrome, Path("label.html").resolve()) as page:
        for place, row in enumerate(rows):
            assert page.inner_text("#status") == f"Row {place + 1} of {len(rows)}; {place} labelled."
            assert page.inner_text("#sample") == row["id"]
            assert page.locator("#picture").is_visible() == (row["id"] == "week/5.png")
            offered = [text.split(" ", 1) for text in page.locator("#choices button").all_inner_texts()]
            keys = {name: key for key, name in offered}
            assert list(keys)[2:] == ["other", "unsure"]
            if (right := truth[row["id"]]) in keys:
                page.keyboard.press(keys[right])
            else:
                page.fill("#class", "cow")
                page.keyboard.press("Enter")
                assert page.inner_text("#status") == "No class of either model is called cow."
                page.fill("#class", right)
                page.keyboard.press("Enter")
            if place == 4:
                page.reload()  # the browser keeps the labels
        page.keyboard.press("ArrowLeft")
        assert page.locator("#sample").inner_text() == rows[-2]["id"]
        with page.expect_download() as found:
            page.click("#save")
        assert found.value.suggested_filename == "labelled.csv"
        found.value.save_as("labelled.csv")
    done = mptctl("evaluate", "old.npz", "new.npz", "--labels", "labelled.csv", "--json")
    report = json.loads(done.stdout)
    assert (report["labelled"], report["other"], report["unsure"]) == (13, 1, 0)
    assert (report["flips"]["count"], report["positive_flips"]["count"]) == (4, 8)


@pytest.mark.slow
def test_a_label_is_changed_and_rows_are_skipped(chrome: Any, mptctl: CommandLine) -> None:
    assert mptctl(*DISAGREE).returncode == 0
    with opened(chrome, Path("label.html").resolve()) as page:
        for key in ("1", "ArrowLeft", "4", "ArrowRight", "3"):
            page.keyboard.press(key)
        with page.expect_download() as found:
            page.click("#save")
        found.value.save_as("labelled.csv")
    rows = list(csv.DictReader(Path("labelled.csv").read_text().splitlines()))
    assert [row["label"] for row in rows] == ["unsure", "", "other", *[""] * 10]
    report = json.loads(mptctl("evaluate", "old.npz", "new.npz", "--labels", "labelled.csv", "--json").stdout)
    assert (report["labelled"], report["other"], report["unsure"]) == (3, 1, 2)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_page_is_accessible_and_fits_the_screen(chrome: Any, mptctl: CommandLine, scheme: str) -> None:
    assert mptctl(*DISAGREE).returncode == 0
    for width in WIDTHS:
        with opened(chrome, Path("label.html").resolve(), width=width, scheme=scheme) as page:
            page.evaluate("show(rows.findIndex(row => row.id.includes('script')))")
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            page.evaluate(axe())
            found = page.evaluate("axe.run()")
            assert [(each["id"], each["nodes"][0]["html"]) for each in found["violations"]] == []
