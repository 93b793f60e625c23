"""The program `mptctl`: its commands, and the message and the exit code that an error ends in."""

from __future__ import annotations

import copy
import inspect
import os
import sys
import traceback
from typing import Annotated, Any

import typer
from typer.models import CommandInfo, TyperInfo

from mptctl import __version__
from mptctl.cli.command import HELP_FLAGS, Command, CommandGroup, CommandWithTorch
from mptctl.cli.commands import comparing, gating, looking, starting, training
from mptctl.cli.jobs import Job
from mptctl.cli.messages import resume_command
from mptctl.errors import MptctlError, Stopped, StorageError, visible


class _Root(CommandGroup):
    """The program itself: its commands in the order of `COMMANDS`."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of the commands in the order of `COMMANDS`, then hidden ones; typer puts groups last."""
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
    context_settings={"help_option_names": HELP_FLAGS},
)


def _print_version(wanted: bool) -> None:
    """Print the version and end the program, if that is wanted."""
    if wanted:
        typer.echo(f"mptctl {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _handle_program_flags(
    context: typer.Context,
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback with an error.")] = False,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and end."),
    ] = False,
) -> None:
    """Keep `--debug` in the environment; print the program's help where no command is named."""
    if debug:
        os.environ["MPTCTL_DEBUG"] = "1"
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


# The commands by purpose, in the order in which help lists them.
COMMANDS: dict[str, dict[str, Job | typer.Typer]] = {
    "Start": {"quickstart": starting.quickstart, "doctor": starting.doctor},
    "Gate a release": {
        "evaluate": gating.evaluate,
        "disagree": gating.disagree,
        "gate": gating.gate,
        "history": gating.history,
        "predict": gating.predict,
    },
    "Train an update": {
        "split": training.split,
        "import": training.import_,
        "train-old": training.train_old,
        "train-ref": training.train_ref,
        "train-mpt": training.train_mpt,
        "train-baseline": training.train_baseline,
        "train-ensemble": training.train_ensemble,
        "tune": training.tune,
        "adjust": training.adjust,
        "export": training.export,
        "fewshot": training.fewshot,
    },
    "Compare": {"study": comparing.study, "compare": comparing.compare, "figure": comparing.figure},
    "Look and measure": {
        "runs": looking.runs,
        "recipes": looking.recipes,
        "pack": looking.pack,
        "bench": looking.bench,
    },
}
# Commands that do nothing without torch; others work without, or say for which part they need it.
NEED_TORCH = COMMANDS["Train an update"].keys() - {"split", "adjust"}
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


def _join_help_lines(group: typer.Typer) -> None:
    """Set the help of a group's commands: one line a paragraph, which the terminal breaks; examples stay.

    Typer itself would keep the line breaks of the docstring.
    """
    for command in group.registered_commands:
        paragraphs = inspect.cleandoc(command.callback.__doc__ or "").split("\n\n")
        command.help = "\n\n".join(
            text if text.startswith(" ") else text.replace("\n", " ") for text in paragraphs
        )


for group in (app, gating.gate, comparing.figure, looking.bench):
    _join_help_lines(group)
    for registered in group.registered_commands:
        registered.cls = CommandWithTorch if registered.name in NEED_TORCH else Command


def main() -> None:
    """Run the command line and exit; an error is one line on standard error and the exit code of its kind."""
    os.environ.pop("MPTCTL_DEBUG", None)
    try:
        code = _run_command()
    except Stopped as error:
        how = f"; go on with: {resume_command()}" if error.resumable else ""
        code = _print_error(f"{error}{how}", error.exit_code, error)
    except StorageError as error:
        how = ""
        if error.full and _can_resume(sys.argv[1:]):
            how = f", then go on with: {resume_command()} (without --resume if nothing was saved yet)"
        code = _print_error(f"{error}{how}", error.exit_code, error)
    except MptctlError as error:
        code = _print_error(str(error), error.exit_code, error)
    except (KeyboardInterrupt, typer.Abort) as error:
        # typer makes an Abort of an EOFError, too, which a damaged file may cause.
        if isinstance(error.__cause__, EOFError):
            from mptctl.cli.unforeseen import explain_unforeseen

            code = _print_error(*explain_unforeseen(error.__cause__, sys.argv[1:]), error.__cause__)
        else:
            code = _print_error("stopped", 130, error)
    except typer.TyperException as error:  # wrong flags and values
        from mptctl.cli.wrong_usage import explain

        code = _print_error(explain(error, sys.argv[1:]), 2, error)
    except Exception as error:  # nobody foresaw it: one line, and a file to report
        from mptctl.cli.unforeseen import explain_unforeseen

        code = _print_error(*explain_unforeseen(error, sys.argv[1:]), error)
    sys.exit(code or 0)


def _run_command() -> int | None:
    """Run the command that the command line names, and return its exit code; None for success.

    Raises:
        KeyboardInterrupt: Ctrl-C, of which typer makes the exit code 130.
        Exception: whatever the command raises.
    """
    code: int | None = _smallest_program(sys.argv[1:])(standalone_mode=False)
    if code == 130:
        raise KeyboardInterrupt
    return code


def _smallest_program(words: list[str]) -> typer.Typer:
    """Return a program with only the command or group that is named; else one whose commands have no options.

    Typer builds every command of a program, and imports the records that its options are made from.
    """
    if "_MPTCTL_COMPLETE" in os.environ:  # the shell asks for completions, and names no command in `words`
        return app
    name = next((word for word in words if not word.startswith("-")), "")
    program = copy.copy(app)
    program.registered_commands = [each for each in app.registered_commands if each.name == name]
    program.registered_groups = [each for each in app.registered_groups if each.name == name]
    if not program.registered_commands and not program.registered_groups:
        program.registered_commands = [_without_options(each) for each in app.registered_commands]
        program.registered_groups = [_without_commands(each) for each in app.registered_groups]
    return program


def _without_options(command: CommandInfo) -> CommandInfo:
    """A copy of a command that only help can show."""
    shown = copy.copy(command)
    shown.callback = lambda: None
    return shown


def _without_commands(group: TyperInfo) -> TyperInfo:
    """A copy of a group that only help can show."""
    shown = copy.copy(group)
    instance: Any = copy.copy(group.typer_instance)
    instance.registered_commands = []
    shown.typer_instance = instance
    return shown


def _can_resume(words: list[str]) -> bool:
    """Tells whether the command of a command line has the flag ``--resume``."""
    program: Any = typer.main.get_command(_smallest_program(words))
    command = next((program.commands[word] for word in words if word in program.commands), None)
    return command is not None and any("--resume" in flag.opts for flag in command.params)


def _print_error(message: str, code: int, error: BaseException) -> int:
    """Print an error as one line on standard error, with --debug after its traceback; return the code."""
    if os.environ.get("MPTCTL_DEBUG"):
        traceback.print_exception(error)
    # A name in the message may hold line breaks and control characters.
    typer.echo(f"mptctl: {visible(' '.join(message.split()))}", err=True)
    return code
