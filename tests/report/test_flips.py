"""The flips of a comparison in each medium: text stays text, pictures come from the data, and nothing is hidden."""

from __future__ import annotations

import base64
import hashlib
import html
import io
import json
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

from mptctl.evaluation.evaluate import compare
from mptctl.evaluation.flip_report import FlippedSample
from mptctl.evaluation.reading.predictions import build_predictions
from mptctl.report.documents.ci import render_junit
from mptctl.report.documents.class_names import with_class_names
from mptctl.report.documents.flip_list import FIRST_ROWS, flip_list
from mptctl.report.documents.flips import flips_document
from mptctl.report.documents.flips_markdown import render_markdown
from mptctl.report.documents.flips_page import drawings, render_html
from mptctl.report.media.page import anchor, script_json
from mptctl.report.media.pictures import LARGEST, data_url, pictures_below
from mptctl.report.media.terminal import print_document
from tests.report.examples import HOSTILE, example, example_page


class Page(HTMLParser):
    """Every tag with its attributes, and the text outside scripts and styles."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(page)
        assert self._open == [], "every tag is closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "br", "img"):
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not {"script", "style"} & set(self._open):
            self.text += data.replace("\u00a0", " ")


def test_it_needs_nothing_but_itself_and_only_its_own_script_may_run() -> None:
    text = example_page()
    page = Page(text)
    for tag, attributes in page.tags:
        assert tag not in ("link", "iframe", "object", "base")
        for name in ("src", "href", "srcset", "action", "xlink:href"):
            value = attributes.get(name)
            assert value is None or value.startswith(("data:", "#")), (tag, name, value)
    assert "http" not in re.sub(r'http-equiv="Content-Security-Policy"', "", text)
    assert "@import" not in text
    assert all(url.startswith("#") for url in re.findall(r"url\(([^)]*)\)", text))
    policy = next(a["content"] for t, a in page.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert "default-src 'none'" in policy
    (script,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    assert "script-src 'unsafe-inline'" not in policy


def test_every_figure_is_there_and_no_id_twice() -> None:
    page = Page(example_page())
    figures = [a["id"] for tag, a in page.tags if tag == "figure"]
    assert figures == ["reliability"]
    ids = [a["id"] for _, a in page.tags if a.get("id")]
    assert len(ids) == len(set(ids))
    wanted = {f"#{i}" for i in ids}
    text = example_page()
    assert set(re.findall(r"url\((#[^)]*)\)", text)) <= wanted
    assert set(re.findall(r'href="(#[^"]*)"', text)) <= wanted


def test_names_stay_text() -> None:
    text = example_page(HOSTILE)
    assert "<script>alert" not in text
    assert "<SCRIPT" not in text
    page = Page(text)
    assert sum(tag == "script" for tag, _ in page.tags) == 1
    assert HOSTILE in page.text


def test_without_logits_or_flips_there_is_still_a_page() -> None:
    report = example(with_logits=False)
    page = Page(render_html(report))
    assert drawings(report) == []
    assert not [attributes for tag, attributes in page.tags if tag == "figure"]
    assert "n/a" in page.text
    same = build_predictions("m", np.arange(3), np.array([0, 1, 2]), np.array([0, 1, 2]))
    text = Page(render_html(compare(same, same))).text
    assert text.index("OLD and NEW are the same model") < text.index("NFR 0.00 %")


def test_the_gallery_shows_pictures_and_both_answers() -> None:
    report = example()
    asked: list[str] = []

    def read(sample: str) -> np.ndarray | None:
        asked.append(sample)
        return None if len(asked) == 2 else np.full((8, 8, 3), 200, dtype=np.uint8)

    page = Page(render_html(report, read))
    assert asked == [flip.id for flip in report.worst_flips]
    pictures = [a["src"] for tag, a in page.tags if tag == "img"]
    assert len(pictures) == len(asked) - 1
    worst = report.worst_flips[0]
    assert worst.id in page.text
    assert f"{100 * worst.old_confidence:.0f} %" in page.text


def test_of_all_flips_the_classes_have_as_many_as_in_their_table() -> None:
    report = example(with_logits=False).model_copy(update={"worst_flips": []})
    flips = [
        FlippedSample(
            id=f"{row.label}{i}", label=row.label, answer=row.answer, new_class=row.new_class,
            old_confidence=None, new_confidence=None,
        )
        for row in report.pairs
        for i in range(row.flips)
    ]  # fmt: skip
    found = flip_list(flips)
    counted = Counter(found["names"][place] for place in found["label"])
    assert counted == {row.label: row.negative_flips for row in report.per_class if row.negative_flips}
    page = render_html(report, flips=flips)
    assert page.count('<li class="row" id="flip-') == FIRST_ROWS
    assert f"{report.counts.negative_flips} flipped samples" in page


def test_nothing_ends_the_script() -> None:
    text = script_json([HOSTILE, "</script>", "<!--", "\u2028", "&amp;"])
    assert not set("<>&'\u2028") & set(text)
    assert json.loads(text) == [HOSTILE, "</script>", "<!--", "\u2028", "&amp;"]


def test_a_link_is_one_word_that_an_address_may_hold() -> None:
    assert anchor("test/00042.png") == "flip-test/00042.png"
    assert anchor("a b'\"<ü>") == "flip-a%20b%27%22%3C%C3%BC%3E"


@pytest.mark.parametrize("length", [10, 10_000])
def test_it_is_short_enough_for_a_comment_whatever_the_names(length: int) -> None:
    """Lists go first, then sentences; what is left out is said, and the verdict and the rates stay."""
    report = example("|" * length)
    many = [f"note {i} {'<' * length}" for i in range(40)]
    text = render_markdown(report.model_copy(update={"warnings": many}))
    assert len(text.encode()) <= 60_000
    assert text.startswith("### ❌ Failed: NFR ")
    assert f"| old right | {report.counts.both_right} |" in text
    assert ("are in the JSON" in text) == (length > 10)
    assert ("<details>" in text) == (length == 10)
    assert text.count("<details>") == text.count("</details>")


def test_what_xml_cannot_hold_is_replaced() -> None:
    report = example()
    check = report.gate.checks[0].model_copy(
        update={"name": "a\x00\x1b[31m]]><b>", "message": "\ud800 \ufffe & 'ü'"}
    )
    gate = report.gate.model_copy(update={"checks": [check]})
    text = render_junit(report.model_copy(update={"gate": gate}))
    case = ElementTree.fromstring(text.encode())[0][0]
    assert case.get("name") == "a\ufffd\ufffd[31m]]><b>"
    assert case[0].get("message") == "\ufffd \ufffd & 'ü'"


def test_each_figure_has_its_caption_as_alternative_text() -> None:
    report = example()
    page = example_page()
    for drawing in drawings(report):
        said = re.search(
            f'<figure id="{drawing.name}">.*?<svg [^>]*role="img" aria-label="([^"]*)"', page, re.DOTALL
        )
        assert html.unescape(said.group(1)) == drawing.caption


LABELS = {"ant": "wood ant", "fox": "red fox"}


def test_a_name_stands_beside_its_id_in_terminal_markdown_and_page_and_ids_stay_in_json() -> None:
    report = example().model_copy(update={"class_labels": LABELS})
    console = Console(width=120, file=io.StringIO())
    shown = with_class_names(report)
    print_document(flips_document(shown), console)
    for text in (console.file.getvalue(), render_markdown(shown), render_html(shown)):  # type: ignore[attr-defined]
        assert "wood ant (ant)" in text
        assert "bee" in text  # which has no name
        assert "wood ant (ant) (ant)" not in text
    assert "red fox (fox)" in render_html(shown)
    assert report.per_class == example().per_class
    assert with_class_names(shown) == shown
    assert report.model_dump()["class_labels"] == LABELS


def test_a_large_picture_is_made_smaller() -> None:
    url = data_url(np.zeros((300, 600, 3), dtype=np.uint8))
    found = Image.open(io.BytesIO(base64.b64decode(url.removeprefix("data:image/png;base64,"))))
    assert found.size == (LARGEST, LARGEST // 2)


def test_pictures_are_read_below_the_root_alone(tmp_path: Path) -> None:
    (tmp_path / "data" / "a").mkdir(parents=True)
    Image.new("L", (4, 3), 7).save(tmp_path / "data" / "a" / "x.png")
    Image.new("RGB", (4, 3)).save(tmp_path / "secret.png")
    (tmp_path / "data" / "note.txt").write_text("no picture")
    read = pictures_below(tmp_path / "data")
    found = read("a/x.png")
    assert found.shape == (3, 4, 3)
    assert (found == 7).all()
    for sample in ("../secret.png", str(tmp_path / "secret.png"), "note.txt", "nowhere.png", "a"):
        assert read(sample) is None
