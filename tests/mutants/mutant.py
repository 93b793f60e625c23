"""A mutant, and the table that lists them: a function, an expression in it, and what stands there instead."""

from __future__ import annotations

import ast
import csv
import importlib
import inspect
import textwrap
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType
from typing import Any

import mptctl

TABLE = Path(__file__).parent / "mutants.tsv"
PACKAGE = Path(mptctl.__file__).parent


@dataclass(frozen=True)
class Mutant:
    """One wrong expression.

    Attributes:
        name: as the table and the report call it.
        function: ``function`` or ``Class.method``; the only one of this name in the package, so that a move of its
            file needs no change here.
        expression: text that stands once in the function.
        instead: text that the mutant has there.
        tests: files or folders, below ``tests``, of which one test at least must fail.
    """

    name: str
    function: str
    expression: str
    instead: str
    tests: tuple[str, ...]

    def install(self) -> None:
        """Give the function the wrong code, for all who have imported it.

        Raises:
            LookupError: no function, or several, of this name, or not one such expression in it.
        """
        path, definition = self._find()
        source = textwrap.dedent(_without_decorators(path.read_text(encoding="utf-8"), definition))
        if source.count(self.expression) != 1:
            raise LookupError(
                f"{self.name}: {self.expression!r} stands {source.count(self.expression)} times in {self.function}"
            )
        module = importlib.import_module(
            ".".join((PACKAGE.name, *path.relative_to(PACKAGE).with_suffix("").parts))
        )
        made: dict[str, Any] = {}
        # Annotations stay text, as in every file of the package.
        text = "from __future__ import annotations\n" + source.replace(self.expression, self.instead)
        exec(compile(text, str(path), "exec"), module.__dict__, made)
        _function(module, self.function).__code__ = made[definition.name].__code__

    def _find(self) -> tuple[Path, ast.FunctionDef]:
        """The file and the definition of the function."""
        found = [
            (path, definition)
            for path in sorted(PACKAGE.rglob("*.py"))
            if f"def {self.function.rpartition('.')[2]}(" in (text := path.read_text(encoding="utf-8"))
            for name, definition in _functions(ast.parse(text).body)
            if name == self.function
        ]
        if len(found) != 1:
            raise LookupError(f"{self.name}: {len(found)} functions are called {self.function}")
        return found[0]


def read_mutants() -> list[Mutant]:
    """All mutants of the table, in its order."""
    with TABLE.open(encoding="utf-8", newline="") as file:
        return [
            Mutant(
                row["name"], row["function"], row["expression"], row["instead"], tuple(row["tests"].split())
            )
            for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        ]


def _functions(body: list[ast.stmt], owner: str = "") -> list[tuple[str, ast.FunctionDef]]:
    found: list[tuple[str, ast.FunctionDef]] = []
    for statement in body:
        if isinstance(statement, ast.ClassDef):
            found += _functions(statement.body, f"{statement.name}.")
        elif isinstance(statement, ast.FunctionDef):
            found.append((owner + statement.name, statement))
    return found


def _without_decorators(text: str, definition: ast.FunctionDef) -> str:
    return "\n".join(text.splitlines()[definition.lineno - 1 : definition.end_lineno])


def _function(module: Any, name: str) -> FunctionType:
    owner, _, last = name.rpartition(".")
    found = vars(getattr(module, owner) if owner else module)[last]
    for attribute in ("fget", "func", "__func__"):  # of a property, a cached property, a class method
        found = getattr(found, attribute, found)
    function = inspect.unwrap(found)
    if not isinstance(function, FunctionType):
        raise LookupError(f"{name} is no function")
    return function
