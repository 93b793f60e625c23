"""A chain of updates in its forms: 80 columns, Markdown that is read back, a figure whose bars are the numbers."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from matplotlib.patches import Rectangle
from rich.console import Console

from mptctl.report.documents.chain import FLIPS, KINDS, write_chain
from mptctl.report.figures.chain import draw_chain
from mptctl.studies.chain import ChainReport, report_chains
from mptctl.studies.run_folders import runs_of_chain
from tests.report.rendered import chain_markdown, print_chain
from tests.studies.test_chain import made_chain

ODD = "a|b_50%"


@pytest.fixture
def report(tmp_path: Path) -> ChainReport:
    """Two seeds of two methods, one of them with an odd name."""
    found = report_chains(runs_of_chain(made_chain(tmp_path / "study")))
    rows = [*found.rows, *(row.model_copy(update={"name": ODD}) for row in found.rows)]
    return ChainReport(
        first=[*found.first, *(model.model_copy(update={"seed": 2}) for model in found.first)],
        rows=[*rows, *(row.model_copy(update={"seed": 2}) for row in rows)],
        notes=["something was left out"],
    )


def test_in_a_terminal_it_keeps_to_80_columns_and_has_every_number(report: ChainReport) -> None:
    out = io.StringIO()
    print_chain(report, Console(file=out, width=80))
    lines = [" ".join(line.split()) for line in out.getvalue().splitlines()]
    assert max(map(len, out.getvalue().splitlines())) <= 80
    assert lines.count("seed 1") == lines.count("seed 2") == 1
    place = lines.index("mpt-kl 50.00 % 37.50 % 33.33 %")
    assert lines[place + 1] == "generation 2 18.71 to 81.29 % 8.52 to 75.51 % 4.33 to 77.72 %"
    assert lines[place + 2] == "6 classes 5 / 10 3 / 8 2 / 6"
    place = lines.index("mpt-kl 16.67 % 16.67 % 16.67 %")
    assert lines[place + 1] == "generation 2" + 3 * " 0.42 to 64.12 %"
    assert lines[place + 2] == "6 classes 1 / 6 1 / 6 1 / 6"
    text = " ".join(lines)
    assert "Generation 0 of seed 2 knows 3 classes and errs on 16.67 % of their test samples" in text
    assert "Note: something was left out." in text


def test_large_counts_fit_into_80_columns(report: ChainReport) -> None:
    large = report.rows[1].er_all.model_copy(update={"count": 12_345, "of": 50_000})
    row = report.rows[1].model_copy(update=dict.fromkeys((*FLIPS, *KINDS), large) | {"name": "mpt-kl-nobias"})
    out = io.StringIO()
    print_chain(report.model_copy(update={"rows": [row]}), Console(file=out, width=80))
    assert max(map(len, out.getvalue().splitlines())) <= 80
    assert out.getvalue().count("12,345 / 50,000") == 6
    assert out.getvalue().count("mpt-kl-nobias ") == 2


def test_markdown_holds_every_rate_with_interval_and_count(report: ChainReport) -> None:
    text = chain_markdown(report)
    table = [line for line in text.splitlines() if line.startswith("| mpt-kl (generation 2; 6 classes)")]
    assert len(table) == 4  # two of each seed
    flips, kinds = ([cell.strip() for cell in line.strip("|").split("|")][1:] for line in table[:2])
    assert flips == [
        "50.00 % (18.71 to 81.29 %; 5 / 10)", "37.50 % (8.52 to 75.51 %; 3 / 8)", "33.33 % (4.33 to 77.72 %; 2 / 6)"
    ]  # fmt: skip
    assert kinds == ["16.67 % (0.42 to 64.12 %; 1 / 6)"] * 3
    assert "#### seed 2" in text
    assert r"a\|b\_50%" in text


def test_bars_of_the_figure_are_the_numbers(report: ChainReport, tmp_path: Path) -> None:
    figure = draw_chain(report)
    panels = figure.axes
    assert [axes.get_title() for axes in panels] == ["mpt-kl", ODD]
    bars = [patch for patch in panels[0].patches if isinstance(patch, Rectangle)]
    # Lasting, new and healed of two generations of two seeds, in the order of the rows.
    rows = [row for row in report.rows if row.name == "mpt-kl"]
    heights = [
        100 * value
        for row in rows
        for value in (row.lasting.value, row.new.value, -(row.healed.value or 0.0))
        if value is not None
    ]
    assert [bar.get_height() for bar in bars] == pytest.approx(heights)
    assert [bar.get_y() for bar in bars[1::3]] == pytest.approx(
        [100 * (row.lasting.value or 0) for row in rows]
    )
    places = [bar.get_x() for bar in bars[::3]]
    assert len(set(places)) == 4
    for name in ("chain.png", "chain.svg"):
        (path,) = write_chain(report, figure=tmp_path / name)
        first = path.read_bytes()
        write_chain(report, figure=path)
        assert path.read_bytes() == first
