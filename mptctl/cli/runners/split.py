"""The work of `mptctl split`: from flags to a split, and from it to the terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

import typer

from mptctl.cli import options as opt
from mptctl.cli.outputs import Outputs
from mptctl.cli.show import show
from mptctl.cli.split_flags import SplitFlags
from mptctl.data.class_labels import label_classes, read_class_labels
from mptctl.data.listing.image_folder import BadPictures, parts_of
from mptctl.data.listing.table import ROLES
from mptctl.data.picture_kinds import passed_over_in_classes
from mptctl.data.places import Place, find_place
from mptctl.data.split import Split, load_split, make_split
from mptctl.data.split_file import SPLIT_NAME
from mptctl.data.split_summary import SplitSummary, identical_pictures, summarise
from mptctl.errors import UsageError, visible
from mptctl.files import read_names, writing
from mptctl.files.output_kinds import HTML
from mptctl.models.lock import list_held_folders
from mptctl.report.media.progress_bars import progress_bars


def split_pictures(flags: SplitFlags) -> None:
    """Find the source, divide it, and say what came of it."""
    run_root = flags.run_root
    if flags.overwrite and (held := list_held_folders(run_root)):
        raise UsageError(
            f"--overwrite: {held[0]} is being written, and its split may not be replaced meanwhile; wait for "
            "it, or use another --run-root"
        )
    _check_outputs(flags)
    columns = opt.columns_by_role(flags.column, ROLES)
    found = find_place(flags.source, flags.data_root, flags.kind)
    if found.said and not flags.as_json:
        typer.echo(f"{flags.source}: {found.said}", err=True)
    kept = (run_root / SPLIT_NAME).exists() and not flags.overwrite
    was = load_split(run_root).file.request.data_root if kept and flags.data_root is not None else None
    made = _make(flags, found, columns)
    if was is not None and was != made.file.request.data_root:
        typer.echo(f"{run_root / SPLIT_NAME}: its pictures are in {made.manifest.root} from now on", err=True)
    notes: list[str] = []
    if flags.class_labels is not None:
        labels, notes = read_class_labels(flags.class_labels, made.classes.names)
        made = label_classes(made, labels)
    summary = summarise(made, kept=kept)
    summary = summary.model_copy(update={"notes": [*summary.notes, *notes]})
    _say(f"kept out: {problem}" for problem in summary.quarantined)
    _say(identical_pictures(summary.duplicates))
    if found.source == "imagefolder" and made.manifest.root is not None:
        _say(passed_over_in_classes(made.manifest.root, parts_of(made.manifest.root)).lines())
    if flags.report is not None:
        _write_page(flags.report, made, summary)
    show(summary, "split:split_document", as_json=flags.as_json)


def _check_outputs(flags: SplitFlags) -> None:
    """Refuse a page that would destroy what is read, before anything is computed."""
    outputs = Outputs()
    outputs.add_file("--report", flags.report, HTML)
    inputs = (flags.old_classes, flags.class_labels, flags.metadata)
    outputs.check([each for each in inputs if each is not None], prints=flags.as_json)


def _make(flags: SplitFlags, found: Place, columns: dict[str, str]) -> Split:
    """Make the split; all bad pictures are listed before the error that counts them."""
    old_names = None if flags.old_classes is None else read_names(flags.old_classes, "--old-classes")
    try:
        with progress_bars() as progress:
            return make_split(
                found.source,
                run_root=flags.run_root,
                data_root=found.root,
                place=found.place,
                columns=columns,
                label_key=flags.label_key,
                test_fraction=flags.test_fraction,
                old_fraction=flags.old_fraction,
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
        _say(error.problems)
        raise


def _write_page(path: Path, made: Split, summary: SplitSummary) -> None:
    from mptctl.report.documents.split_page import split_page  # which draws pictures

    with writing(path) as stream:
        stream.write(split_page(made, summary, sys.argv).encode())
    typer.echo(f"wrote {path}", err=True)


def _say(lines: Iterable[str]) -> None:
    for line in lines:
        typer.echo(visible(line), err=True)
