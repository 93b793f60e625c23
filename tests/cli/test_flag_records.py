"""Records of flags: each field is a flag, in its place, and the verb gets the record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer
from typer.testing import CliRunner

from mptctl.cli.flag_records import percent, with_flags


@dataclass(frozen=True)
class Inner:
    limit: Annotated[float | None, percent("--limit", "A limit.", high=None)] = None


@dataclass(frozen=True, kw_only=True)
class Outer:
    first: Annotated[str, typer.Option("--first")]
    inner: Inner
    last: Annotated[int, typer.Option("--last")] = 3


taken: list[tuple[str, Outer, bool]] = []
app = typer.Typer(pretty_exceptions_enable=False)


@app.command()
@with_flags
def verb(
    name: Annotated[str, typer.Argument()],
    *,
    outer: Outer,
    loud: Annotated[bool, typer.Option("--loud")] = False,
) -> None:
    """Take a record in a record."""
    taken.append((name, outer, loud))


def test_fields_are_flags_in_their_places_and_come_back_as_records() -> None:
    command = typer.main.get_command(app)
    assert [param.name for param in command.params][:5] == ["name", "first", "limit", "last", "loud"]
    assert command.help == "Take a record in a record."
    done = CliRunner().invoke(app, ["x", "--first", "a", "--limit", "120", "--loud"])
    assert done.exit_code == 0, done.output
    assert taken == [("x", Outer(first="a", inner=Inner(120.0), last=3), True)]


def test_a_field_without_a_default_must_be_given_and_bounds_hold() -> None:
    assert CliRunner().invoke(app, ["x"]).exit_code == 2
    assert CliRunner().invoke(app, ["x", "--first", "a", "--limit", "-1"]).exit_code == 2
