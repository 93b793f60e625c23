"""The report that `mptctl.evaluate` returns: printed, shown, drawn, written, and its flips as a table."""

from __future__ import annotations

import html
import io
import json
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from rich.console import Console
from rich.text import Text

import mptctl
from mptctl.report.documents.flips_page import render_html
from tests.common import CommandLine
from tests.integrations.small_arrays import LABELS, NEW, OLD, OLD_CLASSES, by_hand, evaluate_arrays, large


def test_it_prints_itself_in_a_terminal() -> None:
    report = by_hand()
    assert repr(report) == "<Report: NFR 25.00 % (1 / 4), old -> new>"
    text = str(report)
    assert "NFR 25.00 %" in text
    assert re.search(r"old right +2 +1\b", text)
    assert "\x1b" not in text
    console = Console(width=80, force_terminal=True, file=io.StringIO(), color_system="standard")
    console.print(report)
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "\x1b[1m" in shown
    assert Text.from_ansi(shown).plain.count("NFR 25.00 %") == 1


def test_it_shows_itself_in_a_notebook_as_the_page_does() -> None:
    report = evaluate_arrays(**large())
    shown = report._repr_html_()
    found = re.fullmatch(r'<iframe sandbox="allow-scripts" [^>]*srcdoc="([^"]*)"></iframe>', shown)
    page = html.unescape(found.group(1))
    assert page == render_html(report.result)
    assert "negative flips" in page
    assert page.count("<svg") == 1


def test_files_and_json_are_those_of_the_command_line(
    mptctl: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    report = by_hand()
    np.savez(tmp_path / "old.npz", id=np.arange(5), label=LABELS, pred=OLD)
    np.savez(tmp_path / "new.npz", id=np.arange(5), label=LABELS, pred=NEW)
    (tmp_path / "names.txt").write_text("cat\ndog\n")
    out = mptctl("evaluate", "old.npz", "new.npz", "--old-classes", "names.txt", "--markdown", "-")
    assert report.to_markdown() == out.stdout.replace(".npz", "")
    text = report.to_markdown(tmp_path / "report.md")
    assert (tmp_path / "report.md").read_text() == text
    assert text == report.to_markdown()
    report.to_html(tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text() == render_html(report.result)
    assert json.loads(report.model_dump_json()) == report.model_dump()
    assert json.loads(json.dumps(report.model_dump()))["nfr"] == 0.25


def test_every_flip_is_a_row_of_an_arrow_table() -> None:
    content = large()
    report = evaluate_arrays(**content)
    flips = report.flips
    assert isinstance(flips, pa.Table)
    assert flips.column_names == [
        "id",
        "label",
        "old",
        "new",
        "new_class",
        "old_confidence",
        "new_confidence",
    ]
    assert flips.num_rows == report.counts.negative_flips > len(report.worst_flips) == 24
    rows = np.array(flips["id"].to_pylist()).astype(int)
    labels, old, new = content["labels"][rows], content["old"][rows], content["new"][rows]
    assert flips["label"].to_pylist() == flips["old"].to_pylist() == labels.astype(str).tolist()
    assert flips["new"].to_pylist() == new.argmax(1).astype(str).tolist()
    sure = np.exp(old.astype(float)).max(1) / np.exp(old.astype(float)).sum(1)
    np.testing.assert_allclose(flips["old_confidence"].to_numpy(), sure, rtol=1e-12)
    assert flips.to_pandas()["new_class"].dtype == bool
    # Answers alone have no confidences; the columns are there all the same.
    assert by_hand().flips.to_pylist() == [
        {"id": "1", "label": "cat", "old": "cat", "new": "dog", "new_class": False}
        | {"old_confidence": None, "new_confidence": None}
    ]
    nothing = mptctl.evaluate(LABELS, old=OLD, new=LABELS, old_classes=OLD_CLASSES)
    assert nothing.flips.schema == flips.schema
    assert nothing.flips.num_rows == 0


def test_every_number_is_an_attribute_and_is_named() -> None:
    report = by_hand()
    for name, value in report.model_dump().items():
        if name != "gate":
            assert name in dir(report)
            found = getattr(report, name)
            assert not isinstance(value, int | float) or found == value
    with pytest.raises(AttributeError, match="'Report' has no number 'nrf'"):
        _ = report.nrf
