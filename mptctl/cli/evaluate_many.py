"""`mptctl evaluate OLD NEW1 NEW2 ...`: several replacements of one model; and which flags are for how many models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import typer

from mptctl.cli.show import show_document

if TYPE_CHECKING:
    from mptctl.evaluation.flip_report import FlipReport

# Flags that measuring one model has: those of both, and those that a comparison has not.
SHARED = frozenset({"old", "news", "run_root", "as_json", "report", "device", "full"})
ALONE = frozenset({"temperature", "validation"})
# Flags that write, or show at length, one comparison.
OF_ONE_UPDATE = frozenset(
    {
        *("report", "figures", "markdown", "junit", "github", "append_history", "save_predictions"),
        *("gallery", "data_root", "log", "sort", "full", "rows"),
    }
)


def refuse_flags(context: typer.Context, *, replacements: int) -> None:
    """Refuse flags that say something about another number of models than is given.

    Args:
        context: of the call.
        replacements: how many NEW are given; with none OLD is measured by itself.

    Raises:
        UsageError: names the flag.
    """
    from mptctl.errors import UsageError

    for param in context.command.params:
        name, source = param.name or "", context.get_parameter_source(param.name or "")
        if source is None or source.name != "COMMANDLINE":
            continue
        if not replacements and name not in ALONE | SHARED:
            raise UsageError(f"{param.opts[0]}: is for a comparison; name NEW, the replacement, as well")
        if replacements and name in ALONE:
            raise UsageError(f"{param.opts[0]}: is for one model alone; name OLD or NEW alone")
        if replacements > 1 and name in OF_ONE_UPDATE:
            raise UsageError(
                f"{param.opts[0]}: is for one NEW, and {replacements} are given; evaluate one at a time"
            )


def conclude_updates(reports: Mapping[str, FlipReport], as_json: bool) -> None:
    """Print several comparisons with one old model, and end as their gates do.

    Args:
        reports: by what a person called the new model.
        as_json: print JSON.

    Raises:
        GateFailed: names each new model whose gate did not pass, with its reasons.
    """
    from mptctl.errors import GateFailed, some

    if as_json:
        from mptctl.evaluation.flip_report import FlipReports

        typer.echo(FlipReports(reports=list(reports.values())).model_dump_json())
    else:
        from mptctl.report.documents.class_names import for_people

        named = {name: for_people(report) for name, report in reports.items()}
        show_document(named, "updates:updates_document")
    failed = []
    for name, report in reports.items():
        try:
            report.gate.require_passed()
        except GateFailed as error:
            failed.append(f"{name}: {error}")
    if failed:
        raise GateFailed(some(failed, len(failed), "; "))
