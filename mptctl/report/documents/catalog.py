"""Presets and studies as a list, and one of them as the YAML that a file of one's own can begin with."""

from __future__ import annotations

from collections.abc import Sequence

import yaml
from rich.console import Console
from rich.text import Text

from mptctl.report.media.tables import make_table
from mptctl.studies.catalog import CatalogEntry


def print_catalog(entries: Sequence[CatalogEntry], console: Console) -> None:
    """Print one line each; in a terminal what is longer than a line is wrapped below itself."""
    if not console.is_terminal:
        width = max(len(entry.name) for entry in entries)
        for entry in entries:
            line = f"{entry.name:<{width}}  {entry.kind:<6}  {entry.description}"
            console.print(line, highlight=False, markup=False, soft_wrap=True)
        return
    table = make_table(console, "name", "kind", "what it is", left=("kind", "what it is"))
    for entry in entries:
        table.add_row(entry.name, entry.kind, Text(entry.description))
    console.print(table)


def catalog_yaml(entries: Sequence[CatalogEntry]) -> str:
    """What stands behind a name, as one YAML document each."""
    documents = (
        f"# {entry.kind} {entry.name}: {entry.description}\n{yaml.safe_dump(entry.content, sort_keys=False)}"
        for entry in entries
    )
    return "---\n".join(documents)
