"""`mptctl gate init`: a gate file to begin with, from what is there."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mptctl.cli import options as opt
from mptctl.cli import slice_flags as slices
from mptctl.cli.command import CommandGroup
from mptctl.cli.old_classes_flag import OldClasses, old_classes_file, read_old_classes
from mptctl.names import Session

app = typer.Typer(cls=CommandGroup, help="Write a gate file to begin with (gate init).")


@app.callback(invoke_without_command=True)
def _root(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command("init")
def init(
    old: Annotated[str, typer.Argument(metavar="OLD", help="The model in production, as evaluate takes it.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="A replacement that may be released.")],
    run_root: opt.RunRoot = Path("runs"),
    out: Annotated[
        Path, typer.Option("--out", metavar="FILE", help="Where it is written; what is there is kept.")
    ] = Path("gate.yaml"),
    by: slices.By = None,
    metadata: slices.Metadata = None,
    superclasses: slices.Superclasses = None,
    class_map: slices.ClassMapFile = None,
    old_classes: OldClasses = None,
    device: opt.ModelDevice = "auto",
) -> None:
    """Write a commented gate file whose limits this comparison just keeps to.

    Examples:

        mptctl gate init old mpt-kl --by class
    """

    from mptctl.cli.outputs import Outputs, read_for_models
    from mptctl.errors import UsageError
    from mptctl.evaluation.evaluate import compare
    from mptctl.evaluation.gate.draft import draft_gate_file
    from mptctl.evaluation.gate.rules import today_in_utc
    from mptctl.evaluation.pairing.class_map import read_class_map
    from mptctl.evaluation.pairing.sanity import IDENTICAL
    from mptctl.evaluation.reading.workspace import workspace
    from mptctl.evaluation.slices.derived_columns import read_superclasses
    from mptctl.evaluation.slices.ranking import SliceRequest
    from mptctl.files import writing
    from mptctl.files.output_kinds import OutputKind
    from mptctl.inference.named_models import load_predictions
    from mptctl.inference.picture_sizes import lazy_picture_sizes
    from mptctl.report.media.progress_bars import showing_progress

    keys = slices.columns(by)
    if metadata is not None and not keys:
        raise UsageError("--metadata: is for --by; name a column of it, such as --by country")
    outputs = Outputs()
    outputs.file("--out", out, OutputKind("draft", lambda path: False))
    old_file = old_classes_file(old_classes)
    read = [path for path in (metadata, old_file, superclasses, class_map) if path is not None]
    if out.is_file() and out.stat().st_size:
        raise UsageError(f"--out {out}: is there already; edit it, or name another file")
    outputs.check([*read_for_models([old, new], run_root), *read])
    labels = read_old_classes(old_classes)
    above = read_superclasses(superclasses) if superclasses is not None else None
    mapped = read_class_map(class_map) if class_map is not None else None
    with showing_progress(Session(run_root, device)) as session, workspace():
        found = load_predictions(
            {"old": old, "new": new},
            session,
            part="test",
            renamed=frozenset() if mapped is None else frozenset(mapped.old),
        )
        report = compare(
            found.models["old"],
            found.models["new"],
            old_classes=labels,
            class_map=mapped,
            slicing=SliceRequest(
                keys,
                slices.files(found.models, metadata),
                superclasses=above,
                pictures=lazy_picture_sizes(found, session.progress),
            ),
            identical=found.identical,
            unfinished=found.unfinished,
        )
    if report.identical:
        raise UsageError(f"{new}: {IDENTICAL}, and its limits would be nobody's; name the replacement as NEW")
    with writing(out) as stream:
        stream.write(draft_gate_file(report, today_in_utc()).encode())
    typer.echo(f"wrote {out}", err=True)
