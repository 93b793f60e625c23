"""The page of a comparison: it needs no network, and text stays text."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import numpy as np

from mptctl.evaluation.evaluate import compare
from mptctl.evaluation.reading.predictions import build_predictions
from mptctl.report.documents.flips_page import render_html
from mptctl.report.figures.flips import PLOTS, drawings
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


def test_it_needs_nothing_but_itself() -> None:
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


def test_every_figure_is_there_and_no_id_twice() -> None:
    page = Page(example_page())
    figures = [a["id"] for tag, a in page.tags if tag == "figure"]
    assert figures == [plot.name for plot in PLOTS]
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


def test_without_logits_there_is_still_a_page() -> None:
    report = example(with_logits=False)
    page, drawn = Page(render_html(report)), drawings(report)
    assert drawn == []
    assert not [attributes for tag, attributes in page.tags if tag == "figure"]
    assert "n/a" in page.text


def test_without_flips_there_is_still_a_page() -> None:
    same = build_predictions("m", np.arange(3), np.array([0, 1, 2]), np.array([0, 1, 2]))
    page = Page(render_html(compare(same, same)))
    assert "NFR 0.00 %" in page.text
    assert page.text.index("OLD and NEW are the same model") < page.text.index("NFR 0.00 %")


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
