"""JSON that programs read: `evaluate` and `compare` to nine digits, and of trained results every key."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.cases import Case, check
from tests.common import ROOT, CommandLine

KEPT = Path(__file__).parent / "golden"
TRAINING = "--set runtime.device=cpu --set runtime.threads=1 --set optim.max_steps=4"
# Commands whose values are the same on every machine, by the name of what is kept.
VALUES = {
    "evaluate": Case("evaluate old.npz new.npz --metadata meta.parquet --by country --json"),
    "evaluate-gate": Case("evaluate old.npz new.csv --gate gate.yaml --json", 3),
    "evaluate-one": Case("evaluate new.npz --json"),
    "compare": Case(f"compare {ROOT / 'results/demo'} --against no-treatment --json"),
}
# Commands of which the keys are kept, since their numbers are a training's.
KEYS = {
    "split": Case("split photos --run-root new --json"),
    "train-mpt": Case(f"train-mpt --name new {TRAINING} --json"),
    "dry-run": Case(f"train-mpt --name new --dry-run {TRAINING} --json"),
    "adjust": Case("adjust mpt-kl --old old --max-nfr 60 --json"),
    "compare-runs": Case("compare no-treatment mpt-kl --equal-error mpt-kl --json"),
    "choice": Case("compare no-treatment mpt-kl --part val --choose --json"),
    "study-dry-run": Case("study study.yaml --run-root new --parallel 1 --dry-run --json"),
    "pack": Case("pack photos copy --json"),
    "fewshot": Case("fewshot old --way 4 --shot 2 --episodes 20 --json"),
    "runs": Case("runs --json"),
    "recipes": Case("recipes --json"),
}


@pytest.mark.parametrize("name", VALUES)
def test_values(name: str, place: Path, mptctl: CommandLine) -> None:
    compare_with_kept(name, rounded(check(VALUES[name], place, mptctl)))


@pytest.mark.parametrize("name", KEYS)
def test_keys(name: str, place: Path, mptctl: CommandLine) -> None:
    compare_with_kept(f"keys of {name}", keys_of(check(KEYS[name], place, mptctl)))


def compare_with_kept(name: str, value: Any) -> None:
    """Compare a JSON value with the one that is kept; MPTCTL_WRITE_LAYOUTS=1 keeps it, to be looked at."""
    path = KEPT / f"{name.replace(' ', '-')}.json"
    if os.environ.get("MPTCTL_WRITE_LAYOUTS"):
        path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
    assert value == json.loads(path.read_text(encoding="utf-8"))


def rounded(value: Any) -> Any:
    """A JSON value whose numbers have nine digits (those after are the version of SciPy's), without this machine."""
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [rounded(item) for item in value]
    if isinstance(value, str):
        return value.replace(str(ROOT), "ROOT")
    return float(f"{value:.9g}") if isinstance(value, float) else value


def keys_of(value: Any) -> Any:
    """The keys of a JSON value at every depth; of a list, those of its items together."""
    if isinstance(value, dict):
        return {key: keys_of(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        found: dict[str, Any] = {}
        for item in map(keys_of, value):
            found |= item if isinstance(item, dict) else {}
        return [found] if found else []
    return ""
