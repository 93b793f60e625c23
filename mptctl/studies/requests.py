"""The settings of `mptctl study`, `compare`, `recipes` and `quickstart`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from mptctl.files.request import (
    DataRoot,
    DryRun,
    Flag,
    Json,
    ModelRequest,
    Plugins,
    RayAddress,
    Request,
    RootRequest,
    argument,
)

OUTPUT = "More output"


class StudySettings(Request):
    """The study to run, and how."""

    name: Annotated[str, argument("STUDY")]
    """A study by name, or a YAML file of your own."""
    seeds: Annotated[str | None, Flag("LIST")] = None
    """Seeds, such as 1,2,3. (default: the study's)"""
    cost: Annotated[float | None, Flag("X", low=0)] = None
    """Largest training cost of a row, in plain trainings: rows with `longer` get as many epochs as it allows,
    dearer rows are left out. (default: the study's)"""
    run_root: Annotated[Path | None, Flag("DIR")] = None
    """Runs lie in DIR/SEED/RUN. (default: runs/STUDY)"""
    data_root: DataRoot = None
    parallel: Annotated[int | None, Flag("N", low=1)] = None
    """Most runs at once; they share the cores. (default: one a GPU; without a GPU, one a core)"""
    ray_address: RayAddress = None
    plugins: Plugins = Field([])
    report: Annotated[Path | None, Flag("FILE.html")] = None
    """Write one HTML page."""
    dry_run: DryRun = False
    as_json: Json = False


class CompareRequest(ModelRequest):
    """The updates to compare, how, and what is written."""

    studies_or_runs: Annotated[list[str], argument("STUDY_OR_RUNS...")]
    """A study's name or folder, a run root, or runs by name or folder."""
    old: Annotated[str | None, Flag("RUN")] = None
    """Old model of all updates: a folder, or a name beside each run. (default: the one each run records)"""
    part: Annotated[Literal["test", "val"], Flag()] = "test"
    """Part whose samples are counted; val for choosing a method."""
    equal_error: Annotated[str | None, Flag("ROW")] = None
    """Shift updates, by the validation part, to the validation error of ROW. (default: the plain update
    alone, to the MPT row of the lowest validation NFR)"""
    against: Annotated[str | None, Flag("ROW")] = None
    """Show the difference of each row to ROW, with intervals."""
    choose: Annotated[bool, Flag()] = False
    """With --part val: choose the cheapest row that is within noise of the fewest flips, at one error."""
    as_json: Json = False
    csv: Annotated[Path | None, Flag("FILE", panel=OUTPUT)] = None
    """Write one line a row as CSV, in full precision."""
    latex: Annotated[Path | None, Flag("FILE", panel=OUTPUT)] = None
    """Write a LaTeX table for booktabs."""
    markdown: Annotated[Path | None, Flag("FILE", panel=OUTPUT)] = None
    """Write a Markdown table."""
    report: Annotated[Path | None, Flag("FILE.html", panel=OUTPUT)] = None
    """Write one HTML page."""


class CatalogRequest(Request):
    """The presets and studies to show."""

    name: Annotated[str | None, argument("NAME")] = None
    """Show all keys of this one."""
    plugins: Plugins = Field([])
    as_json: Json = False


class QuickstartRequest(RootRequest):
    """The run root of the demo, and its seed."""

    seed: Annotated[int, Flag("N", low=0)] = 0
    """Seed of the split and of all runs."""
    overwrite: Annotated[bool, Flag()] = False
    """Delete the runs of an earlier quickstart there."""
