"""What a new user of `mptctl evaluate` does wrong, or takes for something else."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import IDS, LABELS, NEW, OLD, Call
from tests.common import command, environment


def test_where_both_streams_go_to_one_place_the_verdict_is_said_once_and_last(call: Call) -> None:
    apart = call("old.npz", "new.npz", "--max-nfr", "2")
    assert apart.err.startswith("mptctl: gate failed: --max-nfr")
    np.savez("right.npz", id=IDS, label=LABELS, pred=LABELS)
    for words in (("new.npz",), ("new.npz", "right.npz")):
        done = subprocess.run(
            command("evaluate", "old.npz", *words, "--max-nfr", "2"),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment(),
        )  # fmt: skip
        assert done.returncode == 3
        *_, before, last = done.stdout.splitlines()
        assert (before, last[:6]) == ("", "FAILED")
        assert "gate failed" not in done.stdout


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        ("0.02", ["--max-nfr 0.02: is in percent, so that it is 2 of 10,000; if 2 % was meant, give 2"]),
        ("0.1", []),
        ("0", []),
    ],
)
def test_a_limit_that_looks_like_a_fraction_is_remarked(call: Call, limit: str, said: list[str]) -> None:
    for words in (("--max-nfr", limit), ("--gate", "gate.yaml")):
        Path("gate.yaml").write_text(f"limits: {{max_nfr: {limit}}}")
        assert json.loads(call("old.npz", "new.npz", *words, "--json").out)["warnings"] == said


def test_a_page_is_not_written_into_a_file_of_another_kind(call: Call) -> None:
    for words in (("old.npz", "new.npz"), ("old.npz",)):
        done = call(*words, "--report", "out.pdf")
        assert (done.code, done.out) == (2, "")
        assert "--report out.pdf: would hold an HTML page; name a file that ends in .html" in done.err
        assert not Path("out.pdf").exists()
    assert call("old.npz", "new.npz", "--report", "page.HTM").code == 0


def test_models_in_the_wrong_order_are_remarked_where_they_can_be_compared(call: Call) -> None:
    remark = "OLD looks newer than NEW: new.npz predicts 3 classes with 25.00 % errors, old.npz 2 of them"
    swapped = call("new.npz", "old.npz")
    assert (swapped.code, swapped.out) == (4, "")
    assert "old.npz: does not know 1 of the 3 old classes (2); were OLD and NEW swapped?" in swapped.err
    Path("classes.txt").write_text("0\n1\n")
    known = call("new.npz", "old.npz", "--old-classes", "classes.txt")
    assert remark in " ".join(known.out.split())
    assert "looks newer" not in call("old.npz", "new.npz").out
    # Without class lists a model knows what it predicts.
    np.savez("new.npz", id=IDS, label=LABELS, pred=NEW)
    np.savez("old.npz", id=IDS, label=LABELS, pred=OLD)
    assert remark in " ".join(call("new.npz", "old.npz").out.split())
    # A class that is predicted for none of its few samples may still be known.
    rare = np.concatenate([LABELS, np.zeros(40, dtype=int)])
    ids = [f"{i}" for i in range(len(rare))]
    np.savez("rare-old.npz", id=ids, label=rare, pred=rare)
    np.savez("rare-new.npz", id=ids, label=rare, pred=np.where(rare == 2, 1, rare))
    assert "looks newer" not in call("rare-old.npz", "rare-new.npz").out


def test_letters_and_digits_as_labels_bring_no_warning(call: Call) -> None:
    for names, warned in (("ab3", False), (("ab", "b", "3"), True)):
        for name, answers in (("old", OLD), ("new", NEW)):
            np.savez(
                f"{name}.npz", id=IDS, label=np.array([*names])[LABELS], pred=np.array([*names])[answers]
            )
        said = json.loads(call("old.npz", "new.npz", "--json").out)["warnings"]
        assert any("of its labels are numbers" in warning for warning in said) is warned
