"""Draw docs/house.svg, the map of the house: its rooms, floor above floor, and what each one is for."""

from __future__ import annotations

import ast
import textwrap
from html import escape
from pathlib import Path

import networkx

from tools.import_graph import first_file, floors, import_graph, room_graph

TARGET = Path(__file__).parent.parent / "docs" / "house.svg"
# Pixels. A lane is the place that an arrow over several floors takes between the rooms of each.
WIDTH, MARGIN = 900, 16
ROOM_WIDTH, ROOM_HEIGHT, LANE_WIDTH, GAP, RISE = 252, 66, 14, 14, 34
LETTERS_A_LINE, LINES = 39, 3
STYLE = (
    ".paper{fill:#fff}.room{fill:#eef3f8;stroke:#33506b}.name{font:bold 14px sans-serif;fill:#14212e}"
    ".for{font:11px sans-serif;fill:#3c4c5c}text{text-anchor:middle}"
    "path{fill:none;stroke:#7f97ad;stroke-width:1.4;marker-end:url(#tip)}"
)
TIP = (
    '<marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<polygon points="0,0 8,4 0,8" fill="#7f97ad"/></marker>'
)


def draw() -> str:
    """The map as SVG: an arrow points to what is imported; arrows that follow from others are left out."""
    rooms = room_graph(import_graph())
    floor = floors(rooms)
    arrows, floor_of = _with_lanes(networkx.transitive_reduction(rooms), floor)
    top = max(floor.values())
    place: dict[str, tuple[float, float]] = {}  # the middle of the upper edge
    for number, names in _ordered(arrows, floor_of).items():
        widths = [ROOM_WIDTH if name in rooms else LANE_WIDTH for name in names]
        left = (WIDTH - sum(widths) - GAP * (len(names) - 1)) / 2
        for name, width in zip(names, widths, strict=True):
            place[name] = (left + width / 2, MARGIN + (top - number) * (ROOM_HEIGHT + RISE))
            left += width + GAP
    height = 2 * MARGIN + top * (ROOM_HEIGHT + RISE) - RISE
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}"'
        ' role="img" aria-label="Rooms of mptctl; each imports only rooms below it">',
        f"<style>{STYLE}</style><defs>{TIP}</defs>",
        f'<rect class="paper" width="{WIDTH}" height="{height}"/>',
        *(_arrow([place[name] for name in route]) for route in _routes(arrows, rooms)),
        *(_room(name, *place[name]) for name in sorted(rooms)),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _with_lanes(arrows: networkx.DiGraph, floor: dict[str, int]) -> tuple[networkx.DiGraph, dict[str, int]]:
    """Break each arrow over several floors into steps of one; arrows to the same room share their lanes."""
    found, floor_of = networkx.DiGraph(), dict(floor)
    found.add_nodes_from(arrows)
    for above, below in sorted(arrows.edges):
        one = above
        for number in range(floor[above] - 1, floor[below], -1):
            lane = f"to {below} on {number}"
            floor_of[lane] = number
            found.add_edge(one, lane)
            one = lane
        found.add_edge(one, below)
    return found, floor_of


def _ordered(arrows: networkx.DiGraph, floor_of: dict[str, int]) -> dict[int, list[str]]:
    """What stands on each floor from left to right: by turns below, and above, its neighbours; fewest crossings win."""
    rows = {
        n: sorted(name for name in floor_of if floor_of[name] == n) for n in sorted(set(floor_of.values()))
    }
    best = rows
    for turn in range(24):
        near = arrows.predecessors if turn % 2 == 0 else arrows.successors
        for number in sorted(rows, reverse=turn % 2 == 0):
            where = {name: (i + 0.5) / len(row) for row in rows.values() for i, name in enumerate(row)}
            middle = {
                name: sum(where[other] for other in near(name)) / len(list(near(name)))
                if list(near(name))
                else where[name]
                for name in rows[number]
            }
            rows = rows | {number: sorted(rows[number], key=lambda name: (middle[name], name))}
        best = min(best, rows, key=lambda some: _crossings(arrows, some))
    return best


def _crossings(arrows: networkx.DiGraph, rows: dict[int, list[str]]) -> int:
    where = {name: (number, i) for number, row in rows.items() for i, name in enumerate(row)}
    ends = [(*where[one], where[other][1]) for one, other in arrows.edges]
    return sum(n == m and (a - b) * (x - y) < 0 for n, a, x in ends for m, b, y in ends) // 2


def _routes(arrows: networkx.DiGraph, rooms: networkx.DiGraph) -> list[list[str]]:
    """Each arrow as the names that it goes through, from room to room."""
    found = []
    for one, other in sorted(arrows.edges):
        if one in rooms:
            route = [one, other]
            while route[-1] not in rooms:
                route += arrows.successors(route[-1])
            found.append(route)
    return found


def _arrow(points: list[tuple[float, float]]) -> str:
    (x, y), *lanes, (u, v) = points
    path = f"M{x:.0f} {y + ROOM_HEIGHT:.0f}"
    for lane, upper in lanes:
        path += f" L{lane:.0f} {upper:.0f} V{upper + ROOM_HEIGHT:.0f}"
    return f'<path d="{path} L{u:.0f} {v:.0f}"/>'


def _room(name: str, x: float, y: float) -> str:
    sentence = (ast.get_docstring(ast.parse(first_file(name).read_text(encoding="utf-8"))) or "").split(". ")[
        0
    ]
    purpose = textwrap.wrap(
        sentence.splitlines()[0].rstrip("."), LETTERS_A_LINE, max_lines=LINES, placeholder=" ..."
    )
    words = "".join(
        f'<text class="for" x="{x:.0f}" y="{y + 32 + 13 * i:.0f}">{escape(line)}</text>'
        for i, line in enumerate(purpose)
    )
    return (
        f'<rect class="room" x="{x - ROOM_WIDTH / 2:.0f}" y="{y:.0f}" width="{ROOM_WIDTH}" height="{ROOM_HEIGHT}"'
        f' rx="5"/><text class="name" x="{x:.0f}" y="{y + 17:.0f}">{escape(name)}</text>{words}'
    )


if __name__ == "__main__":
    TARGET.write_text(draw(), encoding="utf-8")
