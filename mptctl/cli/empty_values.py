"""An empty name on a command line is refused: as a path it would mean the current folder, which nobody asked for."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand, TyperOption

from mptctl.errors import UsageError


class Verb(TyperCommand):
    """A verb that takes no empty value, such as a script's variable that was never set, for any option or argument."""

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
    """Whether what was given is an empty word, or has one among several."""
    return "" in value if isinstance(value, list | tuple) else bool(value == "")
