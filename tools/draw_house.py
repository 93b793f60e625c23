"""Draw docs/house.svg, the map of the house. With `--check`, only say whether that file is stale."""

from __future__ import annotations

import sys
from pathlib import Path

import networkx
from import_graph import files, floors, rooms

TARGET = Path(__file__).parent.parent / "docs" / "house.svg"
# Pixels: width and height of a room, and the gaps between rooms of one floor and between floors.
WIDTH, HEIGHT, GAP, RISE = 118, 34, 26, 52


def draw() -> str:
    """The map as SVG: who stands higher imports who stands lower; arrows that follow from others are left out."""
    graph = rooms(files())
    floor = floors(graph)
    top = max(floor.values())
    by_floor = {n: sorted(room for room in graph if floor[room] == n) for n in range(1, top + 1)}
    widest = max(len(names) for names in by_floor.values())
    full = widest * (WIDTH + GAP) + GAP
    place: dict[str, tuple[float, float]] = {}
    for n, names in by_floor.items():
        left = (full - len(names) * (WIDTH + GAP) + GAP) / 2
        for i, name in enumerate(names):
            place[name] = (left + i * (WIDTH + GAP), (top - n) * (HEIGHT + RISE) + 20)
    lines = [
        f'<line x1="{x + WIDTH / 2:.0f}" y1="{y + HEIGHT:.0f}" x2="{u + WIDTH / 2:.0f}" y2="{v:.0f}"/>'
        for one, other in sorted(networkx.transitive_reduction(graph).edges)
        for (x, y), (u, v) in [(place[one], place[other])]
    ]
    boxes = [
        f'<g><rect x="{x:.0f}" y="{y:.0f}" width="{WIDTH}" height="{HEIGHT}" rx="5"/>'
        f'<text x="{x + WIDTH / 2:.0f}" y="{y + 22:.0f}">{name}</text></g>'
        for name, (x, y) in sorted(place.items())
    ]
    height = top * (HEIGHT + RISE) - RISE + 40
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {full} {height}" role="img"'
            f' aria-label="Rooms of mptctl; each imports only rooms below it">',
            "<style>rect{fill:#eef3f8;stroke:#33506b}text{font:14px sans-serif;text-anchor:middle;fill:#14212e}"
            "line{stroke:#8aa0b4;stroke-width:1.2}svg{background:#fff}</style>",
            *lines,
            *boxes,
            "</svg>",
            "",
        ]
    )


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(0 if TARGET.read_text(encoding="utf-8") == draw() else f"{TARGET.name} is stale: make docs")
    TARGET.write_text(draw(), encoding="utf-8")
