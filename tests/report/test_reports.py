"""Reports for people: the same numbers everywhere, text that stays text, and a page that needs no network."""

from __future__ import annotations

import base64
import io
import re
from collections import Counter
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

from mptctl.evaluation.evaluate import compare
from mptctl.evaluation.flip_report import FlipReport, PairRow
from mptctl.evaluation.gate import Limits
from mptctl.evaluation.predictions import build_predictions
from mptctl.report.flips_figures import draw_figures, save_figures
from mptctl.report.flips_markdown import escape, render_markdown
from mptctl.report.flips_page import render_html
from mptctl.report.flips_terminal import print_report
from mptctl.report.gallery import LARGEST, data_url, pictures_below

HOSTILE = "<script>alert('x')</script>|`$\\frac$`@all"


@cache
def example(first_class: str = "ant", with_logits: bool = True, many: int = 0) -> FlipReport:
    """Four old and two new classes, 400 samples; `many` more old classes of one sample each."""
    rng = np.random.default_rng(0)
    classes = (first_class, "bee", "cow", "dog", *(f"old{i}" for i in range(many)), "emu", "fox")
    c, n = len(classes), 400
    truth = np.concatenate([rng.integers(0, c, n - many), np.arange(4, 4 + many)])
    ids = np.array([f"{i:04d}{first_class if not i else ''}" for i in range(n)])
    labels = np.array(classes)[truth]
    logits = rng.normal(size=(2, n, c)) * 1.5
    logits[:, np.arange(n), truth] += 2
    if not with_logits:
        old = np.array(classes)[logits[0][:, : c - 2].argmax(1)]
        new = np.array(classes)[logits[1].argmax(1)]
        return compare(
            build_predictions("old", ids, labels, old, classes=classes[: c - 2]),
            build_predictions("new", ids, labels, new, classes=classes),
        )
    return compare(
        build_predictions("old", ids, labels, logits=logits[0][:, : c - 2], classes=classes[: c - 2]),
        build_predictions(f"new {first_class}", ids, labels, logits=logits[1], classes=classes),
        limits=Limits(max_nfr=0.01),
        nfr_margin=0.02,
    )


@cache
def example_page() -> str:
    return render_html(example())


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
            self.text += data


class TestPage:
    def test_it_needs_nothing_but_itself(self) -> None:
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
        assert policy is not None
        assert "default-src 'none'" in policy

    def test_the_verdict_stands_before_everything_else(self) -> None:
        report = example()
        page = Page(render_html(report))
        assert page.text.index("Gate failed: max-nfr") < page.text.index("negative flips")
        assert f"{report.counts.negative_flips}" in page.text
        assert f"{100 * report.nfr:.2f}%" in page.text

    def test_every_figure_is_there_and_no_id_twice(self) -> None:
        page = Page(example_page())
        figures = [a["id"] for tag, a in page.tags if tag == "figure"]
        assert figures == ["margins", "reliability", "confidence", "flow", "bias"]
        ids = [a["id"] for _, a in page.tags if a.get("id")]
        assert len(ids) == len(set(ids))
        wanted = {f"#{i}" for i in ids}
        text = example_page()
        assert set(re.findall(r"url\((#[^)]*)\)", text)) <= wanted
        assert set(re.findall(r'href="(#[^"]*)"', text)) <= wanted

    def test_names_stay_text(self) -> None:
        report = example(HOSTILE)
        text = render_html(report)
        assert "<script>alert" not in text
        assert "<SCRIPT" not in text
        page = Page(text)
        assert sum(tag == "script" for tag, _ in page.tags) == 1
        assert HOSTILE in page.text

    def test_without_logits_there_is_still_a_page(self) -> None:
        page = Page(render_html(example(with_logits=False)))
        assert [a["id"] for tag, a in page.tags if tag == "figure"] == ["flow"]
        assert "n/a" in page.text

    def test_without_flips_there_is_still_a_page(self) -> None:
        same = build_predictions("m", np.arange(3), np.array([0, 1, 2]), np.array([0, 1, 2]))
        page = Page(render_html(compare(same, same)))
        assert "NFR 0.00%" in page.text
        assert page.text.index("Old and new are one and the same model") < page.text.index("NFR 0.00%")

    def test_lost_right_answers_stand_beside_the_other_rates(self) -> None:
        report = example()
        right = report.counts.both_right + report.counts.negative_flips
        page = Page(render_html(report))
        console = Console(width=80, file=io.StringIO())
        print_report(report, console)
        shown = console.file.getvalue()  # type: ignore[attr-defined]
        for text in (page.text, render_markdown(report), shown):
            assert "flips / right before" in text
            assert f"{report.counts.negative_flips} / {right}" in text
            assert f"{100 * report.counts.negative_flips / right:.2f}%" in text

    def test_the_gallery_shows_pictures_and_both_answers(self) -> None:
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
        assert worst.old_confidence is not None
        assert f"{100 * worst.old_confidence:.0f}%" in page.text


class TestGallery:
    def test_a_picture_survives(self) -> None:
        picture = np.random.default_rng(0).integers(0, 255, (6, 9, 3)).astype(np.uint8)
        url = data_url(picture)
        found = Image.open(io.BytesIO(base64.b64decode(url.removeprefix("data:image/png;base64,"))))
        np.testing.assert_array_equal(np.asarray(found), picture)

    def test_a_large_picture_is_made_smaller(self) -> None:
        url = data_url(np.zeros((300, 600, 3), dtype=np.uint8))
        found = Image.open(io.BytesIO(base64.b64decode(url.removeprefix("data:image/png;base64,"))))
        assert found.size == (LARGEST, LARGEST // 2)

    def test_pictures_are_read_below_the_root_alone(self, tmp_path: Path) -> None:
        (tmp_path / "data" / "a").mkdir(parents=True)
        Image.new("L", (4, 3), 7).save(tmp_path / "data" / "a" / "x.png")
        Image.new("RGB", (4, 3)).save(tmp_path / "secret.png")
        (tmp_path / "data" / "note.txt").write_text("no picture")
        read = pictures_below(tmp_path / "data")
        found = read("a/x.png")
        assert found is not None
        assert found.shape == (3, 4, 3)
        assert (found == 7).all()
        for sample in ("../secret.png", str(tmp_path / "secret.png"), "note.txt", "nowhere.png", "a"):
            assert read(sample) is None


class TestTerminal:
    @pytest.mark.parametrize("terminal", [True, False])
    def test_it_fits_80_columns(self, terminal: bool) -> None:
        console = Console(width=80, height=60, file=io.StringIO(), force_terminal=terminal, color_system=None)
        print_report(example("a-class-with-quite-a-long-name"), console)
        lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
        assert max(len(line) for line in lines) <= 80
        assert "…" not in "".join(lines)

    def test_lists_are_as_long_as_the_terminal_allows(self) -> None:
        lengths = {}
        for height in (24, 100):
            console = Console(width=80, height=height, file=io.StringIO(), force_terminal=True)
            print_report(example(many=60), console)
            lengths[height] = len(console.file.getvalue().splitlines())  # type: ignore[attr-defined]
        assert lengths[24] < lengths[100] <= 100

    def test_markup_in_names_stays_text(self) -> None:
        console = Console(width=80, file=io.StringIO())
        print_report(example("[red]x[/red]"), console, rows=0)
        assert "[red]x[/red]" in console.file.getvalue()  # type: ignore[attr-defined]


class TestMarkdown:
    def test_numbers_and_verdict(self) -> None:
        report = example()
        text = render_markdown(report)
        assert text.startswith("### ❌ Gate failed: max-nfr\n")
        assert f"| old right | {report.counts.both_right} | **{report.counts.negative_flips}** |" in text

    def test_every_table_row_has_its_columns(self) -> None:
        for line in render_markdown(example(HOSTILE)).splitlines():
            if line.startswith("|"):
                columns = len(re.findall(r"(?<!\\)\|", line)) - 1
                assert columns in (3, 4, 6)

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("<b>&", "&lt;b&gt;&amp;"),
            ("a|b", r"a\|b"),
            ("[x](y)", r"\[x\](y)"),
            ("`x`*_", r"\`x\`\*\_"),
            ("@team", "&#64;team"),
            ("two\nlines", "two lines"),
        ],
    )
    def test_text_stays_text(self, text: str, expected: str) -> None:
        assert escape(text) == expected


class TestFigures:
    def test_files(self, tmp_path: Path) -> None:
        paths = save_figures(example(HOSTILE), tmp_path / "figures")
        assert sorted(p.name for p in paths) == sorted(p.name for p in (tmp_path / "figures").iterdir())
        assert len(paths) == 10
        for path in paths:
            if path.suffix == ".png":
                with Image.open(path) as picture:
                    assert min(picture.size) > 500

    def test_the_flow_shows_the_worst_classes_and_all_that_they_lost(self) -> None:
        report = example(many=60)
        axes = draw_figures(report)["flow"].axes[0]
        found = [re.fullmatch(r"(.*) \(([\d,]+)\)", text.get_text()) for text in axes.texts]
        flips = [(match.group(1), int(match.group(2))) for match in found if match]
        lost: Counter[str] = Counter()
        for row in report.pairs:
            lost[row.label] += row.flips
        worst = dict(lost.most_common(8))
        assert flips[:8] == list(worst.items())
        assert sum(count for _, count in flips[8:]) == sum(worst.values())
        bottom, top = axes.get_ylim()
        assert all(top < text.get_position()[1] < bottom for text in axes.texts)
        of = f"8 of {len(lost)} classes with flips, {sum(worst.values())} of {report.counts.negative_flips} flips"
        assert axes.get_title() == of

    def test_the_flow_keeps_other_old_and_other_new_answers_apart(self) -> None:
        pairs = [PairRow(label="a", answer=f"o{i}", new_class=False, flips=9 - i // 4) for i in range(9)]
        pairs += [PairRow(label="a", answer=f"n{i}", new_class=True, flips=1) for i in range(3)]
        figure = draw_figures(example().model_copy(update={"pairs": pairs}))["flow"]
        texts = [text.get_text() for text in figure.axes[0].texts]
        assert texts[-2:] == ["other old classes (7)", "other new classes (3)"]

    def test_a_name_in_another_script_gives_no_warning(self) -> None:
        assert "猫" in render_html(example("猫"))
