"""Tables in a terminal hold the numbers that `--json` has."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.cases import Case, check
from tests.acceptance.test_release import EPISODES
from tests.common import CommandLine

SHOWN: dict[str, Callable[[dict[str, Any]], list[str]]] = {
    "runs": lambda page: [
        f"{run['run']} {run['method']} finished {100 * run['val_error']:.1f} %" for run in page["runs"]
    ],
    EPISODES: lambda page: [
        f"{page['episodes']} episodes of {page['way']} out of 5 novel classes, {page['shot']} shot",
        f"fitted linear head {100 * page['accuracy']:.2f} % ± {100 * page['ci95']:.2f} points",
        f"nearest centroid {100 * page['centroid']['accuracy']:.2f} %",
    ],
    "history h.jsonl": lambda page: [
        f"{release['new']} {release['counts']['negative_flips']} / {release['n_old']} {100 * release['nfr']:.2f} % "
        f"{100 * release['nfr_ci95'][0]:.1f} to {100 * release['nfr_ci95'][1]:.1f} % {100 * release['lost']:.1f} % "
        f"{100 * release['er_new']:.1f} % ungated"
        for release in page["releases"]
    ],
    "study study.yaml --run-root new --parallel 1 --dry-run": lambda page: [
        *(f"{run['seed']}/{run['run']} {run['method']} no {run['steps']} " for run in page["runs"]),
        "4 of 4 runs are left, 1 at a time on cpu",
    ],
    "doctor": lambda page: [f"{each['name']} {each['state']} {each['found']}" for each in page["checks"]],
}


@pytest.mark.parametrize("line", SHOWN)
def test_what_is_shown_is_what_json_says(
    line: str, place: Path, mptctl: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    if "h.jsonl" in line:
        check(Case("evaluate old.npz new.npz --append-history h.jsonl"), place, mptctl)
    wanted = SHOWN[line](check(Case(f"{line} --json"), place, mptctl))
    shown = " ".join(mptctl(*line.split()).stdout.split())
    assert [text for text in wanted if " ".join(text.split()) not in shown] == [], shown
