"""Every difference of two folders that `python -m tests.same write` wrote."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Ends of ways to values that differ from one run to the next: times, memory, and the digest of a file that holds times.
CHANGING = ("when", "seconds", "step_seconds", "teacher_seconds", "seconds_features", "free_mb", "pack.json")


def differences(one: Path, other: Path) -> Iterator[str]:
    """Yield a line for each value that differs, or stands in one of the folders alone; they are JSON files."""
    names = sorted({path.name for folder in (one, other) for path in folder.glob("*.json")})
    if not names:
        yield f"{one} and {other}: no JSON files in either"
    for name in names:
        first, second = (_values(folder / name) for folder in (one, other))
        for key in dict.fromkeys([*first, *second]):
            if key not in second:
                yield f"{name}: {key}: {first[key]} -> (nothing)"
            elif key not in first:
                yield f"{name}: {key}: (nothing) -> {second[key]}"
            elif first[key] != second[key]:
                yield f"{name}: {key}: {first[key]} -> {second[key]}"


def _values(path: Path) -> dict[str, str]:
    """Each value of a JSON file by the way to it; no values where there is no file."""
    if not path.exists():
        return {}
    return dict(_flatten(json.loads(path.read_text(encoding="utf-8")), ""))


def _flatten(value: Any, way: str) -> Iterator[tuple[str, str]]:
    """Yield the way to each value below this one, and the value as JSON; empty lists and objects are values."""
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _flatten(item, f"{way}.{key}" if way else key)
    elif isinstance(value, list) and value:
        for number, item in enumerate(value):
            yield from _flatten(item, f"{way}[{number}]")
    elif not way.endswith(CHANGING):
        yield way, json.dumps(value)
