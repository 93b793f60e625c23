"""The settings of `mptctl evaluate`; `mptctl gate init` shares those on what is compared."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from mptctl.evaluation.reading.readers import SUFFIXES
from mptctl.files.request import Flag, Json, ModelRequest, Request, argument

MORE_LIMITS, COMPARED, SLICES = "More limits", "What is compared", "Slices"
OUTPUT, MEMORY, ALONE, TRAFFIC = "More output", "Memory", "One model alone", "Traffic with few labels"
MODEL = f"run name, run folder, .pt or .onnx, or predictions ({SUFFIXES}: file, pattern, or folder of parts)"


class ComparedSettings(Request):
    """The classes and the parts of the test set that two models are compared on."""

    by: Annotated[list[str], Flag("COLUMN")] = Field([])
    """Flips by a column of --metadata, OLD, NEW or the split's table; by class; by confidence of OLD; a,b
    crosses two. Repeatable."""
    metadata: Annotated[Path | None, Flag("FILE", panel=SLICES)] = None
    """Columns of the samples by `id`, in a form that predictions have."""
    old_classes: Annotated[str | None, Flag("FILE|all")] = None
    """Old class labels, one a line, or `all` for all labels; default: the classes of OLD. Not beside --gate,
    whose file has `old_classes`."""
    class_map: Annotated[Path | None, Flag("FILE", panel=COMPARED)] = None
    """Classes renamed, merged or split from OLD to NEW, as YAML (old: new)."""

    @property
    def old_classes_file(self) -> Path | None:
        """The file with old classes; None where they are not given, or are ``all``."""
        return None if self.old_classes in (None, "all") else Path(str(self.old_classes))

    @property
    def files(self) -> list[Path]:
        """The files that are named."""
        named = (self.old_classes_file, self.metadata, self.class_map)
        return [path for path in named if path is not None]


class OutputSettings(Request):
    """The files and tables of a comparison with one new model."""

    report: Annotated[Path | None, Flag("FILE.html")] = None
    """Write one HTML page."""
    markdown: Annotated[str | None, Flag("FILE")] = None
    """Write Markdown for a pull request; - prints it instead of the table."""
    junit: Annotated[Path | None, Flag("FILE.xml", panel=OUTPUT)] = None
    """Write the gate as JUnit XML, one test a limit."""
    github: Annotated[bool, Flag(panel=OUTPUT)] = False
    """Annotate a GitHub workflow: the verdict, each limit that did not pass, and notes, on standard error."""
    append_history: Annotated[Path | None, Flag("FILE.jsonl", panel=OUTPUT)] = None
    """Add this comparison to a file, one line a release; `mptctl history` shows it."""
    tag: Annotated[str | None, Flag("TEXT", panel=OUTPUT)] = None
    """Name of the release in --append-history. (default: the git commit of this folder)"""
    flips: Annotated[Path | None, Flag("FILE.csv", panel=OUTPUT)] = None
    """Write all negative flips as a CSV table, also those of samples in must_keep."""
    save_predictions: Annotated[Path | None, Flag("DIR", panel=OUTPUT)] = None
    """Write both models' predictions as old.npz and new.npz, which evaluate reads, again with --class-map if
    it was given."""
    full: Annotated[bool, Flag()] = False
    """Show all tables: classes, predictions, calibration."""


class AloneSettings(Request):
    """The measurement of one model alone."""

    temperature: Annotated[str | None, Flag("fit|FILE", panel=ALONE)] = None
    """Fit a temperature of one model on the run's validation part, or on predictions of held-out samples, and
    show figures with it."""


class LabelSettings(Request):
    """The labels of traffic that `mptctl disagree` drew rows of."""

    labels: Annotated[Path | None, Flag("FILE", panel=TRAFFIC)] = None
    """Rows that `mptctl disagree --out` wrote, with labels. OLD and NEW predict all the traffic."""
    max_flip_rate: Annotated[float | None, Flag("PCT", low=0, high=100, panel=TRAFFIC)] = None
    """Largest rate of negative flips, of all samples; decided by the interval (--confidence, or 0.95)."""
    pictures: Annotated[Path | None, Flag("DIR", panel=TRAFFIC)] = None
    """Folder of pictures without labels that runs predict, as `mptctl disagree` had it."""


class EvaluateRequest(ComparedSettings, OutputSettings, AloneSettings, LabelSettings, ModelRequest):
    """The models, the release gate, what is compared, and what is written."""

    old: Annotated[str, Flag("OLD", f"The model in production: {MODEL}.", positional=True)]
    news: Annotated[list[str], argument("NEW...")] = Field([])
    """Its replacement, in the same forms; or several. Without NEW, OLD is measured alone."""
    gate_file: Annotated[Path | None, Flag("FILE", names="--gate")] = None
    """Limits, slices, samples that must not flip, and waivers, as YAML; `mptctl gate init` writes one."""
    max_nfr: Annotated[float | None, Flag("PCT", low=0, high=100)] = None
    """Largest negative flip rate."""
    max_lost: Annotated[float | None, Flag("PCT", low=0, high=100)] = None
    """Largest part of OLD's right predictions that NEW gets wrong."""
    max_rel_nfr: Annotated[float | None, Flag("PCT", low=0, panel=MORE_LIMITS)] = None
    """Largest Rel-NFR."""
    max_er_increase: Annotated[float | None, Flag("PCT", low=-100, high=100, panel=MORE_LIMITS)] = None
    """Largest increase of error on old classes, in points."""
    confidence: Annotated[float | None, Flag("LEVEL")] = None
    """Decide by the two-sided interval at this level, 0.5 to below 1: pass, fail or undecided; default: by
    the value."""
    looks: Annotated[Literal["once", "any"], Flag(panel=MORE_LIMITS)] = "once"
    """any: the gate may be asked again as samples or labels are added, and keeps its level; for NFR, right
    predictions lost, and labels."""
    allow_identical: Annotated[bool, Flag(panel=MORE_LIMITS)] = False
    """Do not fail when OLD and NEW are the same model; not beside --gate."""
    allow_unfinished: Annotated[bool, Flag(panel=MORE_LIMITS)] = False
    """Do not fail when a model comes from an unfinished run; not beside --gate."""
    min_slice: Annotated[int, Flag("N", low=1, panel=SLICES)] = 30
    """Smaller slices are counted, not ranked."""
    data_root: Annotated[Path | None, Flag("DIR")] = None
    """Folder of the pictures: of a run's split, where they have moved since; of predictions files, if their
    ids are paths below it."""
    memory_limit: Annotated[str | None, Flag("SIZE", panel=MEMORY)] = None
    """Memory for pairing, such as 2GB; the rest goes to disk. (default: 2GB, or half of the free memory)"""
    as_json: Json = False


class GateInitRequest(ComparedSettings, ModelRequest):
    """The two models, what is compared, and the gate file."""

    old: Annotated[str, argument("OLD")]
    """The model in production, as evaluate takes it."""
    new: Annotated[str, argument("NEW")]
    """A replacement that may be released."""
    out: Annotated[Path, Flag("FILE")] = Path("gate.yaml")
    """File to write; one that exists is refused."""


class HistoryRequest(Request):
    """The history file."""

    file: Annotated[Path, argument("FILE.jsonl")]
    """File that evaluate --append-history wrote."""
    as_json: Json = False
