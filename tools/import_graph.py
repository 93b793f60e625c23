"""The import graph of the two packages: rooms (files and folders right below a package), floors and circles."""

from __future__ import annotations

import grimp
import networkx

PACKAGES = ("mptctl", "mpt_kernels")


def files() -> networkx.DiGraph:
    """Every module, with an edge to each one that it imports, lazily and for type checkers alone included."""
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    found = networkx.DiGraph()
    found.add_nodes_from(graph.modules)
    for module in graph.modules:
        found.add_edges_from((module, other) for other in graph.find_modules_directly_imported_by(module))
    return found


def rooms(modules: networkx.DiGraph) -> networkx.DiGraph:
    """The same with one node for each room; an edge where any of its files imports any of the other's."""
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


def floors(graph: networkx.DiGraph) -> dict[str, int]:
    """Floor of each room, counted from 1: one above the highest room that it imports.

    Raises:
        networkx.NetworkXUnfeasible: the graph has a circle.
    """
    floor: dict[str, int] = {}
    for node in reversed(list(networkx.topological_sort(graph))):
        floor[node] = 1 + max((floor[below] for below in graph.successors(node)), default=0)
    return floor


def _room(module: str) -> str:
    package, _, rest = module.partition(".")
    return "kernels" if package == "mpt_kernels" else rest.partition(".")[0]
