"""`mptctl recipes`: the presets and studies that can be named."""

from __future__ import annotations

from typing import Annotated

import typer

from mptctl.cli import options as opt
from mptctl.cli.json_models import prints


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

    found = catalog() if name is None else find_in_catalog(name)
    if as_json:
        typer.echo(Catalog(recipes=found).model_dump_json())
        return
    from rich.console import Console

    from mptctl.report.documents.lists import catalog_yaml, print_catalog

    if name is None:
        print_catalog(found, Console())
    else:
        typer.echo(catalog_yaml(found), nl=False)
