"""`mptctl recipes`: list presets and studies, or show one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from mptctl.cli import options as opt
from mptctl.cli.json_models import prints
from mptctl.cli.show import show, show_document

if TYPE_CHECKING:
    from mptctl.studies.catalog import Catalog


@prints({"--json": "mptctl.studies.catalog:Catalog"})
def recipes(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Show all keys of this one.", show_default=False)
    ] = None,
    as_json: opt.Json = False,
) -> None:
    """List presets and studies, or show one of them.

    Presets are taken by `--recipe`, studies by `mptctl study`.

    Examples:

        mptctl recipes

        mptctl recipes cifar100
    """
    from mptctl.studies.catalog import Catalog, catalog, find_in_catalog

    entries = catalog() if name is None else find_in_catalog(name)
    show(Catalog(recipes=entries), _print_list if name is None else _print_yaml, as_json=as_json)


def _print_list(content: Catalog) -> None:
    """Print the names, kinds and descriptions of presets and studies."""
    show_document(content.recipes, "lists:catalog_document")


def _print_yaml(content: Catalog) -> None:
    """Print all keys of a preset or a study as YAML."""
    from mptctl.report.documents.lists import catalog_yaml

    typer.echo(catalog_yaml(content.recipes), nl=False)
