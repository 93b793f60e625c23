"""The work of `mptctl predict`: write a model's predictions for pictures without labels."""

from __future__ import annotations

from pathlib import Path

import typer

from mptctl.cli.messages import warn
from mptctl.cli.outputs import Outputs, files_read_for
from mptctl.data.derived_splits import find_place_kind
from mptctl.data.listing.patterns import root_folder_of
from mptctl.data.packing.records import warn_of_incomplete_copy
from mptctl.data.picture_kinds import count_passed_over
from mptctl.evaluation.reading.answers import answers_writer
from mptctl.models.run_folder import find_checkpoint
from mptctl.names import OnBad, Session, Verify
from mptctl.report.media.progress_bars import progress_bars


def predict_folder(
    run: str, folder: Path, out: Path, session: Session, *, verify: Verify, on_bad: OnBad
) -> None:
    """Write a model's predictions for pictures; print how many, which files were left out, and the path.

    Args:
        run: the model.
        folder: of pictures, at any depth; or a table, or a pattern of shards.
        out: the predictions file.
        session: where runs are and where the model computes.
        verify: whether each file is decoded, or only its header and ends are checked.
        on_bad: refuse bad files, or leave them out.

    Raises:
        UsageError: the predictions file has no known ending, or would destroy what is read.
        CheckpointError: there is no such model.
        DataError: there is no such folder, or a file in it is bad.
    """
    outputs = Outputs()
    answers_writer(out)
    outputs.add_file("--out", out)
    outputs.check(files_read_for([run], session.run_root))
    # Missing inputs are reported before torch is imported, which takes seconds.
    find_checkpoint(run, session.run_root)
    kind = find_place_kind(folder.expanduser())
    warn(warn_of_incomplete_copy(root_folder_of(str(folder.expanduser())), "then predict again"))
    from mptctl.inference.loaded import load_run

    model = load_run(run, session)
    if model.unfinished is not None:
        warn([model.unfinished])
    with progress_bars() as progress:
        predictions = model.predict_folder(folder, on_bad=on_bad, verify=verify, progress=progress)
    for line in predictions.left_out:
        typer.echo(f"left out: {line}", err=True)
    if kind == "imagefolder":
        for line in count_passed_over(folder.expanduser()).lines():
            typer.echo(line, err=True)
    typer.echo(f"{len(predictions):,} pictures predicted, {len(predictions.left_out):,} left out", err=True)
    typer.echo(str(predictions.save(out)))
