"""Draw docs/house.svg, the map of the code: its rooms, floor above floor, and what each one is for."""

from __future__ import annotations

import ast
import textwrap
from html import escape
from itertools import combinations
from pathlib import Path

import networkx

from tools.import_graph import first_file, floors, import_graph, room_graph

TARGET = Path(__file__).parent.parent / "docs" / "house.svg"
# Pixels. An arrow over several floors passes each of them in a lane between its rooms.
WIDTH, MARGIN = 900, 16
ROOM_WIDTH, ROOM_HEIGHT, LANE_WIDTH, GAP, RISE = 252, 66, 14, 14, 34
# Of the sentence in a room, at most.
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
    """Return the map as SVG: an arrow points to an imported room; arrows implied by others are left out."""
    rooms = room_graph(import_graph())
    floor_of_room = floors(rooms)
    arrows, floor_of = _with_lanes(networkx.transitive_reduction(rooms), floor_of_room)
    top = max(floor_of_room.values())
    upper_middle: dict[str, tuple[float, float]] = {}  # x and y of the middle of the upper edge
    for floor, names in _order_floors(arrows, floor_of).items():
        widths = [ROOM_WIDTH if name in rooms else LANE_WIDTH for name in names]
        left = (WIDTH - sum(widths) - GAP * (len(names) - 1)) / 2
        for name, width in zip(names, widths, strict=True):
            upper_middle[name] = (left + width / 2, MARGIN + (top - floor) * (ROOM_HEIGHT + RISE))
            left += width + GAP
    height = 2 * MARGIN + top * (ROOM_HEIGHT + RISE) - RISE
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}"'
        ' role="img" aria-label="Rooms of mptctl; each imports only rooms below it">',
        f"<style>{STYLE}</style><defs>{TIP}</defs>",
        f'<rect class="paper" width="{WIDTH}" height="{height}"/>',
        *(_arrow_svg([upper_middle[name] for name in route]) for route in _routes(arrows, rooms)),
        *(_room_svg(name, *upper_middle[name]) for name in sorted(rooms)),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _with_lanes(arrows: networkx.DiGraph, floor: dict[str, int]) -> tuple[networkx.DiGraph, dict[str, int]]:
    """Break each arrow over several floors into arrows from one floor to the next, by way of lanes.

    Args:
        arrows: from each room to rooms below it.
        floor: of each room.

    Returns:
        The arrows between rooms and lanes, and the floor of each room and lane. Arrows to the same room share
        their lanes.
    """
    steps, floor_of = networkx.DiGraph(), dict(floor)
    steps.add_nodes_from(arrows)
    for above, below in sorted(arrows.edges):
        start = above
        for floor_between in range(floor[above] - 1, floor[below], -1):
            lane = f"to {below} on {floor_between}"
            floor_of[lane] = floor_between
            steps.add_edge(start, lane)
            start = lane
        steps.add_edge(start, below)
    return steps, floor_of


def _order_floors(arrows: networkx.DiGraph, floor_of: dict[str, int]) -> dict[int, list[str]]:
    """Order the rooms and lanes of each floor from left to right so that few arrows cross.

    Each is moved towards the mean place of its neighbours, by turns those above and those below. The order
    with the fewest crossings of 24 turns is returned, by floor.
    """
    rows = {
        floor: sorted(name for name in floor_of if floor_of[name] == floor)
        for floor in sorted(set(floor_of.values()))
    }
    best = rows
    for turn in range(24):
        neighbours_of = arrows.predecessors if turn % 2 == 0 else arrows.successors
        for floor in sorted(rows, reverse=turn % 2 == 0):
            place = {name: (i + 0.5) / len(row) for row in rows.values() for i, name in enumerate(row)}
            wanted_place = {}
            for name in rows[floor]:
                neighbours = list(neighbours_of(name)) or [name]
                wanted_place[name] = sum(place[other] for other in neighbours) / len(neighbours)
            in_order = sorted(rows[floor], key=lambda name: (wanted_place[name], name))
            rows = rows | {floor: in_order}
        if _count_crossings(arrows, rows) < _count_crossings(arrows, best):
            best = rows
    return best


def _count_crossings(arrows: networkx.DiGraph, rows: dict[int, list[str]]) -> int:
    """Count the pairs of arrows that cross, between any floor and the next.

    Args:
        arrows: from one floor to the next.
        rows: names from left to right, by floor.
    """
    floor_and_place = {name: (floor, i) for floor, row in rows.items() for i, name in enumerate(row)}
    crossings = 0
    for (start, end), (other_start, other_end) in combinations(arrows.edges, 2):
        floor, x = floor_and_place[start]
        other_floor, other_x = floor_and_place[other_start]
        offset_above = x - other_x
        offset_below = floor_and_place[end][1] - floor_and_place[other_end][1]
        crossings += floor == other_floor and offset_above * offset_below < 0
    return crossings


def _routes(arrows: networkx.DiGraph, rooms: networkx.DiGraph) -> list[list[str]]:
    """Each arrow from room to room as a list of names: the room, the lanes in between, the other room."""
    routes = []
    for start, step in sorted(arrows.edges):
        if start in rooms:
            route = [start, step]
            while route[-1] not in rooms:
                route += arrows.successors(route[-1])
            routes.append(route)
    return routes


def _arrow_svg(points: list[tuple[float, float]]) -> str:
    """The path of an arrow.

    Args:
        points: (x, y) of the upper middles of a room, of the lanes that the arrow passes, and of a room.
    """
    (start_x, start_y), *lanes, (end_x, end_y) = points
    path = f"M{start_x:.0f} {start_y + ROOM_HEIGHT:.0f}"
    for lane_x, lane_y in lanes:
        path += f" L{lane_x:.0f} {lane_y:.0f} V{lane_y + ROOM_HEIGHT:.0f}"
    return f'<path d="{path} L{end_x:.0f} {end_y:.0f}"/>'


def _room_svg(name: str, x: float, y: float) -> str:
    """The box of a room, with its name and the first sentence of its first file.

    Args:
        name: of the room.
        x: middle of the box.
        y: upper edge of the box.
    """
    docstring = ast.get_docstring(ast.parse(first_file(name).read_text(encoding="utf-8"))) or ""
    sentence = docstring.split(". ")[0].splitlines()[0].rstrip(".")
    purpose = textwrap.wrap(sentence, LETTERS_A_LINE, max_lines=LINES, placeholder=" ...")
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
