"""Limits of `mptctl evaluate`: what passes, what fails with 3, and what is said of it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from mptctl.data.split import make_split
from tests.cli.conftest import IDS, LABELS, NEW, OLD, Call
from tests.untrained import untrained_run


def test_a_gate_that_fails_exits_3_after_the_report_and_names_every_limit(call: Call) -> None:
    done = call(
        "old.npz", "new.npz", "--max-nfr", "33", "--max-er-increase", "10", "--max-rel-nfr", "200", "--json"
    )
    assert done.code == 3
    page = json.loads(done.out)
    assert page["gate"]["passed"] is False
    assert page["gate"]["failed"] == ["max-nfr", "max-er-increase"]
    assert done.err.count("\n") == 1
    assert "--max-nfr: NFR 33.33 % exceeds the limit of 33 %" in done.err
    assert "--max-er-increase" in done.err
    assert "--max-rel-nfr" not in done.err


def test_an_undecided_gate_exits_3_says_so_everywhere_and_may_be_let_pass(call: Call) -> None:
    words = ("old.npz", "new.npz", "--max-nfr", "34", "--confidence", "0.95")
    done = call(*words, "--report", "page.html", "--markdown", "page.md")
    assert done.code == 3
    assert (
        "gate undecided: --max-nfr: NFR 33.33 % (95 % interval 4.33 to 77.72 %) is undecided: the interval contains"
        in done.err
    )
    pages = Path("page.html").read_text(), Path("page.md").read_text()
    assert all("Undecided: NFR 33.33 %, limit 34 %" in page for page in pages)
    assert done.out.endswith("\nUNDECIDED  NFR 33.33 %, limit 34 %  (2 of 6, 95 % interval 4.33 to 77.72)\n")
    assert "more samples of old classes would settle --max-nfr at this rate." in " ".join(done.out.split())
    for text in pages:
        assert "more samples of old classes would settle it with 80 % probability" in " ".join(text.split())
    assert max(len(line) for line in done.out.splitlines()) <= 80


def test_an_old_model_that_is_never_right_fails_every_gate(call: Call) -> None:
    np.savez("never.npz", id=IDS, label=LABELS, pred=np.where(LABELS == 0, 1, 0), classes=[0, 1])
    done = call("never.npz", "new.npz", "--max-nfr", "2", "--json")
    assert done.code == 3
    page = json.loads(done.out)
    assert (page["lost"], page["gate"]["failed"]) == (None, ["old-never-right"])
    assert "the old model is wrong on all 6 samples" in done.err
    assert call("never.npz", "new.npz").code == 0


def test_wrong_data_exits_4_where_the_gate_would_exit_3(call: Call) -> None:
    np.savez("bad.npz", id=IDS, label=LABELS[::-1], pred=NEW)
    assert call("old.npz", "bad.npz", "--max-nfr", "0").code == 4
    # One model twice, and no sample of an old class.
    np.savez("two.npz", id=IDS[:6], label=LABELS[:6], pred=OLD[:6], classes=[0, 1, 2])
    Path("other.txt").write_text("2\n")
    assert call("two.npz", "two.npz", "--old-classes", "other.txt", "--max-nfr", "2").code == 4


def test_an_unfinished_run_fails_every_limit_and_is_said(call: Call) -> None:
    split = make_split("digits", run_root=Path("runs"))
    num_old = split.classes.num_old
    untrained_run(Path("runs/old"), split.classes.old, num_old, seed=5, last="done")
    untrained_run(Path("runs/new"), split.classes.names, num_old, seed=10, last="epoch")
    Path("old.txt").write_text("\n".join(split.classes.old))
    sentence = "runs/new/best.pt: its run is not finished (epoch 2 of "
    plain = call("old", "new", "--device", "cpu", "--report", "page.html", "--markdown", "page.md", "--json")
    assert plain.code == 0
    page = json.loads(plain.out)
    assert len(page["unfinished"]) == 1
    for text in (page["unfinished"][0], Path("page.html").read_text(), Path("page.md").read_text()):
        assert sentence in text
    for order in (("old", "new"), ("new", "new")):
        done = call(*order, "--device", "cpu", "--max-nfr", "100", "--old-classes", "old.txt")
        assert done.code == 3
        assert sentence in " ".join(done.err.split())
    # An untrained old model always gives one answer, which is no better than chance.
    done = call("old", "new", "--device", "cpu", "--max-nfr", "100", "--allow-unfinished", "--json")
    assert json.loads(done.out)["gate"]["failed"] == ["old-by-chance"]
    assert sentence in " ".join(call("old", "new", "--device", "cpu").out.split())
