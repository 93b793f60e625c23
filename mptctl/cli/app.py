"""The command line: which verbs there are, and how an error ends."""

from __future__ import annotations

import copy
import inspect
import os
import sys
import traceback
from collections.abc import Callable
from typing import Annotated, Any

import typer

from mptctl import __version__
from mptctl.cli import bench, figure, gate
from mptctl.cli.adjust import adjust
from mptctl.cli.chain import chain
from mptctl.cli.command import Command, CommandGroup
from mptctl.cli.compare import compare
from mptctl.cli.doctor import doctor
from mptctl.cli.evaluate import evaluate
from mptctl.cli.export import export
from mptctl.cli.fewshot import fewshot
from mptctl.cli.history import history
from mptctl.cli.import_ import import_
from mptctl.cli.messages import resume_command
from mptctl.cli.pack import pack
from mptctl.cli.predict import predict
from mptctl.cli.quickstart import quickstart
from mptctl.cli.recipes import recipes
from mptctl.cli.runs import runs
from mptctl.cli.split import split
from mptctl.cli.study import study
from mptctl.cli.train_baseline import train_baseline
from mptctl.cli.train_ensemble import train_ensemble
from mptctl.cli.train_mpt import train_mpt
from mptctl.cli.train_old import train_old
from mptctl.cli.train_ref import train_ref
from mptctl.cli.tune import tune
from mptctl.errors import MptctlError, Stopped, StorageError, visible


class _Root(CommandGroup):
    """The program itself: its commands in the order of `COMMANDS`."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Names of the commands, panel by panel; typer puts groups of commands last."""
        order = [name for commands in COMMANDS.values() for name in commands]
        hidden = [name for name in super().list_commands(ctx) if name not in order]
        return [*order, *hidden]


app = typer.Typer(
    name="mptctl",
    cls=_Root,
    help="Train image classifiers that replace the one in production without breaking what it got right, "
    "measure what a replacement breaks, and refuse a release that breaks too much.",
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"mptctl {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback with an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    if debug:
        os.environ["MPTCTL_DEBUG"] = "1"
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


# The commands by purpose, in the order in which help lists them.
COMMANDS: dict[str, dict[str, Callable[..., None] | typer.Typer]] = {
    "Start": {"quickstart": quickstart, "doctor": doctor},
    "Gate a release": {"evaluate": evaluate, "gate": gate.app, "history": history, "predict": predict},
    "Train an update": {
        "split": split,
        "import": import_,
        "train-old": train_old,
        "train-ref": train_ref,
        "train-mpt": train_mpt,
        "train-baseline": train_baseline,
        "train-ensemble": train_ensemble,
        "tune": tune,
        "adjust": adjust,
        "export": export,
        "fewshot": fewshot,
    },
    "Compare": {"study": study, "compare": compare, "chain": chain, "figure": figure.app},
    "Look and measure": {"runs": runs, "recipes": recipes, "pack": pack, "bench": bench.app},
}
for panel, commands in COMMANDS.items():
    for name, command in commands.items():
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name, rich_help_panel=panel)
        else:
            app.command(name, rich_help_panel=panel)(command)


@app.command("reference", hidden=True)
def reference() -> None:
    """Print the reference page, as `docs/reference.md` holds it."""
    from mptctl.cli.docs_page import render_reference

    typer.echo(render_reference(app), nl=False)


def _let_help_flow(verbs: typer.Typer) -> None:
    """Let the terminal break the lines of each paragraph of help; typer keeps the breaks of the source."""
    for verb in verbs.registered_commands:
        paragraphs = inspect.cleandoc(verb.callback.__doc__ or "").split("\n\n")
        verb.help = "\n\n".join(
            text if text.startswith(" ") else text.replace("\n", " ") for text in paragraphs
        )


for each in (app, bench.app, figure.app, gate.app):
    _let_help_flow(each)
    for registered in each.registered_commands:
        registered.cls = Command


def main() -> None:
    """Run the command line; an error is one line on standard error and the exit code of its kind."""
    os.environ.pop("MPTCTL_DEBUG", None)
    try:
        code = _run()
    except Stopped as error:
        how = f"; go on with: {resume_command()}" if error.resumable else ""
        code = _fail(f"{error}{how}", error.exit_code, error)
    except StorageError as error:
        how = f", then go on with: {resume_command()}" if error.full and _can_resume(sys.argv[1:]) else ""
        code = _fail(f"{error}{how}", error.exit_code, error)
    except MptctlError as error:
        code = _fail(str(error), error.exit_code, error)
    except (KeyboardInterrupt, typer.Abort) as error:
        code = _fail("stopped", 130, error)
    except typer.TyperException as error:  # wrong flags and values
        from mptctl.cli.wrong_usage import explain

        code = _fail(explain(error, sys.argv[1:]), 2, error)
    except Exception as error:  # nobody foresaw it: one line, and a file to report
        from mptctl.cli.unforeseen import explain_unforeseen

        code = _fail(*explain_unforeseen(error, sys.argv[1:]), error)
    sys.exit(code or 0)


def _run() -> int | None:
    """Run the verb, and undo what typer makes of Ctrl-C (an exit with 130)."""
    code: int | None = _program(sys.argv[1:2])(standalone_mode=False)
    if code == 130:
        raise KeyboardInterrupt
    return code


def _program(first: list[str]) -> typer.Typer:
    """The program with the command that is named first alone, since typer builds all it has; else whole."""
    program = copy.copy(app)
    program.registered_commands = [each for each in app.registered_commands if each.name in first]
    program.registered_groups = [each for each in app.registered_groups if each.name in first]
    return program if program.registered_commands or program.registered_groups else app


def _can_resume(words: list[str]) -> bool:
    """Tells whether the verb of a command line has ``--resume``."""
    verbs: Any = typer.main.get_command(app)
    verb = next((verbs.commands[word] for word in words if word in verbs.commands), None)
    return verb is not None and any("--resume" in flag.opts for flag in verb.params)


def _fail(message: str, code: int, error: BaseException) -> int:
    if os.environ.get("MPTCTL_DEBUG"):
        traceback.print_exception(error)
    # Names in it may hold anything; white space is one line's.
    typer.echo(f"mptctl: {visible(' '.join(message.split()))}", err=True)
    return code
