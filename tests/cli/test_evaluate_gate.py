"""Limits of `mptctl evaluate`: what passes, what fails with 3, and what is said of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch

from mptctl.data.split import Split, make_split
from mptctl.models.checkpoint import CheckpointMeta, save_checkpoint
from mptctl.models.metrics_log import MetricsLine
from mptctl.models.networks import build_model
from mptctl.recipe import load_recipe
from tests.cli.conftest import IDS, LABELS, NEW, OLD, Call


def test_a_gate_that_holds(call: Call) -> None:
    done = call("old.npz", "new.npz", "--max-nfr", "34", "--json")
    assert done.code == 0
    assert json.loads(done.out)["gate"]["max_nfr"] == pytest.approx(0.34)


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


def test_with_confidence_the_upper_bound_must_pass(call: Call) -> None:
    assert call("old.npz", "new.npz", "--max-nfr", "34").code == 0
    assert call("old.npz", "new.npz", "--max-nfr", "34", "--confidence", "0.95").code == 3
    assert call("old.npz", "new.npz", "--max-nfr", "80", "--confidence", "0.95").code == 0


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
    let = call(*words, "--undecided", "pass", "--json")
    gate = json.loads(let.out)["gate"]
    assert (let.code, gate["answer"], gate["passed"]) == (0, "undecided", True)
    failed = call("old.npz", "new.npz", "--max-nfr", "4", "--confidence", "0.95", "--undecided", "pass")
    assert failed.code == 3


def test_a_gate_on_a_rate_that_is_not_defined_fails(call: Call) -> None:
    np.savez("perfect.npz", id=IDS, label=LABELS, pred=LABELS)
    done = call("old.npz", "perfect.npz", "--max-rel-nfr", "100", "--json")
    assert done.code == 3
    assert json.loads(done.out)["rel_nfr"] is None
    assert "n/a" in done.err


def test_lost_right_answers_have_a_limit(call: Call) -> None:
    page = json.loads(call("old.npz", "new.npz", "--max-lost", "40", "--json").out)
    assert page["lost"] == pytest.approx(2 / 5)
    assert page["rates"]["lost"]["ci95"][0] < 0.4 < page["rates"]["lost"]["ci95"][1]
    assert page["gate"]["max_lost"] == 0.4
    done = call("old.npz", "new.npz", "--max-lost", "39")
    assert done.code == 3
    assert "--max-lost: share of right predictions lost 40.00 % exceeds the limit of 39 %" in done.err
    assert call("old.npz", "new.npz", "--max-lost", "40", "--confidence", "0.95").code == 3


@pytest.mark.parametrize("limit", ["--max-nfr", "--max-lost", "--max-rel-nfr", "--max-er-increase"])
def test_one_model_twice_fails_every_limit_and_without_one_is_said(call: Call, limit: str) -> None:
    np.savez("copy.npz", id=IDS[::-1], label=LABELS[::-1], pred=OLD[::-1], classes=[0, 1])
    done = call("old.npz", "copy.npz", limit, "100")
    assert done.code == 3
    assert "nothing was compared" in done.err
    assert done.err.count("\n") == 1
    assert call("old.npz", "copy.npz", limit, "100", "--allow-identical").code == 0
    for words in ((), ("--markdown", "-")):
        said = call("old.npz", "copy.npz", *words)
        assert said.code == 0
        assert "OLD and NEW are the same model: nothing was compared." in " ".join(said.out.split())
    assert json.loads(call("old.npz", "copy.npz", "--json").out)["identical"] is True
    assert json.loads(call("old.npz", "new.npz", "--json").out)["identical"] is False


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
    run_folder(split, "old", split.classes.old, "done")
    run_folder(split, "new", split.classes.names, "epoch")
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


def run_folder(split: Split, name: str, classes: tuple[str, ...], last: Literal["epoch", "done"]) -> None:
    """A run folder with an untrained model; `last` is the last event of its metrics."""
    recipe = load_recipe("digits")
    torch.manual_seed(len(classes))
    model = build_model(recipe.model, len(classes), recipe.data.image_size)
    meta = CheckpointMeta(recipe=recipe, class_names=classes, num_old=split.classes.num_old)
    folder = split.run_root / name
    folder.mkdir()
    save_checkpoint(folder / "best.pt", meta, model.state_dict())
    line = MetricsLine(event=last, epoch=2, step=24)
    (folder / "metrics.jsonl").write_text(line.model_dump_json(exclude_none=True) + "\n")
    Path("old.txt").write_text("\n".join(split.classes.old))
