"""Classes of commands: help shows flags by their names alone, and an empty word is refused as a value."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from mptctl.errors import UsageError

# The flags that show the help of every command.
HELP_FLAGS = ["-h", "--help"]


def _hide_flag_types(params: list[Any]) -> list[Any]:
    """Set, in place, that help shows no ``<bool>`` beside a flag; return the same parameters."""
    for param in params:
        if isinstance(param, TyperOption) and param.is_flag and param.metavar is None:
            param.metavar = ""
    return params


class CommandGroup(TyperGroup):
    """A group of commands whose help shows its flags by their names."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The flags of the group, as help shows them."""
        return _hide_flag_types(super().get_params(ctx))


def command_group(help_text: str, **commands: Callable[..., None]) -> typer.Typer:
    """Make a group of these commands, by their names, that prints its help where none of them is named."""
    group = typer.Typer(cls=CommandGroup, help=help_text)
    for name, command in commands.items():
        group.command(name)(command)

    @group.callback(invoke_without_command=True)
    def print_help_without_command(context: typer.Context) -> None:
        if context.invoked_subcommand is None:
            typer.echo(context.get_help())

    return group


class Command(TyperCommand):
    """A command that refuses an empty value for any option or argument.

    An empty word is a script's variable that was never set; as a path it would mean the current folder.
    """

    def get_params(self, ctx: Any) -> list[Any]:
        """The flags and arguments, as help shows them."""
        return _hide_flag_types(super().get_params(ctx))

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The words of the usage line: ``[OPTIONS] OLD [NEW...]``."""
        pieces = [self.options_metavar] if self.options_metavar else []
        for argument in self.get_params(ctx):
            if isinstance(argument, TyperArgument):
                name = argument.display_name_raw
                pieces.append(name if argument.required else f"[{name}]")
        return pieces

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words of a command line into the context, and return those that are left over.

        Args:
            ctx: the library's context, of a type that it does not show.
            args: the words after the command.

        Raises:
            UsageError: there is an empty word; the message names it by the word before.
        """
        if not ctx.resilient_parsing:  # as it is while a shell completes a line
            for before, word in zip([ctx.info_name, *args], args, strict=False):
                is_flag_without_value = word.startswith("-") and word.partition("=")[1:] == ("=", "")
                if not word or is_flag_without_value:
                    from mptctl.cli.wrong_usage import command_path

                    shown = word or f"{before} ''"
                    raise UsageError(f"{shown}: is empty; give a value, as {command_path(ctx)} --help says")
        return super().parse_args(ctx, args)


class CommandWithTorch(Command):
    """A command that does nothing without torch, which an installation for the gate alone leaves out."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command, given the library's context.

        Raises:
            ModuleNotFoundError: torch is not installed; said before what else may be missing.
        """
        if importlib.util.find_spec("torch") is None:
            raise ModuleNotFoundError("No module named 'torch'", name="torch")
        return super().invoke(ctx)
