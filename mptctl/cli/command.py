"""The classes of commands: how help shows their flags, and that no empty word is taken for a value."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from mptctl.errors import UsageError


def _without_flag_types(params: list[Any]) -> list[Any]:
    """Has help show a flag by its name alone; typer writes ``<bool>`` beside it."""
    for param in params:
        if isinstance(param, TyperOption) and param.is_flag and param.metavar is None:
            param.metavar = ""
    return params


class CommandGroup(TyperGroup):
    """A group of commands whose help shows its flags by their names."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The flags of the group, as help shows them."""
        return _without_flag_types(super().get_params(ctx))


def command_group(help_text: str) -> typer.Typer:
    """A group of verbs; without one of them it prints its help."""
    group = typer.Typer(cls=CommandGroup, help=help_text)

    @group.callback(invoke_without_command=True)
    def without_verb(context: typer.Context) -> None:
        if context.invoked_subcommand is None:
            typer.echo(context.get_help())

    return group


class Command(TyperCommand):
    """A command that refuses an empty value for any option or argument.

    An empty word is a script's variable that was never set; as a path it would mean the current folder.
    """

    def get_params(self, ctx: Any) -> list[Any]:
        """The flags and arguments, as help shows them."""
        return _without_flag_types(super().get_params(ctx))

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The words of the usage line: ``[OPTIONS] OLD [NEW...]``."""
        pieces = [self.options_metavar] if self.options_metavar else []
        for argument in self.get_params(ctx):
            if isinstance(argument, TyperArgument):
                name = argument.display_name_raw
                pieces.append(name if argument.required else f"[{name}]")
        return pieces

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words of a command line.

        Args:
            ctx: the library's context, of a type that it does not show.
            args: the words after the verb.

        Raises:
            UsageError: one of them is empty; the option or argument that it was given to is named.
        """
        words = list(args)  # reading takes them out of the list
        rest = super().parse_args(ctx, args)
        # As they were given: a path has made `.` of an empty word.
        given = self.make_parser(ctx).parse_args(words)[0]
        params: list[Any] = [] if ctx.resilient_parsing else self.get_params(ctx)
        for param in params:
            if _is_empty(given.get(param.name)):
                from mptctl.cli.wrong_usage import path_of

                metavar = param.metavar if isinstance(param, TyperOption) and param.metavar else "value"
                # Dots say that there may be several.
                name = param.get_error_hint().strip("'").removesuffix("...")
                raise UsageError(f"{name}: is empty; give a {metavar}, as {path_of(ctx)} --help says")
        return rest


def _is_empty(value: Any) -> bool:
    """Tells whether a given value is an empty word, or a list with one in it."""
    return "" in value if isinstance(value, list | tuple) else bool(value == "")
