"""`mptctl recipes`: list presets and studies, or show one of them."""

from __future__ import annotations

from mptctl.cli.show import show
from mptctl.report.documents.lists import catalog_document, catalog_yaml
from mptctl.studies.catalog import Catalog, catalog, find_in_catalog
from mptctl.studies.requests import CatalogRequest


def show_recipes(asked: CatalogRequest) -> None:
    """List presets and studies, or show all keys of one of them as YAML."""
    if asked.name is None:
        show(Catalog(recipes=catalog()), catalog_document, as_json=asked.as_json)
        return
    found = Catalog(recipes=find_in_catalog(asked.name))
    show(found, lambda found: catalog_yaml(found.recipes), as_json=asked.as_json)
