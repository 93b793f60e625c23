"""`mptctl split`: make the split that settings describe, and show its summary."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import typer

from mptctl.cli.messages import warn
from mptctl.cli.options import columns_by_role
from mptctl.cli.outputs import PAGE, Outputs
from mptctl.cli.show import show
from mptctl.data.class_labels import label_classes, notes_on_class_labels, read_class_labels
from mptctl.data.listing.image_folder import find_part_folders
from mptctl.data.listing.listing import BadPictures
from mptctl.data.listing.requests import DivisionSettings, SplitSettings
from mptctl.data.listing.table import ROLES
from mptctl.data.packing.records import warn_of_incomplete_copy
from mptctl.data.picture_kinds import find_passed_over
from mptctl.data.places import Place, find_place
from mptctl.data.split import Split, make_split, save_split
from mptctl.data.split_file import SPLIT_NAME
from mptctl.data.split_summary import SplitSummary, list_identical, summarise
from mptctl.errors import UsageError, visible
from mptctl.files import read_names, writing
from mptctl.models.lock import list_held_folders
from mptctl.report.media.progress_bars import progress_bars


def split_pictures(asked: SplitSettings) -> None:
    """Make or load the split of a source, write its page if it is asked for, and print a summary and notes.

    Raises:
        UsageError: flags that cannot be used, or a run is being written that --overwrite would disturb.
        MptctlError: as `find_place`, `make_split` and `read_class_labels`.
    """
    if asked.overwrite:
        _refuse_running_runs(asked.run_root)
    _check_outputs(asked)
    columns = columns_by_role(asked.column, ROLES)
    place = find_place(asked.source, asked.data_root, asked.kind)
    _refuse_unused_flags(asked, place)
    if place.description and not asked.as_json:
        typer.echo(f"{asked.source}: {place.description}", err=True)
    if place.root is not None:
        warn(warn_of_incomplete_copy(place.root, "then split with --overwrite"))
    is_kept = (asked.run_root / SPLIT_NAME).exists() and not asked.overwrite
    notes: list[str] = []
    if asked.class_labels is None:
        split = _make_or_load(asked, place, columns)
    else:
        names = read_class_labels(asked.class_labels)
        label = partial(label_classes, names=names, path=asked.class_labels)
        split = _make_or_load(asked, place, columns, label)
        if is_kept:  # it is loaded as it is, without labels or with others
            split = label(split)
            save_split(split)
        notes = notes_on_class_labels(split, names)
    summary = summarise(split, kept=is_kept)
    summary = summary.model_copy(update={"notes": [*summary.notes, *notes]})
    _print_pictures_apart(split, summary)
    if asked.report is not None:
        _write_page(asked.report, split, summary)
    from mptctl.report.documents.split import split_document

    show(summary, split_document, as_json=asked.as_json)


def _refuse_running_runs(run_root: Path) -> None:
    """Raise UsageError if a run of the split that would be replaced is being written."""
    held = list_held_folders(run_root)
    if held:
        raise UsageError(
            f"--overwrite: {held[0]} is being written, and its split may not be replaced meanwhile; "
            "wait for it, or use another --run-root"
        )


def _check_outputs(asked: SplitSettings) -> None:
    """Refuse a page that would destroy an input, before anything is computed."""
    inputs = (asked.old_classes, asked.class_labels, asked.metadata)
    Outputs().add_file("--report", asked.report, PAGE).check([each for each in inputs if each is not None])


def _refuse_unused_flags(asked: SplitSettings, place: Place) -> None:
    """Refuse flags that another flag or the kind of the source would leave without effect.

    Raises:
        UsageError: there is such a flag; the message names it.
    """
    if asked.old_classes is not None and asked.old_fraction is not None:
        raise UsageError("--old-fraction: --old-classes names the old classes; leave one of the two out")
    if asked.old_classes is not None and asked.order == "random":
        raise UsageError("--order random: --old-classes names the old classes; leave one of the two out")
    if asked.column and place.source != "table":
        raise UsageError(f"--column: {asked.source} is no table of pictures; leave this flag out")
    if asked.label_key is not None and place.source != "webdataset":
        raise UsageError(f"--label-key: {asked.source} has no tar shards; leave this flag out")


def _make_or_load(
    asked: SplitSettings,
    place: Place,
    columns: dict[str, str],
    finish: Callable[[Split], Split] = lambda split: split,
) -> Split:
    """Make the split of a place, or load the one that is there; print bad pictures before the error on them.

    Raises:
        BadPictures: some pictures cannot be used.
        MptctlError: as `make_split`.
    """
    old_names = None if asked.old_classes is None else read_names(asked.old_classes, "--old-classes")
    # Settings of the division have the names of `make_split`'s arguments, but for those of the place.
    division = asked.model_dump(include=DivisionSettings.model_fields.keys() - {"source", "kind"})
    try:
        with progress_bars() as progress:
            return make_split(
                place.source,
                run_root=asked.run_root,
                data_root=place.root,
                place=place.table_or_shards,
                columns=columns,
                old_fraction=0.5 if asked.old_fraction is None else asked.old_fraction,
                old_names=old_names,
                seed=asked.seed,
                metadata=asked.metadata,
                overwrite=asked.overwrite,
                download=asked.download,
                progress=progress,
                finish=finish,
                **division,
            )
    except BadPictures as error:
        _print_lines(error.problems)
        raise


def _write_page(path: Path, split: Split, summary: SplitSummary) -> None:
    """Write the HTML page of a split, with pictures of its classes, and print the page's path."""
    from mptctl.report.documents.split_page import split_page

    with writing(path) as stream:
        stream.write(split_page(split, summary, sys.argv).encode())
    typer.echo(f"wrote {path}", err=True)


def _print_pictures_apart(split: Split, summary: SplitSummary) -> None:
    """List pictures that were kept out, identical ones, and files that were passed over."""
    _print_lines(f"kept out: {problem}" for problem in summary.quarantined)
    _print_lines(f"identical: {line}" for line in list_identical(summary.duplicates))
    root = split.manifest.root
    if split.file.source == "imagefolder" and root is not None:
        _print_lines(find_passed_over(root, find_part_folders(root)).lines())


def _print_lines(lines: Iterable[str]) -> None:
    """Print lines on standard error, with control characters in names made visible."""
    for line in lines:
        typer.echo(visible(line), err=True)
