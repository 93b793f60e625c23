"""A comparison as an object of Python: numbers as attributes, a page in a notebook, a table in a terminal."""

from __future__ import annotations

import html
import io
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, Unpack

from mptctl.errors import ComparisonWarning, UsageError, options_as_arguments
from mptctl.evaluation.flip_report import FlipReport
from mptctl.evaluation.gate.check import check_gate, stricter_gate
from mptctl.evaluation.gate.gate_file import GateFile, read_gate_file
from mptctl.evaluation.limits import LIMITS, LimitArguments, Limits, LimitValues
from mptctl.evaluation.rates import Counts
from mptctl.evaluation.verdict import Gate
from mptctl.report.documents.flip_list import MOST_FLIPS
from mptctl.report.documents.flips_files import FlipFiles, markdown_of_file
from mptctl.report.documents.flips_markdown import render_markdown
from mptctl.report.media.numbers import format_count, percent

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.figure import Figure
    from rich.console import Console, ConsoleOptions, RenderableType

# Flipped samples that the page shows and the JSON lists, as many as `mptctl evaluate` does.
SHOWN_FLIPS = 24
# Pixels. In a notebook the page stands in a frame, so that neither's style changes the other's.
FRAME_HEIGHT = 640
WIDTH = 80


class Judge(Protocol):
    """Compares the samples of a report again."""

    def compared(self, gate_file: GateFile, limits: Limits) -> FlipReport:
        """The comparison with its gate held to a gate file, and to limits beside it."""


class Report:
    """The flips of a replacement, their rates and the gate on them.

    Every number of `mptctl evaluate --json` is an attribute: `nfr`, `nfr_ci95`, `counts.negative_flips`,
    `new.er_all`, `rates.lost.value`; all but `gate`, which is a method here. Rates are fractions; one whose
    denominator is zero is None. A notebook shows the page, `print` the table.

    Args:
        result: the comparison; its `worst_flips` are all flips.
        judge: compares the same samples again, with a gate file and other limits; None where they are gone.
        must_keep: ids that must not flip.

    Attributes:
        result: the same comparison as a typed record, with the flips that a page shows.
    """

    def __init__(self, result: FlipReport, judge: Judge | None = None, must_keep: Sequence[str] = ()) -> None:
        self._judge, self._must_keep = judge, must_keep
        self._flips = result.worst_flips
        self.result = result.model_copy(update={"worst_flips": self._flips[:SHOWN_FLIPS]})

    def __getattr__(self, name: str) -> Any:
        if name == "gate" or name not in FlipReport.model_fields:
            raise AttributeError(f"'Report' has no number {name!r}; dir(report) lists what there is")
        return getattr(self.result, name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *FlipReport.model_fields})

    def gate(
        self,
        file: str | Path | None = None,
        *,
        confidence: float | None = None,
        undecided: Literal["fail", "pass"] = "fail",
        allow_identical: bool = False,
        **limits: Unpack[LimitArguments],
    ) -> Gate:
        """May this replacement be released?

        Args:
            file: a gate file, as ``--gate`` takes it; of it and of the other limits the stricter one holds.
            confidence: level, from 0.5 to below 1, of the interval that decides: it passes where all of it
                keeps to the limit, fails where all of it exceeds it, and is undecided else; default: the rate
                itself decides.
            undecided: whether an undecided limit passes.
            allow_identical: do not fail when old and new are the same model.
            limits: max_nfr, max_lost, max_rel_nfr, max_er_increase, fractions: 2 % is 0.02. All but
                max_rel_nfr lie below 1; a larger one is taken for percent, and refused.

        Returns:
            `passed`, `answer` (pass, fail, undecided), `failed` (names of limits) and `checks`. Its
            `require_passed()` raises GateFailed.

        Raises:
            UsageError: no limit, one that no rate can reach, or a level outside [0.5, 1); a gate file that
                cannot be read.
            DataError: the gate file names samples or slices that are not there.
        """
        if unknown := sorted(limits.keys() - {kind.key for kind in LIMITS}):
            raise TypeError(f"gate() got an unexpected keyword argument {unknown[0]!r}")
        asked = LimitValues(**limits).given()
        for kind, limit in asked:
            if kind.high is not None and limit >= kind.high:
                raise UsageError(
                    f"{kind.key}={limit:g}: was percent meant? Limits are fractions below {kind.high}; "
                    f"{limit:g} % is {limit / 100:g}"
                )
            if kind.high is not None and not kind.low <= limit <= kind.high:
                raise UsageError(
                    f"{kind.key}={limit:g}: must lie between {kind.low} and {kind.high}; rates are "
                    "fractions, 2 % is 0.02"
                )
        if not asked and file is None and not self._must_keep:
            raise UsageError("gate: no limit; give one, such as max_nfr=0.02")
        if confidence is not None and not 0.5 <= confidence < 1:
            raise UsageError(f"confidence={confidence:g}: must be at least 0.5 and below 1, such as 0.95")
        held = Limits(**limits, confidence=confidence, undecided=undecided, allow_identical=allow_identical)
        if self._judge is not None and (file is not None or self._must_keep):
            with options_as_arguments():
                rules = GateFile() if file is None else read_gate_file(Path(file))
                return self._gate_of(self._judge.compared(rules.keeping(self._must_keep), held))
        if file is not None:
            raise UsageError(f"gate: {file}: this report has no samples; compare them with mptctl.evaluate")
        result = self.result

        def judged(counts: Counts) -> Gate:
            return check_gate(counts, held, identical=result.identical, unfinished=result.unfinished)

        gate = judged(result.counts)
        if result.narrow is None:
            return gate
        return stricter_gate(gate, judged(result.narrow.counts), "give old_classes, a list or 'all'")

    def _gate_of(self, again: FlipReport) -> Gate:
        """The verdict of a comparison with further rules; warns of what these gave rise to."""
        for remark in again.warnings:
            if remark not in self.result.warnings:
                warnings.warn(remark, ComparisonWarning, stacklevel=3)
        return again.gate

    @property
    def flips(self) -> pa.Table:
        """Every negative flip as a row of an Arrow table, most confident first, else by id.

        Columns: `id`, `label`, `old`, `new` (the answers), `new_class` (whether the old model did not know
        the new answer), `old_confidence`, `new_confidence` (softmax, 0 to 1; null without logits), `cause`
        (null where causes were not asked for).
        """
        import pyarrow as pa

        labels = [flip.label for flip in self._flips]
        return pa.table(
            {
                "id": pa.array([flip.id for flip in self._flips], pa.string()),
                "label": pa.array(labels, pa.string()),
                "old": pa.array(labels, pa.string()),  # what flipped was right before
                "new": pa.array([flip.answer for flip in self._flips], pa.string()),
                "new_class": pa.array([flip.new_class for flip in self._flips], pa.bool_()),
                "old_confidence": pa.array([flip.old_confidence for flip in self._flips], pa.float64()),
                "new_confidence": pa.array([flip.new_confidence for flip in self._flips], pa.float64()),
                "cause": pa.array([flip.cause for flip in self._flips], pa.string()),
            }
        )

    def plot(self, name: str | None = None) -> Figure:
        """One figure of the page.

        Args:
            name: of one of `mptctl.report.figures.flips.PLOTS` that has something to draw; default: the first
                of them.

        Raises:
            UsageError: there is no such figure: all but the flow of flips need logits.
        """
        from mptctl.report.figures.flips import draw_figures

        drawn = draw_figures(self.result)
        if not drawn:
            raise UsageError(
                "plot: there is nothing to draw: no flips, and no logits; give logits for old or new"
            )
        if name is not None and name not in drawn:
            raise UsageError(f"plot: no figure {name!r}; there are {', '.join(drawn)}")
        return drawn[name or next(iter(drawn))]

    def to_html(self, path: str | Path, data_root: str | Path | None = None) -> Path:
        """Write the page: one file that needs nothing but itself.

        Args:
            path: of the file.
            data_root: folder of the pictures, where ids are paths below it.

        Raises:
            StorageError, UsageError: it cannot be written.
        """
        root = None if data_root is None else Path(data_root)
        (written,) = FlipFiles(page=Path(path)).write(self.result, {}, root, None, self._flips[:MOST_FLIPS])
        return written

    def to_markdown(self, path: str | Path | None = None) -> str:
        """The report as Markdown for a pull request.

        Args:
            path: a file to write it to as well.

        Returns:
            The text; where a file is named all that is in it, which begins with a comment that tells it is of
            mptctl.
        """
        if path is None:
            return render_markdown(self.result)
        FlipFiles(markdown=Path(path)).write(self.result, {}, None, None)
        return markdown_of_file(self.result)

    def model_dump(self) -> dict[str, Any]:
        """The object of `mptctl evaluate --json`, as plain values."""
        return self.result.model_dump(mode="json")

    def model_dump_json(self) -> str:
        """The object of `mptctl evaluate --json`."""
        return self.result.model_dump_json()

    def __repr__(self) -> str:
        nfr, old, new = self.result.rates.nfr, self.result.old.name, self.result.new.name
        return f"<Report: NFR {percent(nfr.value)} ({format_count(nfr)}), {old} -> {new}>"

    def __str__(self) -> str:
        from rich.console import Console

        from mptctl.report.documents.flips import print_report

        text = io.StringIO()
        print_report(self.result, Console(file=text, width=WIDTH))
        return text.getvalue().rstrip("\n")

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        from rich.text import Text

        from mptctl.report.documents.flips import print_report

        with console.capture() as capture:
            print_report(self.result, console)
        yield Text.from_ansi(capture.get())

    def _repr_html_(self) -> str:
        from mptctl.report.documents.flips_page import render_html

        page = html.escape(render_html(self.result))
        return (
            f'<iframe sandbox="allow-scripts" title="{html.escape(repr(self))}" width="100%" '
            f'height="{FRAME_HEIGHT}" style="border: 0" srcdoc="{page}"></iframe>'
        )
