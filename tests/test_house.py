"""The house: which rooms there are, which floor they are on, and that no import goes up or in a circle."""

from __future__ import annotations

import ast
from pathlib import Path

import networkx
import pytest

from tools.draw_house import TARGET, draw
from tools.import_graph import PACKAGES, circles, floors, import_graph, room_graph

# At most: the 18 rooms of the house's plan, and with them `release` and `integrations`.
ROOMS, FLOORS, LINES, WIDTH, FILES = 20, 9, 400, 110, 25


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


def test_the_map_of_the_house_is_not_stale() -> None:
    assert Path(TARGET).read_text(encoding="utf-8") == draw(), "run: make docs"
