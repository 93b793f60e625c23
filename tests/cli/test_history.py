"""`mptctl evaluate --append-history` and `mptctl history`, and annotations of a GitHub workflow."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from mptctl.evaluation.gate.history import read_history
from mptctl.report.documents.ci import annotation, render_github
from mptctl.report.documents.wording import verdict_line
from tests.common import CommandLine, Done
from tests.report.examples import HOSTILE, example

IDS = np.arange(200)
LABELS = np.array(["x", "y"] * 100)


@pytest.fixture
def evaluate(tmp_path: Path, mptctl: CommandLine, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    """Compare with a new model that flips so many of 200."""
    monkeypatch.chdir(tmp_path)
    np.savez("old.npz", id=IDS, label=LABELS, pred=LABELS, classes=["x", "y"])

    def run(flips: int, *words: str) -> Done:
        new = np.where(flips > IDS, "z", LABELS)
        np.savez("new.npz", id=IDS, label=LABELS, pred=new, classes=["x", "y", "z"])
        return mptctl("evaluate", "old.npz", "new.npz", *words)

    return run


HISTORY = ("--append-history", "releases.jsonl")


def test_releases_are_added_and_shown(evaluate, mptctl: CommandLine) -> None:  # type: ignore[no-untyped-def]
    first = evaluate(4, *HISTORY, "--json")
    assert (first.returncode, first.stderr) == (0, "added to releases.jsonl\n")
    json.loads(first.stdout)
    # A release that fails is added too.
    assert evaluate(20, *HISTORY, "--max-nfr", "5").returncode == 3
    assert evaluate(8, *HISTORY, "--max-nfr", "5").returncode == 0
    assert evaluate(8, *HISTORY, "--max-nfr", "5", "--confidence", "0.95").returncode == 3
    again = evaluate(8, *HISTORY, "--max-nfr", "5")
    assert again.returncode == 0
    assert "not added, since it is release 3 already: releases.jsonl" in again.stderr
    shown = mptctl("history", "releases.jsonl")
    assert shown.returncode == 0
    assert max(len(line) for line in shown.stdout.splitlines()) <= 80
    verdicts = [line.split()[-1] for line in shown.stdout.splitlines()[1:5]]
    assert verdicts == ["ungated", "failed", "passed", "undecided"]
    assert shown.stdout.endswith("NFR from 2.00 % to 10.00 %.\n")
    page = json.loads(mptctl("history", "releases.jsonl", "--json").stdout)
    assert [each["nfr"] for each in page["releases"]] == pytest.approx([0.02, 0.1, 0.04, 0.04])


def test_other_flips_of_the_same_counts_and_other_tags_are_added(evaluate, mptctl: CommandLine) -> None:  # type: ignore[no-untyped-def]
    """Forty flips of x and y, more than a gallery has; then sample 40 flips instead of 38, both of class x."""
    evaluate(40, *HISTORY)
    flipped = (IDS < 41) & (IDS != 38)
    np.savez("new.npz", id=IDS, label=LABELS, pred=np.where(flipped, "z", LABELS), classes=["x", "y", "z"])
    one, other = "added to releases.jsonl\n", "not added, since it is release {} already: releases.jsonl\n"
    for words, said in (
        ((), one),
        ((), other.format(2)),
        (("--tag", "a"), one),
        (("--tag", "b"), one),
        (("--tag", "a"), other.format(3)),
        ((), other.format(2)),
    ):
        assert mptctl("evaluate", "old.npz", "new.npz", *HISTORY, *words).stderr == said
    releases = read_history(Path("releases.jsonl")).releases
    assert [each.counts.negative_flips for each in releases] == [40] * 4
    assert [each.tag for each in releases[2:]] == ["a", "b"]


COMMAND = re.compile(r"::(error|warning|notice) title=mptctl gate::[^\r\n]+")


def test_annotations_are_one_command_a_line_on_standard_error(evaluate) -> None:  # type: ignore[no-untyped-def]
    done = evaluate(20, "--max-nfr", "5", "--max-lost", "50", "--github", "--json")
    assert done.returncode == 3
    json.loads(done.stdout)
    commands = [line for line in done.stderr.splitlines() if line.startswith("::")]
    assert all(COMMAND.fullmatch(line) for line in commands)
    assert commands[0] == "::error title=mptctl gate::NFR 10.00 %25 exceeds the limit of 5 %25"
    assert commands[-1].startswith(
        "::notice title=mptctl gate::FAILED  NFR 10.00 %25 > limit 5 %25  (20 of 200, 95 %25 interval "
    )
    passed = evaluate(20, "--max-nfr", "11", "--github")
    assert (passed.returncode, passed.stderr.count("::error")) == (0, 0)


def test_a_message_cannot_leave_its_line() -> None:
    line = annotation("error", "50%\r\n::set-output name=x::y, z: a")
    assert line == "::error title=mptctl gate::50%25%0D%0A::set-output name=x::y, z: a"
    assert len(annotation("error", "x" * 10_000)) < 600
    report = example(HOSTILE)
    many = report.model_copy(update={"warnings": [f"{HOSTILE}\n{i}" for i in range(30)]})
    lines = render_github(many, verdict_line(many)).splitlines()
    assert all(COMMAND.fullmatch(line) for line in lines)
    assert sum(line.startswith("::warning") for line in lines) == 10  # as many as GitHub shows
    assert any(line.endswith("::21 more; all of them are in the report") for line in lines)
