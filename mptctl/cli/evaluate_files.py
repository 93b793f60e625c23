"""The files that `mptctl evaluate` writes, with or without a comparison, and the end of its gate."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import typer

from mptctl.cli.outputs import PAGE, Outputs, files_read_for
from mptctl.cli.streams import outputs_are_one
from mptctl.errors import GateFailed, MptctlError, StorageError, UsageError, encodable
from mptctl.evaluation.evaluate_request import EvaluateRequest
from mptctl.evaluation.gate.history import Look, Release, append_release, read_entries
from mptctl.machine.facts import git_commit
from mptctl.report.documents.flips_files import PREDICTIONS, FlipFiles

# Exit codes of data, models, numbers and storage that cannot be used.
NOT_COMPARED = range(4, 8)


def read_files(asked: EvaluateRequest, models: Sequence[str]) -> FlipFiles:
    """Read which files are to be written, before any model is read.

    Args:
        asked: the settings.
        models: every model that will be read.

    Raises:
        UsageError: an output would destroy an input or another output.
        DataError: the history file is damaged.
    """
    if asked.tag is not None and asked.append_history is None:
        raise UsageError(f"--tag {asked.tag}: names a release in --append-history FILE.jsonl; give both")
    if asked.as_json and asked.markdown == "-":
        raise UsageError("--json and --markdown -: both print to standard output; give --markdown a file")
    files = FlipFiles(
        page=asked.report,
        markdown=None if asked.markdown in (None, "-") else Path(str(asked.markdown)),
        predictions=asked.save_predictions,
        junit=asked.junit,
        flips=asked.flips,
    )
    outputs = Outputs()
    outputs.add_file("--report", files.page, PAGE)
    outputs.add_file("--markdown", files.markdown)
    outputs.add_file("--junit", files.junit)
    outputs.add_file("--flips", files.flips, (".csv",))
    outputs.add_file("--append-history", asked.append_history)
    outputs.add_folder("--save-predictions", files.predictions, PREDICTIONS.values())
    named = [path for path in (asked.gate_file, asked.labels) if path is not None]
    outputs.check([*files_read_for(models, asked.run_root), *asked.files, *named])
    if asked.append_history is not None and asked.append_history.exists():
        read_entries(asked.append_history)  # raises an error where it is damaged
    return files


def add_to_history(asked: EvaluateRequest, make: Callable[[str | None], Release | Look]) -> None:
    """Add an entry, made with its tag, to the history that is asked for, and print whether it was added."""
    if asked.append_history is None:
        return
    entry = make(_release_tag(asked.tag))
    earlier = append_release(asked.append_history, entry, named=asked.tag is not None)
    added = "added to" if earlier is None else f"not added, since it is release {earlier} already:"
    typer.echo(f"{added} {asked.append_history}", err=True)


def _release_tag(given: str | None) -> str | None:
    """The name of the release: the given one, or the git commit of this folder; None without either."""
    if given is not None:
        return encodable(given)
    try:
        return git_commit(Path.cwd())
    except OSError:
        return None


@contextmanager
def errors_written_to(files: FlipFiles) -> Iterator[None]:
    """Write an error that prevents the comparison to the Markdown and JUnit files too, and raise it again."""
    try:
        yield
    except MptctlError as error:
        if error.exit_code in NOT_COMPARED:
            with suppress(StorageError):  # the first error is the one to report
                files.write_error(str(error))
        raise


@contextmanager
def without_repeated_verdict(*, on_screen: bool) -> Iterator[None]:
    """Turn GateFailed into an exit without message where the line above on the screen is the verdict.

    Args:
        on_screen: the verdict has just been printed to standard output, for a person.
    """
    try:
        yield
    except GateFailed as error:
        if on_screen and outputs_are_one():
            raise typer.Exit(error.exit_code) from error
        raise
