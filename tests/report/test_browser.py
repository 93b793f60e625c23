"""Pages as a browser shows them: no violation of accessibility, working links, many flips at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mptctl.evaluation.calibration.report import measure_calibration
from mptctl.evaluation.flip_report import FlippedSample
from mptctl.evaluation.reading.predictions import build_predictions
from mptctl.report.documents.calibration import calibration_document
from mptctl.report.documents.comparison import comparison_document
from mptctl.report.documents.flips_page import render_html
from mptctl.report.documents.study import study_document
from mptctl.report.documents.tune import tune_document
from mptctl.report.media.page import anchor, render_document
from mptctl.report.media.provenance import Provenance, digests_of_runs, provenance
from mptctl.studies.compare import compare_runs
from mptctl.studies.study_report import StudyReport, StudyRow
from tests.report.browser import SCHEMES, WIDTHS, axe, browser, opened
from tests.report.examples import HOSTILE, with_everything
from tests.report.test_split_page import page_of_uneven_split
from tests.report.test_tune_report import report as search
from tests.report.test_tune_report import trial
from tests.studies.made_runs import made_seed

LONG = "Staffordshire bullterrier, Staffordshire bull terrier, Staffy"
pytestmark = pytest.mark.slow
# A folded part is looked at too.
OPEN = "document.querySelectorAll('details').forEach(each => each.open = true)"
PROVENANCE = Provenance(
    "mptctl evaluate old 'new <b>' --report flips.html",
    "2026-06-15",
    {"mptctl": "1", "Python": "3.12"},
    {"old: old.npz": 64 * "a", f"new: {HOSTILE}": 64 * "b"},
)


@pytest.fixture(scope="module")
def chrome() -> Iterator[Any]:
    with browser() as started:
        yield started


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "flips.html"
    path.write_text(render_html(with_everything(), provenance=PROVENANCE), encoding="utf-8")
    return path


def looked_through(chrome: Any, path: Path, tests: str, width: int, scheme: str) -> Any:
    """What axe finds in a page with everything unfolded; it must not be wider than the screen."""
    with opened(chrome, path, width=width, scheme=scheme) as found:
        found.evaluate(OPEN)
        assert found.evaluate("document.documentElement.scrollWidth") <= width
        found.evaluate(tests)
        return found.evaluate("axe.run()")


def violations(found: Any) -> list[tuple[str, str]]:
    """Each rule that is broken, and where first."""
    return [(each["id"], each["nodes"][0]["html"]) for each in found["violations"]]


def shown(page: Any) -> list[str]:
    """Ids of the flips that are listed."""
    return list(page.locator("#gallery code").all_inner_texts())


@pytest.mark.parametrize("scheme", SCHEMES)
def test_no_violation_of_accessibility(chrome: Any, page: Path, scheme: str) -> None:
    for width in WIDTHS:
        found = looked_through(chrome, page, axe(), width, scheme)
        assert len(found["passes"]) > 20
        assert violations(found) == []


@pytest.mark.parametrize("name", [HOSTILE, "W" * 200])
def test_no_page_is_wider_than_the_screen(chrome: Any, tmp_path: Path, name: str) -> None:
    path = tmp_path / "flips.html"
    path.write_text(render_html(with_everything(name), provenance=PROVENANCE), encoding="utf-8")
    for width in WIDTHS:
        with opened(chrome, path, width=width) as found:
            found.evaluate(OPEN)
            assert found.evaluate("document.documentElement.scrollWidth") <= width


def test_the_first_flips_are_there_without_scripts(chrome: Any, page: Path) -> None:
    with opened(chrome, page, script=False) as found:
        assert shown(found) == [flip.id for flip in with_everything().worst_flips]
        assert "Without scripts" in found.inner_text("body")
        assert not found.locator("#filters").is_visible()


def test_a_class_is_chosen_and_stands_in_the_address(chrome: Any, page: Path) -> None:
    flips = with_everything().worst_flips
    wanted = [flip.id for flip in flips if flip.label == "ant"]
    assert 0 < len(wanted) < len(flips)
    with opened(chrome, page) as found:
        found.select_option("#filter-class", "ant")
        assert shown(found) == wanted
        assert found.url.endswith("#class=ant")
        assert found.locator("#filter-class option:checked").inner_text() == f"ant ({len(wanted)})"
        assert f"{len(wanted)} of {len(flips)} flips" in found.inner_text("#shown")
        found.click("#reset")
        assert shown(found) == [flip.id for flip in flips]
    with opened(chrome, page, "class=ant") as again:
        assert shown(again) == wanted


def test_a_class_is_chosen_by_keyboard_alone(chrome: Any, page: Path) -> None:
    with opened(chrome, page) as found:
        found.focus("#filter-class")
        found.keyboard.press("ArrowDown")
        assert "#class=" in found.url
        found.keyboard.press("Tab")
        assert found.evaluate("document.activeElement.id") == "reset"
        found.keyboard.press("Enter")
        assert len(shown(found)) == len(with_everything().worst_flips)


@pytest.mark.parametrize("odd", ["a b/ü#1 50% q?x=1&y='\"<i>", HOSTILE])
def test_each_flip_has_a_link_of_its_own(chrome: Any, tmp_path: Path, odd: str) -> None:
    report, path = with_everything(), tmp_path / "flips.html"
    flips = [
        *report.worst_flips,
        *(report.worst_flips[0].model_copy(update={"id": f"{i}"}) for i in range(200)),
        report.worst_flips[0].model_copy(update={"id": odd}),
    ]
    path.write_text(render_html(report, flips=flips), encoding="utf-8")
    with opened(chrome, path) as found:
        assert odd not in shown(found)
    with opened(chrome, path, anchor(odd)) as found:
        assert shown(found)[0] == odd
        assert found.locator(".linked code").inner_text() == odd
        assert found.evaluate("document.activeElement.id") == anchor(odd)
        # The links that the script makes are those that stand in the page.
        found.click(".linked a")
        assert found.url.endswith("#" + anchor(odd)) or odd == HOSTILE
        found.evaluate("location.hash = '#flip-nobody'")
        found.wait_for_function("document.getElementById('shown').textContent.startsWith('No flip')")


def test_a_link_to_a_flip_that_stands_in_the_page_shows_the_others_too(chrome: Any, page: Path) -> None:
    flips = with_everything().worst_flips
    with opened(chrome, page, anchor(flips[3].id)) as found:
        assert found.inner_text("#shown") == f"{len(flips)} flips."
        assert shown(found) == [flip.id for flip in flips]
        assert found.locator(".linked code").inner_text() == flips[3].id


def test_a_hundred_thousand_flips_are_listed_as_they_are_asked_for(chrome: Any, tmp_path: Path) -> None:
    report, path, n = with_everything(), tmp_path / "flips.html", 100_000
    one = report.worst_flips[0]
    flips = [FlippedSample.model_construct(**{**vars(one), "id": f"test/{i:06d}"}) for i in range(n)]
    counts = report.counts.model_copy(update={"negative_flips": n})
    report = report.model_copy(update={"worst_flips": flips[:24], "counts": counts})
    path.write_text(render_html(report, flips=flips), encoding="utf-8")
    with opened(chrome, path) as found:
        # What takes long is rows: of a hundred thousand only the first are there.
        assert found.evaluate("document.getElementsByTagName('*').length") < 10_000
        assert found.inner_text("#shown") == "100,000 flips; the first 24 are shown."
        found.click("#more")
        assert shown(found) == [f"test/{i:06d}" for i in range(48)]
        assert found.evaluate("document.activeElement.textContent") == "test/000024"
    with opened(chrome, path, anchor("test/099999")) as found:
        assert shown(found)[0] == "test/099999"


def test_a_table_that_is_wider_than_the_screen_says_so_and_keeps_its_first_column(
    chrome: Any, tmp_path: Path, tables: dict[str, str]
) -> None:
    path = tmp_path / "compare.html"
    path.write_text(tables["compare"], encoding="utf-8")
    for width in (400, 1280):
        with opened(chrome, path, width=width) as found:
            box = found.locator(".scroll").first
            wide = box.evaluate("box => box.scrollWidth > box.clientWidth")
            assert wide == (width == 400)
            assert (box.locator(".hint").bounding_box()["height"] > 0) == wide
            first = box.locator("tbody td").first
            before = first.bounding_box()["x"]
            box.evaluate("box => box.scrollLeft = 1000")
            assert first.bounding_box()["x"] == before


@pytest.mark.parametrize("name", ["flips", "tune", "compare", "study", "calibration"])
def test_labels_of_charts_are_ten_pixels_on_a_telephone(
    chrome: Any, page: Path, tmp_path: Path, tables: dict[str, str], name: str
) -> None:
    path = tmp_path / f"{name}.html"
    path.write_text(page.read_text("utf-8") if name == "flips" else tables[name], encoding="utf-8")
    with opened(chrome, path, width=400) as found:
        sizes = found.evaluate(
            "[...document.querySelectorAll('figure svg')].flatMap(svg => [...svg.querySelectorAll('text')].map("
            "text => parseFloat(getComputedStyle(text).fontSize) * svg.getBoundingClientRect().width /"
            " svg.viewBox.baseVal.width))"
        )
        assert sizes
        assert min(sizes) > 10


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Pages of tables, by name."""
    root = tmp_path_factory.mktemp("study")
    for seed in (1, 2):
        made_seed(root / str(seed), seed, {"no-treatment": 2.0, "mpt-kl": 3.0, "pct-kl": 2.0})
    table = compare_runs([root])
    rows = [row.model_copy(update={"name": f"{row.name} {LONG}"}) for row in table.rows]
    odd = table.model_copy(update={"rows": rows, "notes": [HOSTILE]})
    runs = [StudyRow(seed=1, run="old", method="old", status="failed", steps=3, error=f"{LONG} {HOSTILE}")]
    study = StudyReport(study="demo", run_root=str(root), seeds=[1], runs=runs, comparison=odd, seconds=3)
    rng = np.random.default_rng(0)
    labels = np.array(["a", "b", "c"])[rng.integers(0, 3, 90)]
    model = build_predictions(
        "m", np.arange(90), labels, logits=rng.normal(size=(90, 3)), classes=("a", "b", "c")
    )
    trials = [trial("kl", k, 2480 + int(9 * k * k), 180 - int(20 * k)) for k in (0.0, 1.0, 2.0)]
    made = provenance(["mptctl", "compare", str(root)], digests_of_runs([str(root / "1" / "mpt-kl")]))
    return {
        "tune": render_document(tune_document(search(trials)), provenance(None, {"split": 64 * "c"})),
        "compare": render_document(comparison_document(odd), made),
        "study": render_document(study_document(study), PROVENANCE),
        "calibration": render_document(calibration_document(measure_calibration(model)), PROVENANCE),
        "split": page_of_uneven_split(tmp_path_factory.mktemp("uneven")),
    }


@pytest.mark.parametrize("name", ["tune", "compare", "study", "calibration", "split"])
def test_pages_of_tables_have_no_violation_either(
    chrome: Any, tmp_path: Path, tables: dict[str, str], name: str
) -> None:
    path, tests = tmp_path / f"{name}.html", axe()
    path.write_text(tables[name], encoding="utf-8")
    for width in WIDTHS:
        for scheme in SCHEMES:
            assert violations(looked_through(chrome, path, tests, width, scheme)) == []
