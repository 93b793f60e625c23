"""`mptctl split`: which classes are old, which are new, and which pictures are held out."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from mptctl.cli import options as opt
from mptctl.cli.json_models import prints
from mptctl.cli.show import show
from mptctl.errors import UsageError, visible
from mptctl.names import OnBad, OnDuplicates, Order, PlaceKind, Verify


@prints({"--json": "mptctl.data.split_summary:SplitSummary"})
def split(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="characters and digits (embedded), cifar10, cifar100 (as torchvision keeps them), or a "
            "place: a folder of class folders, in train/ and val/ or without parts (with test/ too, val/ is "
            "the validation part); a table of paths and labels (.csv, .parquet); tar shards ('DIR/*.tar').",
        ),
    ],
    data_root: opt.DataRoot = None,
    old_fraction: Annotated[
        float,
        typer.Option(
            "--old-fraction",
            metavar="PART",
            help="Part of the classes that is old, rounded down; 1.0 is an update without new classes.",
        ),
    ] = 0.5,
    old_classes: Annotated[
        Path | None,
        typer.Option(
            "--old-classes",
            metavar="FILE",
            help="Old classes by name, one a line, in the order of the old model's logits.",
        ),
    ] = None,
    order: Annotated[
        Order, typer.Option("--order", help="Take the first classes as old, or random ones.")
    ] = "given",
    seed: Annotated[
        int,
        typer.Option(
            "--seed",
            metavar="N",
            min=0,
            help="Seed of random order, validation part and drawing.",
        ),
    ] = 0,
    kind: Annotated[
        PlaceKind | None,
        typer.Option("--source", help="Kind of the place, where it is not recognised.", show_default=False),
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(
            "--column",
            metavar="ROLE=NAME",
            help="Column of a table that is its path, label, split, id or group. Repeatable.",
        ),
    ] = None,
    label_key: Annotated[
        str | None,
        typer.Option(
            "--label-key",
            metavar="KEY",
            help="Key of the label in the .json of shards, or .txt. (default: .cls, or label)",
        ),
    ] = None,
    test_fraction: Annotated[
        float | None,
        typer.Option(
            "--test-fraction",
            metavar="PART",
            help="Part of each class to hold out as the test part, of a place that has none.",
        ),
    ] = None,
    val_fraction: Annotated[
        float | None,
        typer.Option(
            "--val-fraction",
            metavar="PART",
            help="Part of each class's training pictures to hold out. (default: 0.1; of characters 0.2; with "
            "test/ beside val/ none)",
        ),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(
            "--group",
            metavar="COLUMN",
            help="Column of table, shards or --metadata: one group, such as a patient, lies in one part.",
        ),
    ] = None,
    metadata: Annotated[
        Path | None,
        typer.Option(
            "--metadata",
            metavar="FILE",
            help="Columns of the pictures by `id`, in a form that predictions have.",
        ),
    ] = None,
    verify: Annotated[
        Verify, typer.Option("--verify", help="Look at each file's header and ends, or decode it all.")
    ] = "header",
    on_bad: Annotated[
        OnBad, typer.Option("--on-bad", help="Refuse bad files, or keep them out of every part.")
    ] = "fail",
    on_duplicates: Annotated[
        OnDuplicates,
        typer.Option(
            "--on-duplicates",
            help="Keep identical pictures, or keep out the training copies of those across parts or labels.",
        ),
    ] = "keep",
    class_labels: Annotated[
        Path | None,
        typer.Option(
            "--class-labels",
            metavar="FILE",
            help="Names for people beside class ids, an id and a name a line (text, or .csv).",
        ),
    ] = None,
    download: Annotated[
        bool, typer.Option("--download", help="Fetch CIFAR where it is not in the data root.")
    ] = False,
    report: Annotated[
        Path | None,
        typer.Option(
            "--report",
            metavar="FILE",
            help="An HTML page: counts, sizes, pictures of each class, and some as a model sees them.",
        ),
    ] = None,
    run_root: opt.RunRoot = Path("runs"),
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing split.")] = False,
    as_json: opt.Json = False,
) -> None:
    """Divide a source into old and new classes and into parts.

    Holds a validation part out of training, finds files that cannot be used, and writes `split.json` into
    the run root, where later commands find it.

    Examples:

        mptctl split characters

        mptctl split cifar100 --data-root ~/data

        mptctl split ~/imagenet --on-bad quarantine

        mptctl split photos.csv --column label=class_name --test-fraction 0.2

        mptctl split 'shards/{000..127}.tar'
    """
    from mptctl.cli.outputs import Outputs
    from mptctl.data.class_labels import label_classes, read_class_labels
    from mptctl.data.listing.image_folder import BadPictures
    from mptctl.data.listing.table import ROLES
    from mptctl.data.places import find_place
    from mptctl.data.split import load_split, make_split
    from mptctl.data.split_file import SPLIT_NAME
    from mptctl.data.split_summary import identical_pictures, summarise
    from mptctl.files import read_names
    from mptctl.files.output_kinds import HTML
    from mptctl.models.lock import held_below
    from mptctl.report.media.progress_bars import progress_bars

    if overwrite and (held := held_below(run_root)):
        raise UsageError(
            f"--overwrite: {held[0]} is being written, and its split may not be replaced meanwhile; wait for "
            "it, or use another --run-root"
        )
    outputs = Outputs()
    outputs.file("--report", report, HTML)
    outputs.check(
        [each for each in (old_classes, class_labels, metadata) if each is not None], prints=as_json
    )
    columns = opt.by_role(column, ROLES)
    found = find_place(source, data_root, kind)
    if found.said and not as_json:
        typer.echo(f"{source}: {found.said}", err=True)
    kept = (run_root / SPLIT_NAME).exists() and not overwrite
    was = load_split(run_root).file.request.data_root if kept and data_root is not None else None
    old_names = None if old_classes is None else read_names(old_classes, "--old-classes")
    try:
        with progress_bars() as progress:
            made = make_split(
                found.source,
                run_root=run_root,
                data_root=found.root,
                place=found.place,
                columns=columns,
                label_key=label_key,
                test_fraction=test_fraction,
                old_fraction=old_fraction,
                old_names=old_names,
                order=order,
                seed=seed,
                val_fraction=val_fraction,
                group=group,
                metadata=metadata,
                verify=verify,
                on_bad=on_bad,
                on_duplicates=on_duplicates,
                overwrite=overwrite,
                download=download,
                progress=progress,
            )
    except BadPictures as error:
        for problem in error.problems:
            typer.echo(visible(problem), err=True)
        raise
    if was is not None and was != made.file.request.data_root:
        typer.echo(f"{run_root / SPLIT_NAME}: its pictures are in {made.manifest.root} from now on", err=True)
    notes: list[str] = []
    if class_labels is not None:
        labels, notes = read_class_labels(class_labels, made.classes.names)
        made = label_classes(made, labels)
    summary = summarise(made, kept=kept)
    summary = summary.model_copy(update={"notes": [*summary.notes, *notes]})
    for problem in summary.quarantined:
        typer.echo(f"kept out: {visible(problem)}", err=True)
    for line in identical_pictures(summary.duplicates):
        typer.echo(visible(line), err=True)
    if found.source == "imagefolder" and made.manifest.root is not None:
        from mptctl.data.listing.image_folder import parts_of
        from mptctl.data.picture_kinds import passed_over_in_classes

        for line in passed_over_in_classes(made.manifest.root, parts_of(made.manifest.root)).lines():
            typer.echo(visible(line), err=True)
    if report is not None:
        from mptctl.files import writing
        from mptctl.report.documents.split_page import split_page

        with writing(report) as stream:
            stream.write(split_page(made, summary, sys.argv).encode())
        typer.echo(f"wrote {report}", err=True)
    show(summary, "split:split_document", as_json=as_json)
