"""`mptctl recipes`: list presets and studies, or show one of them."""

from __future__ import annotations

import typer

from mptctl.cli.show import show, show_document
from mptctl.report.documents.lists import catalog_yaml
from mptctl.studies.catalog import Catalog, catalog, find_in_catalog
from mptctl.studies.requests import CatalogRequest


def show_recipes(asked: CatalogRequest) -> None:
    """List presets and studies, or show one of them."""
    entries = catalog() if asked.name is None else find_in_catalog(asked.name)
    view = _print_list if asked.name is None else _print_yaml
    show(Catalog(recipes=entries), view, as_json=asked.as_json)


def _print_list(content: Catalog) -> None:
    """Print the names, kinds and descriptions of presets and studies."""
    show_document(content.recipes, "lists:catalog_document")


def _print_yaml(content: Catalog) -> None:
    """Print all keys of a preset or a study as YAML."""
    typer.echo(catalog_yaml(content.recipes), nl=False)
