"""Build the import graph of both packages, and find its rooms, floors and circles."""

from __future__ import annotations

from pathlib import Path

import grimp
import networkx

# Folder of each package.
PACKAGES = {
    "mptctl": Path(__file__).parent.parent / "mptctl",
    "mpt_kernels": Path(__file__).parent.parent / "kernels" / "mpt_kernels",
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


def first_file(room: str) -> Path:
    """The file whose docstring says what a room is for: its ``__init__.py``, or the room itself if it is a file."""
    if room == "kernels":
        return PACKAGES["mpt_kernels"] / "__init__.py"
    folder = PACKAGES["mptctl"] / room
    return folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")


def _room(module: str) -> str:
    """The room of a module: the name after ``mptctl.``, or ``kernels``."""
    package, _, inside_package = module.partition(".")
    return "kernels" if package == "mpt_kernels" else inside_package.partition(".")[0]
