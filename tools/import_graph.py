"""The import graph of the two packages: rooms (files and folders right below a package), floors and circles."""

from __future__ import annotations

from pathlib import Path

import grimp
import networkx

# Where the code of each package lies.
PACKAGES = {
    "mptctl": Path(__file__).parent.parent / "mptctl",
    "mpt_kernels": Path(__file__).parent.parent / "kernels" / "mpt_kernels",
}


def import_graph() -> networkx.DiGraph:
    """Every module, with an edge to each one that it imports, lazily and for type checkers alone included."""
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    found = networkx.DiGraph()
    found.add_nodes_from(graph.modules)
    for module in graph.modules:
        found.add_edges_from((module, other) for other in graph.find_modules_directly_imported_by(module))
    return found


def room_graph(modules: networkx.DiGraph) -> networkx.DiGraph:
    """The same with one node for each room; an edge where any of its files imports any of the other's.

    What lies right below mptctl is a room, and so are the kernels. The package itself and `python -m mptctl` are doors.
    """
    found = networkx.DiGraph()
    inside = [module for module in modules if module not in ("mptctl", "mptctl.__main__")]
    found.add_nodes_from(_room(module) for module in inside)
    for one, other in modules.edges:
        if one in inside and other in inside and _room(one) != _room(other):
            found.add_edge(_room(one), _room(other))
    return found


def circles(graph: networkx.DiGraph) -> list[list[str]]:
    """Groups of nodes that import each other, directly or by way of others."""
    return sorted(sorted(group) for group in networkx.strongly_connected_components(graph) if len(group) > 1)


def floors(rooms: networkx.DiGraph) -> dict[str, int]:
    """Floor of each room, counted from 1: one above the highest room that it imports.

    Raises:
        networkx.NetworkXUnfeasible: the graph has a circle.
    """
    floor: dict[str, int] = {}
    for room in reversed(list(networkx.topological_sort(rooms))):
        floor[room] = 1 + max((floor[below] for below in rooms.successors(room)), default=0)
    return floor


def first_file(room: str) -> Path:
    """The file whose first line says what a room is for."""
    if room == "kernels":
        return PACKAGES["mpt_kernels"] / "__init__.py"
    folder = PACKAGES["mptctl"] / room
    return folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")


def _room(module: str) -> str:
    package, _, rest = module.partition(".")
    return "kernels" if package == "mpt_kernels" else rest.partition(".")[0]
