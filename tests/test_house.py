"""The house: which rooms there are, which floor they are on, and that no import goes up or in a circle."""

from __future__ import annotations

import ast

import grimp
import networkx
import pytest

from tests.common import ROOT

# At most: the 18 rooms of the house's plan, and with them `release` and `integrations`.
ROOMS, FLOORS, LINES, WIDTH, FILES = 20, 9, 400, 110, 25
# Folder of each package.
PACKAGES = {
    "mptctl": ROOT / "mptctl",
    "mpt_kernels": ROOT / "kernels" / "mpt_kernels",
}


def import_graph() -> networkx.DiGraph:
    """The graph of modules, each with an edge to every module that it imports.

    Imports inside functions and for type checkers count too.
    """
    imports = grimp.build_graph(*PACKAGES, cache_dir=None)
    graph = networkx.DiGraph()
    graph.add_nodes_from(imports.modules)
    for module in imports.modules:
        graph.add_edges_from((module, other) for other in imports.find_modules_directly_imported_by(module))
    return graph


def room_graph(modules: networkx.DiGraph) -> networkx.DiGraph:
    """The graph of rooms, each with an edge to every other room that one of its modules imports from.

    Rooms are the folders and files right below mptctl, and the kernels. The modules `mptctl` and
    `mptctl.__main__` are in no room and left out.
    """
    rooms = networkx.DiGraph()
    inside = [module for module in modules if module not in ("mptctl", "mptctl.__main__")]
    rooms.add_nodes_from(_room(module) for module in inside)
    for module, imported in modules.edges:
        if module in inside and imported in inside and _room(module) != _room(imported):
            rooms.add_edge(_room(module), _room(imported))
    return rooms


def circles(graph: networkx.DiGraph) -> list[list[str]]:
    """Groups of two or more nodes that import each other, directly or by way of others; sorted."""
    return sorted(sorted(group) for group in networkx.strongly_connected_components(graph) if len(group) > 1)


def floors(rooms: networkx.DiGraph) -> dict[str, int]:
    """The floor of each room: 1 if it imports no room, else one above the highest room that it imports.

    Raises:
        networkx.NetworkXUnfeasible: the graph has a circle.
    """
    floor: dict[str, int] = {}
    for room in reversed(list(networkx.topological_sort(rooms))):
        floor[room] = 1 + max((floor[below] for below in rooms.successors(room)), default=0)
    return floor


def _room(module: str) -> str:
    """The room of a module: the name after ``mptctl.``, or ``kernels``."""
    package, _, inside_package = module.partition(".")
    return "kernels" if package == "mpt_kernels" else inside_package.partition(".")[0]


@pytest.fixture(scope="module")
def modules() -> networkx.DiGraph:
    return import_graph()


def test_no_file_and_no_room_imports_in_a_circle(modules: networkx.DiGraph) -> None:
    assert circles(modules) == []
    assert circles(room_graph(modules)) == []


def test_the_house_is_no_larger_and_no_taller(modules: networkx.DiGraph) -> None:
    rooms = room_graph(modules)
    assert len(rooms) <= ROOMS, sorted(rooms)
    assert max(floors(rooms).values()) <= FLOORS, floors(rooms)


def test_a_circle_is_found_and_a_floor_is_counted() -> None:
    graph = networkx.DiGraph([("cli", "report"), ("report", "errors"), ("cli", "errors")])
    assert circles(graph) == []
    assert floors(graph) == {"errors": 1, "report": 2, "cli": 3}
    graph.add_edge("errors", "report")
    assert circles(graph) == [["errors", "report"]]


@pytest.mark.parametrize("package", PACKAGES)
def test_every_file_says_what_it_is_for_and_is_short(package: str) -> None:
    for path in sorted(PACKAGES[package].rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        assert ast.get_docstring(ast.parse(text)), path
        assert text.count("\n") <= LINES, path
        assert max(map(len, text.splitlines())) <= WIDTH, path
        assert path.stem not in ("utils", "helpers", "misc"), path


def test_no_folder_is_larger_than_one_looks_through() -> None:
    for folder in (path for path in PACKAGES["mptctl"].rglob("*") if path.is_dir()):
        if folder.name != "cli":  # a file for each verb
            assert len(list(folder.glob("*.py"))) <= FILES, folder
