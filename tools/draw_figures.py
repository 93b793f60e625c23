"""Draw those figures of docs/ that commands make, from the files of results/; each contains a description."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from mptctl.data.characters import draw_characters
from mptctl.evaluation.evaluate import ComparisonRequest, compare
from mptctl.evaluation.limits import Limits
from mptctl.evaluation.reading.predictions import build_predictions
from mptctl.inference.discriminability import DiscriminabilityReport
from mptctl.report.documents.comparison import comparison_document
from mptctl.report.documents.few_shot import discriminability_document
from mptctl.report.documents.flips_page import render_html
from mptctl.report.documents.tune import tune_document
from mptctl.report.documents.wording import verdict_sentences, verdict_title
from mptctl.report.figures.embedding import draw_embeddings
from mptctl.report.figures.few_shot import draw_discriminability
from mptctl.report.figures.tune import draw_both
from mptctl.report.media.document import Document, Table
from mptctl.report.media.svg import save_figure
from mptctl.studies.compare import compare_runs
from mptctl.studies.run_folders import kept_answers
from mptctl.tune.tune_report import TuneReport
from tools.kept_embeddings import FEATURES, read_embeddings
from tools.kept_embeddings import words as embedding_words

ROOT = Path(__file__).parent.parent
DOCS, KEPT = ROOT / "docs", ROOT / "results"
# Pixels of the picture of a page, width and height.
PAGE_SIZE = (900, 1150)


class Picture(NamedTuple):
    """A figure, and a description of what it shows; a test compares the description in the file with this one."""

    words: str
    draw: Callable[[], Figure]


class Page(NamedTuple):
    """The HTML of a page, of which a browser shows the beginning, and a description of that."""

    words: str
    text: str


def trade_off() -> Picture:
    """The figure on the page of `mptctl compare results/equal-cost/{1,2,3} --report`: NFR against error."""
    return _first_drawing(comparison_document(compare_runs([KEPT / "equal-cost" / seed for seed in "123"])))


def tune() -> Picture:
    """The figure that `mptctl tune` wrote beside its trials: rates over k, and NFR against error."""
    report = TuneReport.model_validate_json((KEPT / "tune-characters" / "trials.json").read_bytes())
    return _first_drawing(tune_document(report))._replace(draw=lambda: draw_both(report))


def margins() -> Picture:
    """The figure of `mptctl fewshot --analysis --out`: accuracy and separation of classes by margin."""
    path = KEPT / "fewshot-margins" / "analysis.json"
    report = DiscriminabilityReport.model_validate_json(path.read_bytes())
    words = _first_table(discriminability_document(report))
    return Picture(words, lambda: draw_discriminability(report.runs))


def embedding() -> Picture:
    """The figure of `mptctl figure embedding`, from the features that `tools.kept_embeddings` kept."""
    kept = read_embeddings(FEATURES)
    return Picture(embedding_words(kept), lambda: draw_embeddings(kept))


def flips() -> Page:
    """The page of `mptctl evaluate --report` on the demo's MPT update, over test samples of the old classes."""
    old, new = (kept_answers(KEPT / "demo" / "0" / name) for name in ("old", "mpt-kl"))
    names = np.array(new.head.class_names)
    # Only samples of old classes: the beginning of the page shows nothing of others.
    of_old = new.test.label < new.head.num_old
    ids, labels = new.test.index[of_old].astype(str), names[new.test.label[of_old]]
    answers = [names[each.test.answers()[of_old]] for each in (old, new)]
    report = compare(
        build_predictions("old", ids, labels, answers[0], classes=tuple(names[: new.head.num_old])),
        build_predictions("mpt-kl", ids, labels, answers[1], classes=tuple(names)),
        ComparisonRequest(limits=Limits(max_nfr=0.02, confidence=0.95)),
    )
    pictures, *_ = draw_characters(0)
    first_flips = "; ".join(f"{flip.id}: {flip.label}, {flip.answer}" for flip in report.worst_flips)
    words = " ".join([verdict_title(report), *verdict_sentences(report), first_flips])
    return Page(words, render_html(report, lambda sample: pictures[int(sample)]))


PICTURES: dict[str, Callable[[], Picture]] = {
    "trade-off.png": trade_off,
    "tune.png": tune,
    "margins.png": margins,
    "embedding.png": embedding,
}
PAGES: dict[str, Callable[[], Page]] = {"flips.png": flips}


def words_in(path: Path) -> str:
    """The description in a PNG or SVG file; empty where it contains none."""
    if path.suffix == ".png":
        with Image.open(path) as picture:
            return str(picture.info.get("Description", ""))
    element = re.search(
        r"<dc:description>(.*?)</dc:description>", path.read_text(encoding="utf-8"), re.DOTALL
    )
    return unescape(element.group(1)) if element else ""


def _first_drawing(document: Document) -> Picture:
    """The first figure of a document, with the document's first table as the description."""
    return Picture(_first_table(document), lambda: document.drawings()[0].figure)


def _first_table(document: Document) -> str:
    """The cells of a document's first table."""
    table = next(part for part in document.parts if isinstance(part, Table))
    return "; ".join(", ".join(cell.text for cell in row) for row in table.cells())


def _reduce_and_describe(path: Path, words: str) -> None:
    """Rewrite a PNG file with a palette of 256 colours and a description."""
    with Image.open(path) as drawn:
        picture = drawn.convert("RGB").quantize(256)
    metadata = PngInfo()
    metadata.add_text("Description", words)
    picture.save(path, optimize=True, pnginfo=metadata)


def _photograph(page: str, path: Path) -> None:
    """Write the beginning of an HTML page as a PNG of `PAGE_SIZE`, as Chromium shows it.

    Raises:
        SystemExit: there is no Chromium.
    """
    names = (os.environ.get("MPTCTL_CHROMIUM"), "chromium", "chromium-browser", "google-chrome")
    programs = [shutil.which(name) for name in names if name]
    browser = next((program for program in programs if program), None)
    if browser is None:
        raise SystemExit(f"no Chromium, so {path} stays: install it, or name it in MPTCTL_CHROMIUM")
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "page.html").write_text(page, encoding="utf-8")
        size = ",".join(map(str, PAGE_SIZE))
        flags = ["--headless", "--no-sandbox", "--hide-scrollbars", f"--window-size={size}"]
        subprocess.run(
            [browser, *flags, f"--screenshot={path}", (Path(folder) / "page.html").as_uri()],
            check=True,
            stderr=subprocess.DEVNULL,
            stdout=sys.stderr,
        )


def main() -> None:
    """Write all figures, and then the picture of a page, which needs a browser."""
    for name, make_picture in PICTURES.items():
        picture = make_picture()
        save_figure(picture.draw(), DOCS / name)
        _reduce_and_describe(DOCS / name, picture.words)
    for name, make_page in PAGES.items():
        page = make_page()
        _photograph(page.text, DOCS / name)
        _reduce_and_describe(DOCS / name, page.words)


if __name__ == "__main__":
    main()
