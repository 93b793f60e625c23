"""The work of `mptctl split`: make the split that flags describe, and show its summary."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

import typer

from mptctl.cli import options as opt
from mptctl.cli.messages import warn
from mptctl.cli.outputs import PAGE, Outputs
from mptctl.cli.show import show
from mptctl.cli.split_flags import SplitFlags
from mptctl.data.class_labels import choose_class_labels, label_classes, read_class_labels
from mptctl.data.listing.image_folder import find_part_folders
from mptctl.data.listing.listing import BadPictures
from mptctl.data.listing.table import ROLES
from mptctl.data.packing.records import warn_of_incomplete_copy
from mptctl.data.picture_kinds import find_passed_over
from mptctl.data.places import Place, find_place
from mptctl.data.split import Split, load_split, make_split
from mptctl.data.split_file import SPLIT_NAME
from mptctl.data.split_summary import SplitSummary, list_identical, summarise
from mptctl.errors import UsageError, visible
from mptctl.files import read_names, writing
from mptctl.models.lock import list_held_folders
from mptctl.report.media.progress_bars import progress_bars


def split_pictures(flags: SplitFlags) -> None:
    """Make or load the split of a source, write its page if a flag names one, and print a summary and notes.

    Raises:
        UsageError: flags that cannot be used, or a run is being written that --overwrite would disturb.
        MptctlError: as `find_place`, `make_split` and `read_class_labels`.
    """
    run_root = flags.run_root
    written_now = list_held_folders(run_root) if flags.overwrite else []
    if written_now:
        raise UsageError(
            f"--overwrite: {written_now[0]} is being written, and its split may not be replaced meanwhile; "
            "wait for it, or use another --run-root"
        )
    _check_outputs(flags)
    columns = opt.columns_by_role(flags.column, ROLES)
    place = find_place(flags.source, flags.data_root, flags.kind)
    _refuse_unused_flags(flags, place)
    if place.description and not flags.as_json:
        typer.echo(f"{flags.source}: {place.description}", err=True)
    if place.root is not None:
        warn(warn_of_incomplete_copy(place.root, "then split with --overwrite"))
    is_kept = (run_root / SPLIT_NAME).exists() and not flags.overwrite
    old_root = None
    if is_kept and flags.data_root is not None:
        old_root = load_split(run_root).file.request.data_root
    # Read first: a file that is refused leaves no split behind.
    names = {} if flags.class_labels is None else read_class_labels(flags.class_labels)
    split = _make_or_load(flags, place, columns)
    if old_root is not None and old_root != split.file.request.data_root:
        typer.echo(
            f"{run_root / SPLIT_NAME}: its pictures are in {split.manifest.root} from now on", err=True
        )
    notes: list[str] = []
    if flags.class_labels is not None:
        labels, notes = choose_class_labels(names, split.classes.names, flags.class_labels)
        split = label_classes(split, labels)
    summary = summarise(split, kept=is_kept)
    summary = summary.model_copy(update={"notes": [*summary.notes, *notes]})
    _print_lines(f"kept out: {problem}" for problem in summary.quarantined)
    _print_lines(list_identical(summary.duplicates))
    if place.source == "imagefolder" and split.manifest.root is not None:
        _print_lines(find_passed_over(split.manifest.root, find_part_folders(split.manifest.root)).lines())
    if flags.report is not None:
        _write_page(flags.report, split, summary)
    show(summary, "split:split_document", as_json=flags.as_json)


def _check_outputs(flags: SplitFlags) -> None:
    """Refuse a page that would destroy an input, before anything is computed."""
    outputs = Outputs()
    outputs.add_file("--report", flags.report, PAGE)
    inputs = (flags.old_classes, flags.class_labels, flags.metadata)
    outputs.check([each for each in inputs if each is not None])


def _refuse_unused_flags(flags: SplitFlags, place: Place) -> None:
    """Refuse flags that another flag or the kind of the source would leave without effect.

    Raises:
        UsageError: there is such a flag; the message names it.
    """
    if flags.old_classes is not None and flags.old_fraction is not None:
        raise UsageError("--old-fraction: --old-classes names the old classes; leave one of the two out")
    if flags.old_classes is not None and flags.order == "random":
        raise UsageError("--order random: --old-classes names the old classes; leave one of the two out")
    if flags.column and place.source != "table":
        raise UsageError(f"--column: {flags.source} is no table of pictures; leave this flag out")
    if flags.label_key is not None and place.source != "webdataset":
        raise UsageError(f"--label-key: {flags.source} has no tar shards; leave this flag out")


def _make_or_load(flags: SplitFlags, place: Place, columns: dict[str, str]) -> Split:
    """Make the split of a place, or load the one that is there; print bad pictures before the error on them.

    Raises:
        BadPictures: some pictures cannot be used.
        MptctlError: as `make_split`.
    """
    old_names = None if flags.old_classes is None else read_names(flags.old_classes, "--old-classes")
    try:
        with progress_bars() as progress:
            return make_split(
                place.source,
                run_root=flags.run_root,
                data_root=place.root,
                place=place.place,
                columns=columns,
                label_key=flags.label_key,
                test_fraction=flags.test_fraction,
                old_fraction=0.5 if flags.old_fraction is None else flags.old_fraction,
                old_names=old_names,
                order=flags.order,
                seed=flags.seed,
                val_fraction=flags.val_fraction,
                group=flags.group,
                metadata=flags.metadata,
                verify=flags.verify,
                on_bad=flags.on_bad,
                on_duplicates=flags.on_duplicates,
                overwrite=flags.overwrite,
                download=flags.download,
                progress=progress,
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


def _print_lines(lines: Iterable[str]) -> None:
    """Print lines on standard error, with control characters in names made visible."""
    for line in lines:
        typer.echo(visible(line), err=True)
