"""A comparison in its forms: each is parsed back and holds the numbers, escaped names, and what the marks mean."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import pytest
from matplotlib.collections import PathCollection
from pylatexenc.latex2text import LatexNodes2Text
from pylatexenc.latexwalker import LatexEnvironmentNode, LatexMacroNode, LatexWalker

from mptctl.report.documents.comparison import comparison_document, conclusion, spread_text
from mptctl.report.documents.comparison_files import render_csv
from mptctl.report.figures.trade_off import draw_trade_off
from mptctl.report.media.document import Table
from mptctl.report.media.latex import document_latex
from mptctl.report.media.markdown import document_markdown
from mptctl.report.media.page import render_document
from mptctl.studies.compare import compare_runs
from mptctl.studies.comparison import COLUMNS, Comparison, ComparisonRow
from tests.report.golden import piped
from tests.studies.made_runs import made_seed

# A name that means something in every form.
ODD = "a_b 50% & <i>x</i> #1 $k$ {y} ~^|"


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    root = tmp_path_factory.mktemp("study")
    for seed in (1, 2):
        made_seed(root / str(seed), seed, {"no-treatment": 2.0, "mpt-kl": 3.0, "pct-kl": 2.0})
    found = compare_runs([root])
    rows = [row.model_copy(update={"name": ODD}) if row.name == "pct-kl" else row for row in found.rows]
    return found.model_copy(update={"rows": rows})


def test_below_the_name_of_a_row_stand_its_method_and_the_weights_that_it_began_with(
    comparison: Comparison,
) -> None:
    def named(row: ComparisonRow, name: str) -> ComparisonRow:
        return row.model_copy(update={"name": name, "init": "old"})

    by_method = {row.method: row for row in comparison.rows}
    plain, kl = by_method["no-treatment"], by_method["mpt-kl"]
    rows = [plain, named(plain, "longer"), named(plain, "plain from the old weights"), named(kl, "mpt-kl")]
    table = comparison_document(comparison.model_copy(update={"rows": rows})).parts[0]
    assert isinstance(table, Table)
    cells = [cell for cell, *_ in table.cells()]
    assert [(cell.text, cell.notes) for cell in cells] == [
        ("no-treatment", ()),
        ("longer", ("plain from the old weights",)),
        ("plain from the old weights", ()),
        ("mpt-kl", ("mpt-kl from the old weights",)),
    ]


def test_the_best_of_the_rows_with_most_seeds_is_not_called_the_best_of_all(tmp_path: Path) -> None:
    strengths_of_seeds = {
        1: {"no-treatment": 2.0, "pct-kl": 3.0, "mpt-kl": 1.0},
        2: {"no-treatment": 2.0, "pct-kl": 3.0},
        3: {"no-treatment": 2.0},
    }
    for seed, strengths in strengths_of_seeds.items():
        made_seed(tmp_path / str(seed), seed, strengths)
    found = compare_runs([tmp_path])
    rows = {row.name: row for row in found.rows}
    assert "nfr" in rows["no-treatment"].best
    text, which = " ".join(piped(comparison_document(found)).split()), "of the rows with all 3 seeds"
    assert f"Least NFR {which}: no-treatment, " in text
    assert f"* is the best {which}, ~ is within noise" in text
    document = comparison_document(found)
    for other_form in (document_markdown(document), render_document(document), document_latex(document)):
        assert f"is the best {which}, " in " ".join(other_form.split())
        assert "best of its column" not in other_form
    assert f"Lowest NFR {which}: no-treatment" in render_document(document)
    # No row has all three.
    two_seeds = rows["no-treatment"].model_copy(update={"seeds": [2, 3]})
    fewer = found.model_copy(update={"rows": [two_seeds, rows["pct-kl"]]})
    assert "Least NFR of the rows with most seeds: no-treatment, " in piped(comparison_document(fewer))
    # A row with fewer seeds has a higher mean.
    worse = found.model_copy(update={"rows": [rows["no-treatment"], rows["mpt-kl"]]})
    assert "Least NFR: no-treatment, " in piped(comparison_document(worse))


def test_latex_is_parsed_and_holds_a_cell_for_each_rate(comparison: Comparison) -> None:
    text = document_latex(comparison_document(comparison))
    nodes, _, _ = LatexWalker(text, tolerant_parsing=False).get_latex_nodes()
    table = next(n for n in nodes if isinstance(n, LatexEnvironmentNode))
    tabular = next(n for n in table.nodelist if isinstance(n, LatexEnvironmentNode))
    assert (table.environmentname, tabular.environmentname) == ("table", "tabular")
    macros = [n.macroname for n in tabular.nodelist if isinstance(n, LatexMacroNode)]
    assert [macros.count(name) for name in ("toprule", "midrule", "bottomrule")] == [1, 1, 1]
    best = sum(len(row.best) for row in comparison.rows)
    assert macros.count("textbf") == best > 0
    lines = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert len(lines) == 1 + len(comparison.rows)
    cells = [
        [LatexNodes2Text().latex_to_text(c).strip() for c in re.split(r"(?<!\\)&", line)] for line in lines
    ]
    assert all(len(line) == 6 for line in cells)
    for line, row in zip(cells[1:], comparison.rows, strict=True):
        assert line[0].replace("ˆ", "^") == row.name
        assert line[1].rstrip("^∼~ ") == spread_text(row.nfr)
    plain = LatexNodes2Text().latex_to_text(text)
    assert "Bold is the best of its column, ~ is within noise" in " ".join(plain.split())


def test_the_number_of_parameters_is_shown_where_rows_differ_in_it(comparison: Comparison) -> None:
    assert "parameters" not in document_markdown(comparison_document(comparison))
    first, *rest = comparison.rows
    larger = first.model_copy(update={"parameters": 11_200_000})
    text = document_markdown(comparison_document(comparison.model_copy(update={"rows": [larger, *rest]})))
    assert "| 11.2 M |" in text
    assert text.count(f"| {first.parameters / 1e3:.1f} k |") == len(rest)


def test_the_area_of_a_mean_is_the_cost_of_its_training(comparison: Comparison) -> None:
    drawn = draw_trade_off(comparison.rows).axes[0].collections
    areas = {str(mark.get_label()): mark.get_sizes()[0] for mark in drawn if isinstance(mark, PathCollection)}
    costs = {row.name: row.cost for row in comparison.rows if row.name != ODD}
    assert set(costs) == {"no-treatment", "mpt-kl"}
    assert costs["no-treatment"] == pytest.approx(1)
    for name, cost in costs.items():
        assert areas[name] / areas["no-treatment"] == pytest.approx(cost)


def test_files_say_at_which_error_and_on_which_part_they_compare(tmp_path: Path) -> None:
    made_seed(tmp_path, 1, {"no-treatment": 3.0, "mpt-kl": 2.0})
    found = compare_runs([tmp_path], part="val", equal_error="mpt-kl")
    lines = list(csv.DictReader(io.StringIO(render_csv(found))))
    assert {(line["part"], line["equal_error"]) for line in lines} == {("val", "mpt-kl")}
    biases = [row.bias.values for row in found.rows if row.bias is not None]
    assert [[float(value) for value in line["bias_values"].split()] for line in lines] == biases
    text = LatexNodes2Text().latex_to_text(document_latex(comparison_document(found)))
    assert "or the smallest is added. Bold is" in text
    assert "on validation samples" in text
    plain = list(csv.DictReader(io.StringIO(render_csv(compare_runs([tmp_path])))))
    assert {(line["part"], line["equal_error"]) for line in plain} == {("test", "")}


def points(value: float | None, column: str) -> str:
    """A difference in points, with its sign."""
    return f"{100 * value:+.{1 if column == 'rel_nfr' else 2}f}"


def differences(comparison: Comparison) -> list[list[str]]:
    """The lines of the table of differences without the name of the row: rate, difference, both intervals."""
    text = document_markdown(comparison_document(comparison))
    lines = [re.split(r"(?<!\\)\|", line)[1:-1] for line in text.splitlines()]
    return [[cell.strip() for cell in line[1:]] for line in lines if len(line) == 5][2:]


def test_differences_stand_in_texts_and_tables(tmp_path: Path) -> None:
    for seed in (1, 2, 3):
        made_seed(tmp_path / str(seed), seed, {"no-treatment": 2.0, "mpt-kl": 4.0, "pct-kl": 2.0})
    found = compare_runs([tmp_path], against="no-treatment")
    rows = [row for row in found.rows if row.differences]
    assert [row.name for row in rows] == ["pct-kl", "mpt-kl"]
    lines = {line["name"]: line for line in csv.DictReader(io.StringIO(render_csv(found)))}
    titles = ("NFR", "Rel-NFR", "error, old", "error, all")
    shown = ((row, column, title) for row in rows for column, title in zip(COLUMNS, titles, strict=True))
    for (row, column, title), line in zip(shown, differences(found), strict=True):
        apart = row.differences[column]
        low, high = points(apart.low, column), points(apart.high, column)
        # Of three seeds the interval answers for another training.
        assert line == [title, points(apart.mean, column), "", f"{low} to {high}"]
        kept = [lines[row.name][f"{column}_difference{end}"] for end in ("", "_low", "_high")]
        assert [float(value) for value in kept] == [apart.mean, apart.low, apart.high]
        of_seeds = lines[row.name][f"{column}_difference_values"].split()
        assert [float(value) for value in of_seeds] == apart.values
    assert lines["no-treatment"]["nfr_difference"] == ""
    assert {line["against"] for line in lines.values()} == {"no-treatment"}


def test_one_seed_has_the_interval_of_another_test_draw_and_two_have_both_differences(tmp_path: Path) -> None:
    for seed in (1, 2):
        made_seed(tmp_path / str(seed), seed, {"no-treatment": 2.0, "mpt-kl": 4.0})
    one, two = (compare_runs(folders, against="mpt-kl") for folders in ([tmp_path / "1"], [tmp_path]))
    plain = (one.rows[0].differences or {})["nfr"]
    interval = f"{points(plain.low, 'nfr')} to {points(plain.high, 'nfr')}"
    assert differences(one)[0] == ["NFR", points(plain.mean, "nfr"), interval, ""]
    of_both = (two.rows[0].differences or {})["nfr"]
    both = ", ".join(points(value, "nfr") for value in of_both.values)
    assert differences(two)[0] == ["NFR", f"{points(of_both.mean, 'nfr')} ({both})", "", ""]
    assert conclusion(two) == "Two seeds judge no difference; a third gives intervals."
    assert conclusion(one) == "Fewer flips than mpt-kl: none; more: no-treatment."


def test_a_row_of_two_seeds_beside_a_row_of_one_is_said_to_be_not_judged(tmp_path: Path) -> None:
    made_seed(tmp_path / "1", 1, {"no-treatment": 2.0, "mpt-kl": 4.0, "pct-kl": 4.0})
    made_seed(tmp_path / "2", 2, {"no-treatment": 2.0, "mpt-kl": 4.0})
    both = compare_runs([tmp_path], against="no-treatment")
    assert conclusion(both) == "Fewer flips than no-treatment: pct-kl; not judged, of two seeds: mpt-kl."
