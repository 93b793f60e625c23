"""Flips after each validation: by hand, in batches, in any order, from several processes."""

from __future__ import annotations

import os
from contextlib import redirect_stdout
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.distributed as dist

from mptctl.errors import DataError, NonFiniteError
from mptctl.integrations import FlipMonitor
from mptctl.machine.facts import has_package
from tests.forked import process_of
from tests.integrations.small_arrays import LABELS, NEW, OLD

CLASSES = ["cat", "dog", "emu"]
LOGITS = np.eye(3, dtype=np.float32)[[0, 1, 1, 1, 2]]
FIGURES = {
    "nfr": 0.25, "negative_flips": 1, "positive_flips": 1, "n_old": 4, "er_old_classes": 0.25, "er_all": 0.2
}  # fmt: skip


def monitor(said: list[str] | None = None, **keys: object) -> FlipMonitor:
    say = None if said is None else said.append
    return FlipMonitor(LABELS, OLD, classes=CLASSES, old_classes=["cat", "dog"], say=say, **keys)  # type: ignore[arg-type]


def test_one_validation_by_hand() -> None:
    said: list[str] = []
    watch = monitor(said)
    report = watch(NEW)
    assert said == ["NFR 25.00 % (1 / 4, 95 % interval 0.63 to 80.59 %), error 20.00 % (1 / 5)"]
    assert {key: watch.metrics()[key] for key in FIGURES} == FIGURES
    assert (watch.metrics()["nfr_low"], watch.metrics()["nfr_high"]) == report.nfr_ci95


def test_batches_of_logits_in_the_stored_order() -> None:
    watch = monitor()
    for epoch in range(2):
        watch.update(torch.tensor(LOGITS[:2], requires_grad=True))
        watch.update(torch.tensor(LOGITS[2:]).bfloat16())
        assert watch.finish().nfr == 0.25
        assert len(watch.history) == epoch + 1
    watch(LABELS)
    assert [report.nfr for report in watch.history] == [0.25, 0.25, 0.0]


def test_with_ids_in_any_order_and_padded() -> None:
    """Distributed samplers repeat samples so that every process has as many: each counts once."""
    ids = ["a", "b", "c", "d", "e"]
    watch = monitor(ids=ids)
    order = [4, 2, 0, 1, 3, 4]
    watch.update(LOGITS[order[:3]], ids=[ids[i] for i in order[:3]])
    watch.update(LOGITS[order[3:]], ids=[ids[i] for i in order[3:]])
    assert watch.finish().counts.negative_flips == 1


@pytest.mark.parametrize("ids", [list("abcde"), [7, 8, 9, 10, 11]])
@pytest.mark.parametrize("ignored", [[], [-100]])
def test_a_stored_file_of_the_old_model(tmp_path: Path, ids: list[str | int], ignored: list[int]) -> None:
    labels = [str(label) for label in [*LABELS, *ignored]]
    answers, logits = [*OLD, *OLD[: len(ignored)]], np.concatenate([LOGITS, LOGITS[: len(ignored)]])
    ids = ids + (["f"] if isinstance(ids[0], str) else [12])[: len(ignored)]
    np.savez(tmp_path / "old.npz", id=ids, label=labels, pred=answers, classes=["cat", "dog"])
    watch = FlipMonitor.from_file(tmp_path / "old.npz", classes=CLASSES, say=None)
    assert watch(logits, ids=ids).nfr == 0.25
    assert watch.history[-1].old.name == str(tmp_path / "old.npz")


def test_without_old_answers_of_new_classes_numbers_do() -> None:
    logits = np.eye(2, dtype=np.float32)
    counts = FlipMonitor([0, 1, 2], logits[[0, 1, 0]], say=None)(np.eye(3)[[1, 1, 2]]).counts
    assert list(counts.model_dump().values()) == [1, 1, 0, 0]  # both right, lost, won, both wrong


def test_what_does_not_fit_is_one_line() -> None:
    watch = monitor(ids=["a", "b", "c", "d", "e"])
    with pytest.raises(DataError, match=r"new: id x is none of the 5 stored ones"):
        watch.update(["cat"], ids=["x"])
    with pytest.raises(DataError, match=r"new: 2 rows for 1 ids"):
        watch.update(["cat", "dog"], ids=["a"])
    watch.update(NEW[:3], ids=["a", "b", "c"])
    with pytest.raises(DataError, match=r"2 of 5 samples have no prediction \(d, e\)"):
        watch.finish()
    assert watch(NEW).nfr == 0.25  # what was left of the validation that failed is forgotten
    with pytest.raises(DataError, match=r"new: 6 predictions for 5 stored samples"):
        watch.update([*NEW, "emu"])
    watch.reset()
    with pytest.raises(NonFiniteError, match="new: 1 of 1 rows"):
        watch.update(np.full((1, 3), np.nan))
    with pytest.raises(DataError, match=r"new: logits of 2 columns for 3 `classes`"):
        watch.update(np.zeros((1, 2)))
    with pytest.raises(DataError, match="no validation yet"):
        monitor().metrics()


def test_compute_metrics_takes_what_a_trainer_gives() -> None:
    """A trainer of Hugging Face gives predictions and label_ids, and predictions may hold more than logits."""
    watch = monitor()
    given = SimpleNamespace(predictions=(LOGITS, np.zeros(5)), label_ids=np.array([0, 0, 1, 1, 2]))
    assert watch.compute_metrics(given)["negative_flips"] == 1
    other = SimpleNamespace(predictions=LOGITS, label_ids=np.array([2, 0, 1, 1, 0]))
    with pytest.raises(DataError, match=r"label_ids: 2 of 5 are not the stored labels .*same order"):
        watch.compute_metrics(other)


def validate_share(rank: int, folder: Path) -> None:
    """Be one of two processes of a validation: what it prints and what it counts go to files of its own."""
    os.environ["RANK"] = str(rank)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    with open(folder / f"said-{rank}", "w", encoding="utf-8") as said, redirect_stdout(said):
        watch = FlipMonitor(LABELS, OLD, ids=list("abcde"), old_classes=["cat", "dog"])
        share = [0, 2, 4] if rank == 0 else [1, 3, 0]
        watch.update([NEW[i] for i in share], ids=["abcde"[i] for i in share])
        report = watch.finish()
    (folder / f"counted-{rank}").write_text(f"{report.counts.negative_flips} {report.n}")
    dist.destroy_process_group()


def test_several_processes_put_their_answers_together(tmp_path: Path) -> None:
    processes = [process_of(validate_share, rank, tmp_path) for rank in range(2)]
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0, 0]
    assert [(tmp_path / f"counted-{rank}").read_text() for rank in range(2)] == ["1 5", "1 5"]
    # Every process knows, and the first one says it.
    said = [(tmp_path / f"said-{rank}").read_text() for rank in range(2)]
    assert [text.count("NFR 25.00 % (1 / 4") for text in said] == [1, 0]


@pytest.mark.skipif(
    has_package("lightning") or has_package("pytorch_lightning"), reason="Lightning is installed"
)
def test_without_lightning_its_callback_says_what_to_install() -> None:
    with pytest.raises(ModuleNotFoundError, match="Lightning is not installed; pip install lightning"):
        import mptctl.integrations.lightning  # noqa: F401
