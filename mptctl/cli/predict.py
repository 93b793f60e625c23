"""`mptctl predict`: write a model's predictions for pictures without labels."""

from __future__ import annotations

import typer

from mptctl.cli.messages import warn
from mptctl.cli.outputs import Outputs, files_read_for
from mptctl.data.derived_splits import find_place_kind
from mptctl.data.listing.patterns import root_folder_of
from mptctl.data.packing.records import warn_of_incomplete_copy
from mptctl.data.picture_kinds import count_passed_over
from mptctl.evaluation.reading.answers import answers_writer
from mptctl.inference.requests import PredictRequest
from mptctl.models.run_folder import find_checkpoint
from mptctl.names import Session
from mptctl.report.media.progress_bars import progress_bars


def predict_folder(asked: PredictRequest) -> None:
    """Write a model's predictions for pictures; print how many, which files were left out, and the path.

    Raises:
        UsageError: the predictions file has no known ending, or would destroy what is read.
        CheckpointError: there is no such model.
        DataError: there is no such folder, or a file in it is bad.
    """
    run, folder, out = asked.run, asked.folder, asked.out
    answers_writer(out)
    Outputs().add_file("--out", out).check(files_read_for([run], asked.run_root))
    # Missing inputs are reported before torch is imported, which takes seconds.
    find_checkpoint(run, asked.run_root)
    kind = find_place_kind(folder.expanduser())
    warn(warn_of_incomplete_copy(root_folder_of(str(folder.expanduser())), "then predict again"))
    from mptctl.inference.loaded import load_run

    model = load_run(run, Session(asked.run_root, asked.device))
    if model.unfinished is not None:
        warn([model.unfinished])
    with progress_bars() as progress:
        predictions = model.predict_folder(
            folder, on_bad=asked.on_bad, verify=asked.verify, progress=progress, data_root=asked.data_root
        )
    for line in predictions.left_out:
        typer.echo(f"left out: {line}", err=True)
    if kind == "imagefolder":
        for line in count_passed_over(folder.expanduser()).lines():
            typer.echo(line, err=True)
    typer.echo(f"{len(predictions):,} pictures predicted, {len(predictions.left_out):,} left out", err=True)
    typer.echo(str(predictions.save(out)))
