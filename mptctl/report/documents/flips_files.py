"""Write the files of a comparison of two models: page, Markdown, JUnit XML, CSV, predictions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mptctl.evaluation.flip_report import SHOWN_FLIPS, FlippedSample, FlipReport
from mptctl.evaluation.reading.predictions import Predictions, save_predictions
from mptctl.files import FilesTogether
from mptctl.report.documents.ci import render_junit, render_junit_error
from mptctl.report.documents.class_names import rows_with_class_names, with_class_names
from mptctl.report.documents.flip_list import MOST_FLIPS, flips_csv
from mptctl.report.documents.flips_markdown import render_markdown, render_markdown_error

if TYPE_CHECKING:
    from mptctl.data.split import Split
    from mptctl.report.media.pictures import PictureReader
    from mptctl.report.media.provenance import Provenance

# Files of predictions, by the role of the model.
PREDICTIONS = {"old": "old.npz", "new": "new.npz"}


@dataclass(frozen=True)
class FlipFiles:
    """Paths of the files of a comparison; a file whose path is None is not written.

    Attributes:
        page: HTML page.
        markdown: Markdown for a pull request.
        predictions: folder of `old.npz` and `new.npz`.
        junit: JUnit XML of the gate.
        flips: CSV of every negative flip.
    """

    page: Path | None = None
    markdown: Path | None = None
    predictions: Path | None = None
    junit: Path | None = None
    flips: Path | None = None

    def write_error(self, message: str) -> None:
        """Write why the models could not be compared, to the Markdown and JUnit files only.

        A CI system may show nothing but these two.

        Raises:
            StorageError, UsageError: a file cannot be written; then neither is.
        """
        self.write_texts(
            {"markdown": lambda: render_markdown_error(message), "junit": lambda: render_junit_error(message)}
        )

    def write_texts(self, texts: Mapping[str, Callable[[], str]]) -> list[Path]:
        """Write files of text that have a path: all of them or none.

        Args:
            texts: by attribute, a function that makes the text; it is called only where there is a path.

        Returns:
            The paths written.

        Raises:
            StorageError, UsageError: a file cannot be written; then none is.
        """
        with FilesTogether() as files:
            return self._write_texts(files, texts)

    def _write_texts(self, files: FilesTogether, texts: Mapping[str, Callable[[], str]]) -> list[Path]:
        """Write files of text, as `write_texts`, together with other files."""
        written: list[Path] = []
        for name, make_text in texts.items():
            path: Path | None = getattr(self, name)
            if path is not None:
                text = make_text()
                with files.open(path) as stream:
                    stream.write(text.encode())
                written.append(path)
        return written

    def write(
        self,
        report: FlipReport,
        models: Mapping[str, Predictions],
        data_root: Path | None,
        split: Split | None,
        sources: Provenance | None = None,
    ) -> list[Path]:
        """Write the files that have a path: all of them or none.

        All but predictions and CSV have readable names of classes beside their ids.

        Args:
            report: the comparison, with the flips of the CSV file; the page lists the first `MOST_FLIPS` of
                them, the other files the first `SHOWN_FLIPS`.
            models: predictions by role; read only to write them.
            data_root: folder of the page's pictures, where ids are paths below it; unused with a split.
            split: split of the page's pictures; None: they are files below `data_root`.
            sources: provenance of the page; None: the page has none.

        Returns:
            The paths written.

        Raises:
            StorageError, UsageError: a file cannot be written; then none is.
        """
        flips = report.worst_flips
        on_page = rows_with_class_names(flips[:MOST_FLIPS], report.class_labels)
        named = with_class_names(report.with_flips(SHOWN_FLIPS))
        written: list[Path] = []
        with FilesTogether() as files:
            if self.predictions is not None:
                for role, name in PREDICTIONS.items():
                    path = self.predictions / name
                    save_predictions(models[role], path, files.open)
                    written.append(path)
            texts = {
                "page": lambda: _page(named, _picture_reader(data_root, split), on_page, sources),
                "markdown": lambda: render_markdown(named),
                "junit": lambda: render_junit(named),
                "flips": lambda: flips_csv(flips),
            }
            return written + self._write_texts(files, texts)


def _page(
    report: FlipReport,
    pictures: PictureReader | None,
    flips: Sequence[FlippedSample],
    sources: Provenance | None,
) -> str:
    """The HTML page of a comparison; the modules that make it are imported when they are needed."""
    from mptctl.report.documents.flips_page import render_html

    return render_html(report, pictures, flips, sources)


def _picture_reader(data_root: Path | None, split: Split | None) -> PictureReader | None:
    """A reader of test pictures by sample id, from the split or else from files below the folder.

    None where there is neither.
    """
    if split is not None:
        from mptctl.inference.predict import make_test_picture_reader

        return make_test_picture_reader(split)
    if data_root is None:
        return None
    from mptctl.report.media.pictures import pictures_below

    return pictures_below(data_root)
