"""The Python object of a comparison: numbers as attributes, a page in a notebook, tables in a terminal."""

from __future__ import annotations

import html
import io
import warnings
from collections.abc import Callable, Sequence
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from pydantic import ValidationError

from mptctl.errors import ComparisonWarning, UsageError, options_as_arguments
from mptctl.evaluation.flip_report import SHOWN_FLIPS, FlipReport
from mptctl.evaluation.gate.check import check_gate
from mptctl.evaluation.gate.gate_file import GateFile, read_gate_file
from mptctl.evaluation.limits import LIMITS, LimitArguments, Limits, LimitValues, refuse_unknown_classes
from mptctl.evaluation.verdict import Gate
from mptctl.files.explained import explain, shown_value
from mptctl.report.documents.class_names import with_class_names
from mptctl.report.documents.flips_files import FlipFiles
from mptctl.report.documents.flips_markdown import render_markdown
from mptctl.report.media.numbers import format_count, percent

if TYPE_CHECKING:
    import pyarrow as pa

# Pixels. In a notebook the page is put into a frame, so that its style and the notebook's stay apart.
FRAME_HEIGHT = 640
# Compares the samples of a report once more, under a gate file and limits besides it.
CompareUnder = Callable[[GateFile, Limits], FlipReport]
# Characters of a line in `print(report)`.
WIDTH = 80


class Report:
    """The flips of a replacement, their rates and the gate on them.

    Every number of `mptctl evaluate --json` is an attribute: `nfr`, `nfr_ci95`, `counts.negative_flips`,
    `new.er_all`, `rates.lost.value`; all but `gate`, which is a method here. Rates are fractions; one whose
    denominator is zero is None. A notebook shows the page, `print` the table.

    Args:
        result: the comparison; its `worst_flips` are all flips.
        compare_under: compares the same samples once more, for a gate file or `must_keep`; None: only limits
            on the counts of `result` can be evaluated.
        must_keep: ids of samples that must not flip.

    Attributes:
        result: the comparison as a typed record, whose `worst_flips` are the first `SHOWN_FLIPS`.
    """

    def __init__(
        self, result: FlipReport, compare_under: CompareUnder | None = None, must_keep: Sequence[str] = ()
    ) -> None:
        self._compare_under = compare_under
        self._must_keep = must_keep
        self._with_all_flips = result
        self.result = result.with_flips(SHOWN_FLIPS)
        # For readers; JSON has ids of classes alone.
        self._with_names = with_class_names(self.result)

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
        allow_identical: bool = False,
        **limits: Unpack[LimitArguments],
    ) -> Gate:
        """Evaluate limits: may this replacement be released?

        With a gate file or `must_keep` the samples are compared once more, which may give warnings.

        Args:
            file: a gate file, as ``--gate`` takes it. Where file and arguments limit the same rate, the
                stricter limit applies.
            confidence: level of the interval that decides, from 0.5 to below 1. A limit passes if all of the
                interval is within it, fails if all exceeds it, and is undecided otherwise. None: the rate
                itself decides.
            allow_identical: do not fail when old and new are the same model.
            limits: max_nfr, max_lost, max_rel_nfr, max_er_increase, as fractions: 2 % is 0.02. All but
                max_rel_nfr must be below 1; a larger one is refused, since it was probably meant as percent.

        Returns:
            The verdict: `passed`, `answer` (pass, fail, undecided), `failed` (names of limits) and `checks`.
            Its `require_passed()` raises GateFailed.

        Raises:
            UsageError: there is no limit, a limit that no rate can reach, a level outside [0.5, 1), or an
                argument of another type; the gate file cannot be read; the report has no samples to apply a
                gate file to.
            DataError: the gate file names samples or slices that do not exist.
        """
        unknown = sorted(limits.keys() - {kind.key for kind in LIMITS})
        if unknown:
            raise TypeError(f"gate() got an unexpected keyword argument {unknown[0]!r}")
        try:
            all_limits = _limits_of_arguments(limits, confidence, allow_identical)
        except ValidationError as error:
            raise UsageError(f"gate: {explain(error, Limits)}") from error
        needs_samples = file is not None or len(self._must_keep) > 0
        if not all_limits.given() and not needs_samples:
            raise UsageError("gate: no limit; give one, such as max_nfr=0.02")
        if file is not None and self._compare_under is None:
            raise UsageError(f"gate: {file}: this report has no samples; compare them with mptctl.evaluate")
        with options_as_arguments():
            if self._compare_under is None or not needs_samples:
                return self._gate_on_counts(all_limits)
            rules = GateFile() if file is None else _read_rules(Path(file), allow_identical)
            report = self._compare_under(rules.keeping(self._must_keep), all_limits)
        for remark in report.warnings:
            if remark not in self.result.warnings:
                warnings.warn(remark, ComparisonWarning, stacklevel=2)
        return report.gate

    def _gate_on_counts(self, limits: Limits) -> Gate:
        """Evaluate limits on the counts of this report, which need no samples."""
        result = self.result
        refuse_unknown_classes(limits, result.never_predicted)
        return check_gate(
            result.counts,
            limits,
            identical=result.identical,
            unfinished=result.unfinished,
            old_faults=result.old_faults,
        )

    @property
    def flips(self) -> pa.Table:
        """Every negative flip as a row of an Arrow table, most confident first, equal ones by id.

        Columns: `id`; `label`; `old` and `new` (predictions); `new_class` (whether the new prediction is a
        class that the old model does not know); `old_confidence` and `new_confidence` (softmax, 0 to 1; null
        without logits).
        """
        import pyarrow as pa

        flips = self._with_all_flips.worst_flips
        labels = [flip.label for flip in flips]
        return pa.table(
            {
                "id": pa.array([flip.id for flip in flips], pa.string()),
                "label": pa.array(labels, pa.string()),
                "old": pa.array(labels, pa.string()),  # the old model was right on every flip
                "new": pa.array([flip.answer for flip in flips], pa.string()),
                "new_class": pa.array([flip.new_class for flip in flips], pa.bool_()),
                "old_confidence": pa.array([flip.old_confidence for flip in flips], pa.float64()),
                "new_confidence": pa.array([flip.new_confidence for flip in flips], pa.float64()),
            }
        )

    def to_html(self, path: str | Path, data_root: str | Path | None = None) -> Path:
        """Write the HTML page as one file that loads nothing from outside, and return its path.

        Args:
            path: of the file.
            data_root: folder of the pictures, where ids are paths below it; None: the page has no pictures.

        Raises:
            StorageError, UsageError: the file cannot be written.
        """
        root = None if data_root is None else Path(data_root)
        (written,) = FlipFiles(page=Path(path)).write(self._with_all_flips, {}, root, None)
        return written

    def to_markdown(self, path: str | Path | None = None) -> str:
        """Return the report as Markdown for a pull request, and write it if a path is given.

        Args:
            path: of the file; None: nothing is written.

        Returns:
            The text.

        Raises:
            StorageError, UsageError: the file cannot be written.
        """
        if path is not None:
            FlipFiles(markdown=Path(path)).write(self.result, {}, None, None)
        return render_markdown(self._with_names)

    def model_dump(self) -> dict[str, Any]:
        """The object of `mptctl evaluate --json`, as dicts, lists, strings and numbers."""
        return self.result.model_dump(mode="json")

    def model_dump_json(self) -> str:
        """The object of `mptctl evaluate --json`, as text."""
        return self.result.model_dump_json()

    def __repr__(self) -> str:
        nfr, old, new = self.result.rates.nfr, self.result.old.name, self.result.new.name
        return f"<Report: NFR {percent(nfr.value)} ({format_count(nfr)}), {old} -> {new}>"

    def __str__(self) -> str:
        from rich.console import Console

        from mptctl.report.documents.flips import screen_document
        from mptctl.report.media.terminal import print_document

        text = io.StringIO()
        document = screen_document(self._with_names, can_type_flags=False)
        print_document(document, Console(file=text, width=WIDTH))
        return text.getvalue().rstrip("\n")

    def _repr_html_(self) -> str:
        """The page inside a frame, for Jupyter."""
        from mptctl.report.documents.flips_page import render_html

        page = html.escape(render_html(self._with_names))
        return (
            f'<iframe sandbox="allow-scripts" title="{html.escape(repr(self))}" width="100%" '
            f'height="{FRAME_HEIGHT}" style="border: 0" srcdoc="{page}"></iframe>'
        )


def _read_rules(file: Path, allow_identical: bool) -> GateFile:
    """Read a gate file, which itself says whether one model given twice may pass.

    Raises:
        UsageError: it cannot be read, or the argument says so too.
    """
    rules = read_gate_file(file)
    if allow_identical:
        rules.refuse_flag("allow_identical", "allow: [identical]")
    return rules


def _limits_of_arguments(limits: LimitArguments, confidence: float | None, allow_identical: bool) -> Limits:
    """Check the arguments of `Report.gate`, whose limits are fractions.

    Raises:
        UsageError: a limit or the confidence is out of its range.
        ValidationError: an argument is of another type.
    """
    for kind, limit in LimitValues(**limits).given():
        if kind.high is None:
            continue
        if limit >= kind.high:
            raise UsageError(
                f"{kind.key}={limit:g}: was percent meant? Limits are fractions below {kind.high}; "
                f"{limit:g} % is {limit / 100:g}"
            )
        if not limit >= kind.low:  # NaN is not either
            raise UsageError(
                f"{kind.key}={limit:g}: must lie between {kind.low} and {kind.high}; rates are "
                "fractions, 2 % is 0.02"
            )
    if confidence is not None and not (isinstance(confidence, Real) and 0.5 <= confidence < 1):
        raise UsageError(
            f"confidence={shown_value(confidence)}: must be a number, at least 0.5 and below 1, such as 0.95"
        )
    return Limits(**limits, confidence=confidence, allow_identical=allow_identical)
