"""`mptctl evaluate OLD NEW1 NEW2 ...`: each as if it were evaluated alone, one table, one verdict each."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from mptctl.data.split import make_split
from mptctl.inference.named_models import load_updates
from mptctl.names import Session
from tests.cli.conftest import IDS, LABELS, OLD, Call
from tests.common import Done
from tests.untrained import untrained_run

# No flip and one positive one; of the new class one of two is right.
BETTER = np.array([0, 0, 0, 0, 1, 1, 2, 0])


@pytest.fixture
def evaluate(call: Call) -> Call:
    """`mptctl evaluate` beside old.npz, new.npz with two flips, and better.npz with none."""
    np.savez("better.npz", id=IDS, label=LABELS, pred=BETTER, classes=[0, 1, 2])
    return call


def reports(done: Done) -> list[dict]:
    page = json.loads(done.stdout)
    assert list(page) == ["reports"]
    return page["reports"]


def test_counts_by_hand_and_each_report_is_that_of_the_model_alone(evaluate: Call) -> None:
    more = ("--max-nfr", "50", "--by", "class", "--min-slice", "1", "--json")
    done = evaluate("old.npz", "new.npz", "better.npz", *more)
    assert (done.returncode, done.stderr) == (0, "")
    found = reports(done)
    assert [page["new"]["name"] for page in found] == ["new.npz", "better.npz"]
    cells = ("both_right", "negative_flips", "positive_flips", "both_wrong")
    assert [[page["counts"][cell] for cell in cells] for page in found] == [[3, 2, 1, 0], [5, 0, 1, 0]]
    assert [page["new"]["er_all"] for page in found] == [2 / 8, 1 / 8]
    alone = [json.loads(evaluate("old.npz", name, *more).stdout) for name in ("new.npz", "better.npz")]
    assert found == alone


def test_one_row_for_each_fits_80_columns_and_is_plain_in_a_pipe(evaluate: Call) -> None:
    done = evaluate("old.npz", "new.npz", "better.npz")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert "\x1b" not in done.stdout
    said = " ".join(done.stdout.split())
    assert "new.npz 2 of 6 33.33 % 4.33 to 77.72 % 33.33 % 25.00 %" in said
    assert "better.npz 0 of 6 0.00 % 0.00 to " in said
    assert "gate" not in said
    assert lines[-1] == "fewest flips: better.npz, 0 of 6"


def test_all_that_do_not_pass_are_named_and_the_gate_exits_3(evaluate: Call) -> None:
    np.savez("copy.npz", id=IDS, label=LABELS, pred=OLD, classes=[0, 1])
    words = ("old.npz", "new.npz", "better.npz", "copy.npz", "--max-nfr", "69", "--confidence", "0.95")
    done = evaluate(*words)
    assert (done.returncode, done.stderr.count("\n")) == (3, 1)
    assert "new.npz: gate undecided: --max-nfr: NFR 33.33 %" in done.stderr
    assert "; copy.npz: gate failed: OLD and NEW are the same model" in done.stderr
    assert "better.npz" not in done.stderr
    assert done.stdout.splitlines()[-1] == "FAILED: copy.npz; UNDECIDED: new.npz; PASSED: better.npz"
    found = reports(evaluate(*words, "--json"))
    assert [page["identical"] for page in found] == [False, False, True]
    assert [page["gate"]["passed"] for page in found] == [False, True, False]
    assert evaluate("old.npz", "new.npz", "better.npz", "--max-nfr", "34").returncode == 0


def test_a_note_on_one_of_them_says_on_which(evaluate: Call) -> None:
    np.savez("narrow.npz", id=IDS, label=LABELS, pred=OLD, classes=[0, 1])
    np.savez("plain.npz", id=IDS, label=LABELS, pred=OLD)
    done = evaluate("old.npz", "narrow.npz", "better.npz", "--allow-identical")
    assert "Note (narrow.npz): narrow.npz cannot predict 1 classes of the test set: 2." in " ".join(
        done.stdout.split()
    )
    both = " ".join(evaluate("plain.npz", "new.npz", "better.npz").stdout.split())
    assert both.count("Note: plain.npz does not say which classes it knows") == 1


def test_runs_are_asked_once_and_answer_as_each_does_alone(call: Call) -> None:
    split = make_split("digits", run_root=Path("runs"))
    num_old = split.classes.num_old
    untrained_run(Path("runs/old"), split.classes.old, num_old, seed=1, last="done")
    untrained_run(Path("runs/mpt-kl"), split.classes.names, num_old, seed=2, last="done")
    untrained_run(Path("runs/plain"), split.classes.names, num_old, seed=3, last="epoch")
    shown: list[tuple[str, int, int]] = []
    updates = load_updates(
        "old",
        ["mpt-kl", "plain"],
        Session(Path("runs"), "cpu", lambda what, done, total: shown.append((what, done, total))),
    )
    assert updates[0].models["old"] is updates[1].models["old"]
    # One pass over the test part for all three.
    n = len(split.indices("test"))
    assert [step[1:] for step in shown if step[0] == "test pictures"][-1] == (n, n)
    found = reports(call("old", "mpt-kl", "plain", "--device", "cpu", "--json"))
    alone = [
        json.loads(call("old", name, "--device", "cpu", "--json").stdout) for name in ("mpt-kl", "plain")
    ]
    assert found == alone
    assert [len(page["unfinished"]) for page in found] == [0, 1]
    gated = call("old", "mpt-kl", "plain", "--device", "cpu", "--max-nfr", "100", "--json")
    assert "plain: gate failed: runs/plain/best.pt: its run is not finished" in gated.stderr
    # An untrained old model is right by no more than chance, which fails every update.
    assert "mpt-kl: gate failed: the old model is right on" in gated.stderr
