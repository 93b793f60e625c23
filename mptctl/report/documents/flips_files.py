"""The files that a comparison is written to: which there are, and writing them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mptctl.evaluation.reading.predictions import Predictions, save_predictions
from mptctl.files import FilesTogether
from mptctl.files.output_kinds import JUNIT_MARK, MARKDOWN_MARK
from mptctl.report.documents.class_names import flips_with_class_names, with_class_names
from mptctl.report.documents.flip_list import MOST_FLIPS, flips_csv
from mptctl.report.documents.flips_markdown import render_markdown, render_markdown_error

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from mptctl.data.split import Split
    from mptctl.evaluation.flip_report import FlippedSample, FlipReport
    from mptctl.report.media.provenance import ProvenanceCollector

# The models whose predictions are kept, each in a file of its name.
KEPT = ("old", "new")
PREDICTIONS = tuple(f"{role}.npz" for role in KEPT)


@dataclass(frozen=True)
class FlipFiles:
    """Files of a comparison; None is one that nobody asked for.

    Attributes:
        page: one HTML page.
        figures: a folder for the figures as PNG and SVG.
        markdown: Markdown for a pull request.
        predictions: a folder for `old.npz` and `new.npz`.
        junit: JUnit XML of the gate.
        flips: CSV of every negative flip.
        history: a file that the comparison is added to; `write` leaves it to the caller.
    """

    page: Path | None = None
    figures: Path | None = None
    markdown: Path | None = None
    predictions: Path | None = None
    junit: Path | None = None
    flips: Path | None = None
    history: Path | None = None

    def write_error(self, message: str) -> None:
        """Write what kept the models from being compared into Markdown and JUnit, for who looks there alone.

        Raises:
            StorageError: a file cannot be written; then none is.
        """
        with FilesTogether() as files:
            if self.markdown is not None:
                _write_text(files, self.markdown, f"{MARKDOWN_MARK}\n{render_markdown_error(message)}")
            if self.junit is not None:
                from mptctl.report.documents.ci import render_junit_error

                _write_text(files, self.junit, f"{JUNIT_MARK}\n{render_junit_error(message)}")

    def write(
        self,
        report: FlipReport,
        models: Mapping[str, Predictions],
        data_root: Path | None,
        split: Split | None,
        listed: Sequence[FlippedSample] | None = None,
        sources: ProvenanceCollector | None = None,
    ) -> list[Path]:
        """Write what was asked for, all of it or nothing.

        Args:
            report: the comparison.
            models: the predictions behind it, by role.
            data_root, split: where the page finds pictures of flipped samples: in the split, whose ids may be
                no paths, or without one in files below the folder.
            listed: the flips that page and CSV list, beginning with the report's own; default: these alone.
            sources: what the page was made from.

        Returns:
            The paths written.

        Raises:
            StorageError: a file cannot be written.
        """
        listed = report.worst_flips if listed is None else listed
        on_page = listed[:MOST_FLIPS]
        if report.class_labels:
            on_page = flips_with_class_names(on_page, report.class_labels)
        report = with_class_names(report)
        written: list[Path] = []
        with FilesTogether() as files:
            if self.predictions is not None:
                for role, name in zip(KEPT, PREDICTIONS, strict=True):
                    save_predictions(models[role], self.predictions / name, files.open)
                    written.append(self.predictions / name)
            if self.page is not None:
                from mptctl.report.documents.flips_page import render_html

                origin = None if sources is None else sources.finish()
                page = render_html(report, _picture_reader(data_root, split), on_page, origin)
                written.append(_write_text(files, self.page, page))
            if self.figures is not None:
                from mptctl.report.figures.flips import save_figures

                written += save_figures(report, self.figures, files.open)
            if self.markdown is not None:
                written.append(_write_text(files, self.markdown, markdown_of_file(report)))
            if self.junit is not None:
                from mptctl.report.documents.ci import render_junit

                written.append(_write_text(files, self.junit, f"{JUNIT_MARK}\n{render_junit(report)}"))
            if self.flips is not None:
                written.append(_write_text(files, self.flips, flips_csv(listed)))
        return written


def markdown_of_file(report: FlipReport) -> str:
    """Markdown as a file holds it: below the mark by which it is known as an earlier output."""
    return f"{MARKDOWN_MARK}\n{render_markdown(report)}"


def _picture_reader(
    data_root: Path | None, split: Split | None
) -> Callable[[str], NDArray[np.uint8] | None] | None:
    """Reads test pictures by sample id, of a split, or else below a folder; None where there is neither."""
    if split is not None:
        from mptctl.inference.predict import image_reader

        return image_reader(split, part="test")
    if data_root is None:
        return None
    from mptctl.report.media.pictures import pictures_below

    return pictures_below(data_root)


def _write_text(files: FilesTogether, path: Path, text: str) -> Path:
    with files.open(path) as stream:
        stream.write(text.encode())
    return path
