"""The step bench: ways take turns, ratios are those of one repeat, and the published loop minimises the same."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from mptctl.bench import ways_to_train as ways_module
from mptctl.bench.published_loop import PublishedLoop, published_loss
from mptctl.bench.step import Seconds, StepBench, _time, bench_step, step_ratios
from mptctl.bench.ways_to_train import GRAPH_ROWS, STEP_ROWS, ways_to_train
from mptctl.cli.bench_tables import print_step
from mptctl.data.loading.part import Batch
from mptctl.errors import UsageError
from mptctl.methods.table import build_method
from mptctl.training.run import Student
from tests.common import CPU, CommandLine, short_recipe


def test_a_ratio_is_taken_repeat_by_repeat() -> None:
    # Whole times would say 9 / 10; in most repeats ours takes 1.2 times its floor.
    seconds: Seconds = {
        ("fp32", "floor"): [1.0, 2.0, 7.0],
        ("fp32", "ours"): [1.2, 2.4, 5.4],
        ("bf16", "ours"): [0.6, 1.2, 5.4],
        ("bf16", "published"): [0.6, 1.2, 2.7],
    }
    fp32, bf16 = step_ratios(seconds)
    assert (fp32.precision, bf16.precision) == ("fp32", "bf16")
    assert fp32.ours_to_floor is not None
    assert fp32.ours_to_floor.model_dump() == {
        "median": 1.2, "smallest": 0.7714, "largest": 1.2
    }  # fmt: skip
    assert fp32.cached_to_student is None
    assert fp32.ours_to_published is None
    assert fp32.ours_to_fp32 is None
    assert bf16.ours_to_published is not None
    assert bf16.ours_to_published.median == 1.0
    assert bf16.ours_to_fp32 is not None
    assert (bf16.ours_to_fp32.median, bf16.ours_to_fp32.largest) == (0.5, 1.0)


def test_a_graph_is_compared_with_the_floors_and_with_ours() -> None:
    (found,) = step_ratios(
        {("fp32", "floor-graph"): [1.0], ("fp32", "ours-graph"): [1.03], ("fp32", "ours"): [2.0]}
    )
    ratios = found.model_dump()
    assert ratios["graph_to_floor_graph"]["median"] == 1.03
    assert ratios["graph_to_ours"]["median"] == 1.03 / 2


def test_each_way_is_timed_in_both_precisions() -> None:
    recipe = short_recipe("optim.batch_size=8", method="mpt-kl")
    found = bench_step(recipe, num_classes=10, steps=2, repeats=3, device=CPU, precisions=("fp32", "bf16"))
    assert [(row.precision, row.name) for row in found.rows] == [
        (precision, name) for precision in ("fp32", "bf16") for name in STEP_ROWS if name not in GRAPH_ROWS
    ]
    for row in found.rows:
        assert 0 < row.slowest <= row.images_per_s <= row.fastest
    assert (found.loss_backend, found.threads) == ("reference", 1)
    assert found.skipped == dict.fromkeys(GRAPH_ROWS, "a graph is captured on a GPU")
    for ratios in found.ratios:
        ratio = ratios.ours_to_floor
        assert ratio is not None
        assert 0 < ratio.smallest <= ratio.median <= ratio.largest


def test_the_recipes_threads_are_taken_and_given_back() -> None:
    before = torch.get_num_threads()
    recipe = short_recipe("optim.batch_size=4", "runtime.threads=1", method="mpt-kl")
    torch.set_num_threads(2)
    try:
        found = bench_step(recipe, num_classes=4, steps=1, repeats=1, device=CPU, rows=("student",))
        assert (found.threads, torch.get_num_threads()) == (1, 2)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("method", ["mpt-kl", "mpt-lm", "pct-kl-own"])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_the_published_loop_minimises_what_ours_does(method: str, reduction: str) -> None:
    torch.manual_seed(0)
    made = build_method(method, num_old=3, lm_reduction=reduction)
    logits, ref = torch.randn(2, 16, 7).double()
    old, labels = torch.randn(16, 3).double(), torch.randint(0, 7, (16,))
    wanted = made.select_teachers(old, ref)
    leaf = logits.clone().requires_grad_()
    loss = published_loss(leaf, labels, *wanted, made.settings)
    (grad,) = torch.autograd.grad(loss, leaf)
    terms, own = made.value_and_grad(logits, labels, *wanted)
    torch.testing.assert_close(loss.detach(), terms["loss"])
    torch.testing.assert_close(grad, own)


def test_the_clock_of_the_process_does_not_run_while_it_sleeps() -> None:
    def sleeps() -> None:
        time.sleep(0.2)

    wall, cpu = (_time(sleeps, 1, CPU, now) for now in (time.perf_counter, time.process_time))
    assert wall >= 0.2 > cpu
    recipe = short_recipe("optim.batch_size=4", method="mpt-kl")
    found = bench_step(recipe, num_classes=4, steps=1, repeats=1, device=CPU, rows=("ours",), clock="cpu")
    assert (found.clock, found.rows[0].ms > 0) == ("cpu", True)
    with pytest.raises(UsageError, match=r"^--clock cpu: cuda computes; use --clock wall, or --device cpu"):
        bench_step(recipe, num_classes=4, steps=1, repeats=1, device=torch.device("cuda"), clock="cpu")


def test_a_loss_that_no_published_loop_has_is_said_to_be_left_out() -> None:
    recipe = short_recipe("optim.batch_size=4", "method.elodi_start_epoch=0", method="elodi-topk")
    found = bench_step(recipe, num_classes=12, steps=1, repeats=1, device=CPU)
    left_out = ["published", *GRAPH_ROWS]
    assert [row.name for row in found.rows] == [name for name in STEP_ROWS if name not in left_out]
    assert list(found.skipped) == left_out
    assert PublishedLoop.refuses(build_method("mpt-lm", num_old=2)) is None


def test_steps_leave_the_weights_where_they_are(tmp_path: Path) -> None:
    """Else a bench of many steps would diverge at the recipe's rate, and time NaNs."""
    recipe = short_recipe("optim.batch_size=8", "optim.accumulate=2", method="mpt-kl")
    ways, _ = ways_to_train(recipe, 10, CPU, tmp_path)
    learner = next(
        cell.cell_contents
        for cell in ways["ours-cached"].__closure__ or ()
        if isinstance(cell.cell_contents, Student)
    )
    before = [p.detach().clone() for p in learner.model.parameters()]
    for way in ways.values():
        way()
    assert all(torch.equal(p, q) for p, q in zip(learner.model.parameters(), before, strict=True))
    assert learner.guard.failed() is None


def test_a_step_with_mixing_mixes_pictures_and_labels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches: list[Batch] = []
    step = ways_module.train_step

    def kept(student: Student, batch: Batch, *rest: Any) -> Any:
        batches.append(batch)
        return step(student, batch, *rest)

    monkeypatch.setattr(ways_module, "train_step", kept)
    for keys in ((), ("data.mixup=1",)):
        recipe = short_recipe("optim.batch_size=8", *keys, method="mpt-kl")
        way = ways_to_train(recipe, 10, CPU, tmp_path, ("ours",))[0]["ours"]
        way(), way()
    plain, _, mixed, again = batches
    assert plain.mixing is None
    assert mixed.mixing is not None
    w = mixed.mixing.weight[0]
    assert 0 < w < 1
    wanted = plain.images[0] * w + plain.images[1] * (1 - w)
    torch.testing.assert_close(mixed.images[0], wanted)
    assert torch.equal(mixed.images, again.images)
    assert mixed.labels[:2].tolist() == mixed.mixing.others[:2].flip(0).tolist() == plain.labels[:2].tolist()
    with pytest.raises(UsageError, match=r"^optim.batch_size 7: .* take an even number$"):
        ways_to_train(short_recipe("optim.batch_size=7", *keys, method="mpt-kl"), 10, CPU, tmp_path)


def test_the_screen_has_rows_and_ratios(mptctl: CommandLine, capsys: pytest.CaptureFixture[str]) -> None:
    words = "--recipe", "digits", "--classes", "10", "--set", "optim.batch_size=4", "--steps", "1"
    some = "--rows", "ours,floor", "--repeats", "1", "--device", "cpu"
    out = mptctl("bench", "step", *words, *some)
    assert out.returncode == 0
    lines = out.stdout.splitlines()
    assert [line.split()[0] for line in lines if line.startswith(("ours ", "floor "))] == [
        "floor", "ours", "ours"
    ]  # fmt: skip
    assert "ours / floor" in out.stdout
    found = json.loads(mptctl("bench", "step", *words, *some, "--json").stdout)
    assert set(found["ratios"][0]) == {
        "precision", "ours_to_floor", "cached_to_student", "ours_to_published",
        "graph_to_floor_graph", "graph_to_ours", "ours_to_fp32",
    }  # fmt: skip
    # Convolutions in TF32 are on a GPU alone, and are said there.
    assert (found["tf32"], "TF32" in out.stdout) == (False, False)
    on_a_gpu = StepBench.model_validate({**found, "tf32": True})
    print_step(on_a_gpu)
    assert ", fp32 with convolutions in TF32\n" in capsys.readouterr().out
